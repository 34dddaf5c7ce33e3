/* One kernel alone: a linear layer with GELU, out = gelu(x W^T + bias), on every backend.
 *
 *     linear
 *     baseline: 0.8413 -0.1543
 */
#include "picoformer.h"
#include <stdio.h>

#define COLS 2
#define DEPTH 3

int main(void) {
    static const float weights[COLS * DEPTH] = {1, 2, 3, -1, 0, 0.5f}; /* a row for each column */
    static const float x[DEPTH] = {1, -2, 1};
    /* Weights of kernels lie in lines of sixteen floats. */
    PF_ALIGNED static float packed[PF_PADDED(COLS) * DEPTH];
    PF_ALIGNED static const float bias[PF_PADDED(COLS)] = {1, 0};
    float out[COLS];
    size_t i;
    int code = pf_matmul_pack(weights, COLS, DEPTH, packed, sizeof packed / sizeof *packed);
    for (i = 0; i < pf_cpu_count() && code == PF_OK; i++) {
        const pf_cpu *cpu = pf_cpu_at(i);
        code = pf_matmul(cpu, x, 1, DEPTH, packed, bias, PF_GELU_ERF, COLS, out);
        if (code == PF_OK) printf("%s: %.4f %.4f\n", pf_cpu_name(cpu), out[0], out[1]);
    }
    if (code != PF_OK) fprintf(stderr, "%s\n", pf_error(code));
    return code == PF_OK ? 0 : 1;
}
