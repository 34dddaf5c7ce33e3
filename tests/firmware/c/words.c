/* Spelling to phonemes on a microcontroller: the model stays in flash, the arena is what RAM
 * has left. One word a line. */
#include "board.h"
#include "picoformer.h"

extern const unsigned char image_start[], image_end[];
extern unsigned char arena_start[], arena_end[];

#define LONGEST 32u

static pf_model model;

static int spell(pf_session *session, const char *word) {
    static uint32_t source[LONGEST], target[LONGEST];
    static char text[256];
    pf_encoded encoded;
    size_t length = 0, tokens = 0, letters = 0;
    int ended = 0, code;
    while (word[length]) length++;
    code = pf_text_encode(&model, PF_SOURCE, word, length, source, LONGEST, &encoded);
    if (code == PF_OK) code = pf_session_encode(session, source, 0, &encoded.tokens, 1);
    if (code == PF_OK) code = pf_session_generate_into(session, 1, LONGEST, target, &tokens, &ended);
    if (code == PF_OK) code = pf_text_decode(&model, PF_TARGET, target, tokens, text, sizeof text, &letters);
    board_print(word);
    board_print(": ");
    board_print(code == PF_OK ? text : pf_error(code));
    board_print("\n");
    return code;
}

int main(void) {
    static const char *const words[] = {"a", "hello", "transformer", "microcontroller",
        "queue", "knight", "don't", "supercalifragilistic"};
    const pf_capacity capacity = {1, LONGEST, LONGEST, 1};
    pf_session *session = NULL;
    size_t i;
    int code = pf_model_open(image_start, (size_t)(image_end - image_start), &model);
    if (code == PF_OK)
        code = pf_session_open(&model, &capacity, NULL, arena_start, (size_t)(arena_end - arena_start), &session);
    for (i = 0; code == PF_OK && i < sizeof words / sizeof *words; i++) code = spell(session, words[i]);
    if (code != PF_OK) {
        board_print(pf_error(code));
        board_print("\n");
    }
    return code == PF_OK ? 0 : 1;
}
