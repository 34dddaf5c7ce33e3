/* Spelling to phonemes: phonemes IMAGE TEXT
 *
 *     phonemes std-bindings/models/g2p-en/g2p-en.pf "hello world"
 *     HH EH1 L OW0  W ER1 L D
 */
#define _POSIX_C_SOURCE 200809L
#include "map.h"
#include "picoformer.h"
#include <stdlib.h>
#include <string.h>

/* Everything that a word needs, for the longest that the model reads. */
typedef struct {
    pf_model model;
    pf_info info;
    pf_session *session;
    void *arena;
    uint32_t *source, *target;
    char *text;
    size_t room; /* bytes of text */
} speaker;

static int failed(const char *what, int code) {
    fprintf(stderr, "%s: %s\n", what, pf_error(code));
    return 0;
}

static int open_speaker(speaker *s, const void *image, size_t size) {
    pf_capacity capacity = {1, SIZE_MAX, SIZE_MAX, 1};
    size_t arena_size = 0;
    int code = pf_model_open(image, size, &s->model);
    if (code == PF_OK) code = pf_model_info(&s->model, &s->info);
    if (code == PF_OK) code = pf_arena_size(&s->model, &capacity, &arena_size);
    if (code != PF_OK) return failed("model", code);
    s->room = 16 * (size_t)s->info.target_context;
    s->arena = malloc(arena_size);
    s->source = (uint32_t *)malloc(s->info.source_context * sizeof *s->source);
    s->target = (uint32_t *)malloc(s->info.target_context * sizeof *s->target);
    s->text = (char *)malloc(s->room);
    if (!s->arena || !s->source || !s->target || !s->text) {
        fprintf(stderr, "out of memory\n");
        return 0;
    }
    code = pf_session_open(&s->model, &capacity, NULL, s->arena, arena_size, &s->session);
    return code == PF_OK || failed("session", code);
}

static int speak(speaker *s, const char *word, size_t length) {
    pf_encoded encoded;
    size_t tokens = 0, letters = 0;
    int ended = 0;
    int code = pf_text_encode(&s->model, PF_SOURCE, word, length, s->source, s->info.source_context, &encoded);
    if (code == PF_OK) code = pf_session_encode(s->session, s->source, 0, &encoded.tokens, 1);
    if (code == PF_OK)
        code = pf_session_generate_into(s->session, 1, s->info.target_context, s->target, &tokens, &ended);
    if (code == PF_OK)
        code = pf_text_decode(&s->model, PF_TARGET, s->target, tokens, s->text, s->room, &letters);
    if (code != PF_OK) return failed("word", code);
    printf("%s", s->text);
    return 1;
}

int main(int argc, char **argv) {
    speaker s;
    const void *image;
    size_t size = 0, length, start = 0, end = 0;
    const char *separator = "";
    int good;

    if (argc != 3) {
        fprintf(stderr, "usage: %s IMAGE TEXT\n", argv[0]);
        return 2;
    }
    memset(&s, 0, sizeof s);
    length = strlen(argv[2]);
    image = map_file(argv[1], &size);
    good = image && open_speaker(&s, image, size);
    /* The model reads one word at a time. */
    while (good) {
        int code = pf_text_word(argv[2], length, end, &start, &end);
        if (code != PF_OK) good = failed("text", code);
        if (!good || start == end) break;
        printf("%s", separator);
        separator = "  ";
        good = speak(&s, argv[2] + start, end - start);
    }
    if (good) printf("\n");
    free(s.arena);
    free(s.source);
    free(s.target);
    free(s.text);
    return good ? 0 : 1;
}
