/* How close two sentences are, from -1 to 1: similarity IMAGE A B
 *
 *     similarity models/minilm.pf "The cat sits outside" "The feline is outdoors"
 *     0.5552
 */
#define _POSIX_C_SOURCE 200809L
#include "map.h"
#include "picoformer.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static double cosine(const float *a, const float *b, size_t size) {
    double ab = 0, aa = 0, bb = 0;
    size_t i;
    for (i = 0; i < size; i++) {
        ab += (double)a[i] * b[i];
        aa += (double)a[i] * a[i];
        bb += (double)b[i] * b[i];
    }
    return ab / sqrt(aa * bb);
}

int main(int argc, char **argv) {
    pf_model model;
    pf_info info;
    pf_capacity capacity = {2, 0, 0, 1};
    pf_session *session;
    pf_encoded encoded[2];
    size_t size = 0, arena_size = 0, lengths[2], i;
    uint32_t *tokens = NULL;
    float *vectors = NULL;
    void *arena = NULL;
    const void *image;
    int code;

    if (argc != 4) {
        fprintf(stderr, "usage: %s IMAGE A B\n", argv[0]);
        return 2;
    }
    image = map_file(argv[1], &size);
    if (!image) return 1;
    code = pf_model_open(image, size, &model);
    if (code == PF_OK) code = pf_model_info(&model, &info);
    /* How many tokens the sentences have: the session is just large enough for both. */
    for (i = 0; i < 2 && code == PF_OK; i++) {
        code = pf_text_encode(&model, PF_SOURCE, argv[i + 2], strlen(argv[i + 2]), NULL, 0, &encoded[i]);
        if (code == PF_OK && encoded[i].tokens > capacity.source) capacity.source = encoded[i].tokens;
    }
    if (code == PF_OK) code = pf_arena_size(&model, &capacity, &arena_size);
    if (code == PF_OK) {
        arena = malloc(arena_size);
        tokens = (uint32_t *)malloc(2 * capacity.source * sizeof *tokens);
        vectors = (float *)malloc(2 * info.d_model * sizeof *vectors);
        if (!arena || !tokens || !vectors) {
            fprintf(stderr, "out of memory\n");
            return 1;
        }
        code = pf_session_open(&model, &capacity, NULL, arena, arena_size, &session);
    }
    for (i = 0; i < 2 && code == PF_OK; i++) {
        code = pf_text_encode(&model, PF_SOURCE, argv[i + 2], strlen(argv[i + 2]),
                              tokens + i * capacity.source, capacity.source, &encoded[i]);
        lengths[i] = encoded[i].tokens;
    }
    if (code == PF_OK) code = pf_session_encode(session, tokens, capacity.source, lengths, 2);
    for (i = 0; i < 2 && code == PF_OK; i++) {
        code = pf_session_embedding(session, i, info.d_model, vectors + i * info.d_model);
    }
    if (code == PF_OK) {
        printf("%.4f\n", cosine(vectors, vectors + info.d_model, info.d_model));
    } else {
        fprintf(stderr, "%s\n", pf_error(code));
    }
    free(arena);
    free(tokens);
    free(vectors);
    return code == PF_OK ? 0 : 1;
}
