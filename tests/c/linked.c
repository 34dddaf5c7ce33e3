/* One program with two Rust libraries: picoformer and tests/c/other. */
#include "picoformer.h"

uint64_t other_mix(uint64_t x);

#ifdef BARE
/* No libc: an entry, and nothing that returns. */
int main(void);
void _start(void);
void _start(void) {
    volatile int result = main();
    (void)result;
    for (;;) {
    }
}
#else
#include <stdio.h>
int other_unwinds(void);
#endif

int main(void) {
    pf_model model;
    pf_session *session;
    pf_capacity capacity = {1, 1, 1, 1};
    float x[3] = {1, 1, 1};
    int ended;
    /* All that a program would use, so that all of it is linked. */
    int code = pf_model_open(NULL, 0, &model);
    if (code == PF_OK) code = pf_session_open(&model, &capacity, NULL, x, sizeof x, &session);
    if (code == PF_OK) code = pf_session_generate(session, 1, NULL, NULL, &ended);
    if (code != PF_E_NULL || other_mix(39) == other_mix(38)) return 1;
    if (pf_softmax(NULL, 1, 3, x) != PF_OK || x[0] < 0.333f || x[0] > 0.334f) return 2;
#ifndef BARE
    if (!other_unwinds()) return 3;
    printf("both libraries answered\n");
#endif
    return 0;
}
