/* Every misuse gives its code and changes nothing: misuse IMAGE [ENCODER]
 *
 * IMAGE is the embedded encoder-decoder; ENCODER an encoder without decoder. */
#include "check.h"

#define WORD "phoneme"

static pf_model model, zeros;
static pf_info info;
static pf_capacity capacity = {2, SIZE_MAX, SIZE_MAX, 2};
static uint32_t source[64], reference[2][64];
static size_t source_length, reference_lengths[2];

static void images(const char *path) {
    size_t size, i;
    char *image = read_file(path, &size), *odd;
    pf_model before;
    uint32_t word;
    const size_t skews[] = {1, 4, 32};

    memset(&before, 0x5a, sizeof before);
    model = before;
    EXPECT(PF_E_NULL, pf_model_open(NULL, size, &model));
    EXPECT(PF_E_NULL, pf_model_open(NULL, 0, &model));
    EXPECT(PF_E_NULL, pf_model_open(image, size, NULL));
    EXPECT(PF_E_ALIGN, pf_model_open(image, size, (pf_model *)(void *)((char *)&model + 1)));
    EXPECT(PF_E_IMAGE, pf_model_open(image, 0, &model));
    EXPECT(PF_E_IMAGE, pf_model_open(image, 7, &model));
    EXPECT(PF_E_IMAGE, pf_model_open(image, 255, &model));
    EXPECT(PF_E_IMAGE, pf_model_open(image, size - 1, &model));
    EXPECT(PF_E_OVERLAP, pf_model_open(image, size, (pf_model *)(void *)(image + 256)));
    for (i = 0; i < 3; i++) {
        odd = place(size, skews[i]);
        memcpy(odd, image, size);
        EXPECT(PF_E_ALIGN, pf_model_open(odd, size, &model));
    }
#define DAMAGE(at, value, code) \
    do { \
        uint32_t new_ = (value); \
        memcpy(&word, image + (at), 4); \
        memcpy(image + (at), &new_, 4); \
        EXPECT(code, pf_model_open(image, size, &model)); \
        memcpy(image + (at), &word, 4); \
    } while (0)
    DAMAGE(0, 0, PF_E_IMAGE);        /* the magic */
    DAMAGE(8, 99, PF_E_VERSION);     /* the version */
    DAMAGE(12, 128, PF_E_IMAGE);     /* the header's length */
    DAMAGE(16, 1, PF_E_IMAGE);       /* the file's length */
    DAMAGE(32, 64, PF_E_IMAGE);      /* the weights' length */
    DAMAGE(40, UINT32_MAX, PF_E_IMAGE); /* the tokenizer's length */
    DAMAGE(56, 9, PF_E_IMAGE);       /* the stack: no such choice */
    DAMAGE(60, 0, PF_E_CONFIG);      /* d_model */
    CHECK(memcmp(&model, &before, sizeof model) == 0);

    /* What never was a model. */
    EXPECT(PF_E_STATE, pf_model_verify(&model));
    EXPECT(PF_E_STATE, pf_model_verify(&zeros));
    EXPECT(PF_E_NULL, pf_model_verify(NULL));
    EXPECT(PF_E_STATE, pf_model_info(&zeros, &info));
    EXPECT(PF_E_ALIGN, pf_model_info((const pf_model *)(const void *)((const char *)&zeros + 4), &info));

    EXPECT(PF_OK, pf_model_open(image, size, &model));
    EXPECT(PF_OK, pf_model_verify(&model));
    image[300] ^= 1;
    EXPECT(PF_E_CHECKSUM, pf_model_verify(&model));
    image[300] ^= 1;
    EXPECT(PF_OK, pf_model_verify(&model));
    EXPECT(PF_E_NULL, pf_model_info(&model, NULL));
    EXPECT(PF_E_NULL, pf_model_info(NULL, &info));
    EXPECT(PF_OK, pf_model_info(&model, &info));
    /* A failed opening leaves an open model as it was. */
    EXPECT(PF_E_IMAGE, pf_model_open(image, size - 1, &model));
    EXPECT(PF_OK, pf_model_verify(&model));
}

/* The same image without its target's tokenizer. */
static void no_tokenizer(const char *path) {
    size_t size, length = 99;
    char *image = read_file(path, &size), text[9] = "as it is";
    const uint64_t none = 0;
    uint64_t target, left;
    uint32_t token = 0;
    pf_model bare;
    memcpy(&target, image + 48, 8);
    left = size - target;
    memcpy(image + 16, &left, 8);
    memcpy(image + 48, &none, 8);
    EXPECT(PF_OK, pf_model_open(image, (size_t)left, &bare));
    EXPECT(PF_E_MISSING, pf_text_decode(&bare, PF_TARGET, &token, 1, text, sizeof text, &length));
    CHECK(length == 99 && memcmp(text, "as it is", 8) == 0);
}

static void texts(void) {
    uint32_t tokens[64], untouched[64];
    pf_encoded encoded, before;
    char text[64], same[64];
    const char *piece = NULL;
    size_t length = 99, start = 98, end = 97, i;

    memset(tokens, 0x5a, sizeof tokens);
    memcpy(untouched, tokens, sizeof tokens);
    memset(&encoded, 0x5a, sizeof encoded);
    before = encoded;
    EXPECT(PF_E_NULL, pf_text_encode(NULL, PF_SOURCE, WORD, 7, tokens, 64, &encoded));
    EXPECT(PF_E_STATE, pf_text_encode(&zeros, PF_SOURCE, WORD, 7, tokens, 64, &encoded));
    EXPECT(PF_E_CHOICE, pf_text_encode(&model, 2, WORD, 7, tokens, 64, &encoded));
    EXPECT(PF_E_CHOICE, pf_text_encode(&model, -1, WORD, 7, tokens, 64, &encoded));
    EXPECT(PF_E_NULL, pf_text_encode(&model, PF_SOURCE, NULL, 7, tokens, 64, &encoded));
    EXPECT(PF_E_NULL, pf_text_encode(&model, PF_SOURCE, WORD, 7, NULL, 64, &encoded));
    EXPECT(PF_E_NULL, pf_text_encode(&model, PF_SOURCE, WORD, 7, tokens, 64, NULL));
    EXPECT(PF_E_ALIGN, pf_text_encode(&model, PF_SOURCE, WORD, 7, (uint32_t *)(void *)((char *)tokens + 1), 60, &encoded));
    EXPECT(PF_E_SHAPE, pf_text_encode(&model, PF_SOURCE, WORD, SIZE_MAX, NULL, 0, &encoded));
    EXPECT(PF_E_TEXT, pf_text_encode(&model, PF_SOURCE, "a\xff", 2, tokens, 64, &encoded));
    EXPECT(PF_E_TEXT, pf_text_encode(&model, PF_SOURCE, "a\xc3", 2, tokens, 64, &encoded));
    EXPECT(PF_E_BUFFER, pf_text_encode(&model, PF_SOURCE, WORD, 7, tokens, 6, &encoded));
    EXPECT(PF_E_OVERLAP, pf_text_encode(&model, PF_SOURCE, (char *)tokens, 7, tokens, 64, &encoded));
    CHECK(memcmp(tokens, untouched, sizeof tokens) == 0);
    CHECK(memcmp(&encoded, &before, sizeof encoded) == 0);
    EXPECT(PF_OK, pf_text_encode(&model, PF_SOURCE, WORD, 7, NULL, 0, &encoded));
    length = encoded.tokens;
    EXPECT(PF_OK, pf_text_encode(&model, PF_SOURCE, WORD, 7, tokens, length, &encoded));
    CHECK(encoded.tokens == length && encoded.unknown == 0 && encoded.first_unknown == 0);
    EXPECT(PF_OK, pf_text_encode(&model, PF_SOURCE, "", 0, NULL, 0, &encoded));
    memcpy(source, tokens, sizeof source);
    source_length = length;

    memset(text, 0x5a, sizeof text);
    memcpy(same, text, sizeof text);
    length = 99;
    EXPECT(PF_E_NULL, pf_text_decode(&model, PF_SOURCE, NULL, 3, text, 64, &length));
    EXPECT(PF_E_NULL, pf_text_decode(&model, PF_SOURCE, tokens, 3, NULL, 64, &length));
    EXPECT(PF_E_NULL, pf_text_decode(&model, PF_SOURCE, tokens, 3, text, 64, NULL));
    EXPECT(PF_E_CHOICE, pf_text_decode(&model, 7, tokens, 3, text, 64, &length));
    EXPECT(PF_E_TOKEN, pf_text_decode(&model, PF_SOURCE, &info.source_vocab, 1, text, 64, &length));
    EXPECT(PF_E_BUFFER, pf_text_decode(&model, PF_SOURCE, source, source_length, text, 7, &length));
    EXPECT(PF_E_BUFFER, pf_text_decode(&model, PF_SOURCE, source, source_length, text, 1, &length));
    EXPECT(PF_E_OVERLAP, pf_text_decode(&model, PF_SOURCE, source, source_length, (char *)source, 8, &length));
    CHECK(length == 99 && memcmp(text, same, sizeof text) == 0);
    EXPECT(PF_OK, pf_text_decode(&model, PF_SOURCE, source, source_length, NULL, 0, &length));
    CHECK(length == 7);
    EXPECT(PF_OK, pf_text_decode(&model, PF_SOURCE, source, source_length, text, 8, &length));
    CHECK(strcmp(text, WORD) == 0 && text[8] == same[8]);

    EXPECT(PF_E_TOKEN, pf_text_token(&model, PF_SOURCE, info.source_vocab, &piece, &length));
    EXPECT(PF_E_NULL, pf_text_token(&model, PF_SOURCE, 0, NULL, &length));
    EXPECT(PF_E_NULL, pf_text_token(&model, PF_SOURCE, 0, &piece, NULL));
    CHECK(piece == NULL && length == 7);

    EXPECT(PF_E_NULL, pf_text_word(NULL, 3, 0, &start, &end));
    EXPECT(PF_E_SHAPE, pf_text_word("abc", 3, 4, &start, &end));
    EXPECT(PF_E_TEXT, pf_text_word("\xc3\xa9", 2, 1, &start, &end));
    EXPECT(PF_E_TEXT, pf_text_word("\xc3", 1, 0, &start, &end));
    EXPECT(PF_E_NULL, pf_text_word("abc", 3, 0, NULL, &end));
    EXPECT(PF_E_OVERLAP, pf_text_word("abc", 3, 0, &start, &start));
    CHECK(start == 98 && end == 97);
    EXPECT(PF_OK, pf_text_word("abc", 3, 3, &start, &end));
    CHECK(start == 3 && end == 3);

    for (i = 0; i < 100; i++) CHECK(pf_error((int)i - 50) != NULL);
}

static pf_session *opened(size_t skew) {
    pf_session *session = NULL;
    size_t size = 0;
    EXPECT(PF_OK, pf_arena_size(&model, &capacity, &size));
    EXPECT(PF_OK, pf_session_open(&model, &capacity, NULL, place(size, skew), size, &session));
    return session;
}

/* What the session makes of the word now; the same, however it was misused. */
static void same_answer(pf_session *session) {
    uint32_t tokens[64];
    size_t length = 0;
    int ended = -1;
    EXPECT(PF_OK, pf_session_restart(session, 1));
    EXPECT(PF_OK, pf_session_generate_into(session, 1, 64, tokens, &length, &ended));
    CHECK(length == reference_lengths[0] && memcmp(tokens, reference[0], length * 4) == 0 && ended == 1);
}

static void arenas(void) {
    const pf_capacity wrong[] = {{0, 8, 8, 1}, {1, 0, 8, 1}, {1, 8, 0, 1}, {1, 8, 8, 0}, {SIZE_MAX, 8, 8, 1}};
    size_t size = 77, i;
    char *arena, *same;
    pf_session *session = NULL;
    int ended = -1;

    for (i = 0; i < 5; i++) {
        EXPECT(PF_E_CONFIG, pf_arena_size(&model, &wrong[i], &size));
        EXPECT(PF_E_CONFIG, pf_session_open(&model, &wrong[i], NULL, &arena, 8, &session));
    }
    EXPECT(PF_E_NULL, pf_arena_size(NULL, &capacity, &size));
    EXPECT(PF_E_NULL, pf_arena_size(&model, NULL, &size));
    EXPECT(PF_E_NULL, pf_arena_size(&model, &capacity, NULL));
    EXPECT(PF_E_STATE, pf_arena_size(&zeros, &capacity, &size));
    CHECK(size == 77);
    EXPECT(PF_OK, pf_arena_size(&model, &capacity, &size));

    arena = place(size, 1);
    same = place(size, 1);
    memset(arena, 0x5a, size);
    memset(same, 0x5a, size);
    EXPECT(PF_E_ARENA, pf_session_open(&model, &capacity, NULL, arena, size - 1, &session));
    EXPECT(PF_E_ARENA, pf_session_open(&model, &capacity, NULL, arena, 0, &session));
    EXPECT(PF_E_NULL, pf_session_open(&model, &capacity, NULL, NULL, size, &session));
    EXPECT(PF_E_NULL, pf_session_open(&model, &capacity, NULL, arena, size, NULL));
    EXPECT(PF_E_NULL, pf_session_open(&model, NULL, NULL, arena, size, &session));
    EXPECT(PF_E_NULL, pf_session_open(NULL, &capacity, NULL, arena, size, &session));
    EXPECT(PF_E_STATE, pf_session_open(&zeros, &capacity, NULL, arena, size, &session));
    EXPECT(PF_E_CHOICE, pf_session_open(&model, &capacity, (const pf_cpu *)(void *)&size, arena, size, &session));
    EXPECT(PF_E_OVERLAP, pf_session_open(&model, &capacity, NULL, &model, sizeof model, &session));
    CHECK(session == NULL && memcmp(arena, same, size) == 0);
    EXPECT(PF_OK, pf_model_verify(&model));

    /* Exactly the size suffices, from every byte on. */
    for (i = 0; i < 64; i++) {
        session = opened(i);
        EXPECT(PF_OK, pf_session_encode(session, source, 0, &source_length, 1));
        if (i == 0) {
            EXPECT(PF_OK, pf_session_generate_into(session, 1, 64, reference[0], reference_lengths, &ended));
            CHECK(reference_lengths[0] > 3 && ended == 1);
        } else if (i % 9 == 1) {
            same_answer(session);
        }
    }
}

static void no_sessions(void) {
    pf_session *none = NULL, *moved, *session = opened(0);
    uint64_t *garbage = (uint64_t *)(void *)place(4096, 0);
    size_t size = 0, i;
    memset(garbage, 0, 4096);
    EXPECT(PF_OK, pf_arena_size(&model, &capacity, &size));
    EXPECT(PF_E_NULL, pf_session_restart(none, 0));
    EXPECT(PF_E_STATE, pf_session_restart((pf_session *)(void *)garbage, 0));
    memset(garbage, 0xff, 4096);
    EXPECT(PF_E_STATE, pf_session_restart((pf_session *)(void *)garbage, 0));
    EXPECT(PF_E_ALIGN, pf_session_restart((pf_session *)(void *)(garbage + 1), 0));
    /* A session that was moved. */
    moved = (pf_session *)(void *)place(size, 0);
    memcpy((void *)moved, session, size - 63);
    EXPECT(PF_E_STATE, pf_session_restart(moved, 0));
    EXPECT(PF_OK, pf_session_restart(session, 0));
    /* Its arena, used for something else. */
    for (i = 0; i < 64; i++) ((char *)session)[i] = (char)i;
    EXPECT(PF_E_STATE, pf_session_restart(session, 0));
}

static void sessions(void) {
    static uint32_t wrong[600];
    pf_session *session = opened(5);
    const float *vectors = NULL, *logits = NULL;
    float embedding[2048];
    size_t tokens = 99, two[2], none[2] = {0, 0}, i, long_length = info.source_context + 1;
    uint32_t out[64], token = 99, begin[600];
    int ended = 99;

    for (i = 0; i < 600; i++) begin[i] = info.begin;
    two[0] = two[1] = source_length;

    /* Before anything was encoded. */
    EXPECT(PF_E_BATCH, pf_session_encoded(session, 0, &vectors, &tokens));
    EXPECT(PF_E_BATCH, pf_session_embedding(session, 0, info.d_model, embedding));
    EXPECT(PF_E_BATCH, pf_session_decode(session, begin, 0, &two[0], 1, &logits));
    EXPECT(PF_E_BATCH, pf_session_generate_into(session, 1, 8, out, &tokens, &ended));
    EXPECT(PF_E_BATCH, pf_session_restart(session, 1));
    CHECK(vectors == NULL && logits == NULL && tokens == 99 && ended == 99);

    EXPECT(PF_OK, pf_session_encode(session, source, 0, &source_length, 1));
    same_answer(session);

    memcpy(wrong, source, sizeof source);
    wrong[1] = info.source_vocab;
    EXPECT(PF_E_NULL, pf_session_encode(NULL, source, 0, &source_length, 1));
    EXPECT(PF_E_NULL, pf_session_encode(session, NULL, 0, &source_length, 1));
    EXPECT(PF_E_NULL, pf_session_encode(session, source, 0, NULL, 1));
    EXPECT(PF_E_ALIGN, pf_session_encode(session, (uint32_t *)(void *)((char *)wrong + 2), 0, &source_length, 1));
    EXPECT(PF_E_BATCH, pf_session_encode(session, source, 20, two, 3));
    EXPECT(PF_E_BATCH, pf_session_encode(session, source, 20, two, SIZE_MAX));
    EXPECT(PF_E_SHAPE, pf_session_encode(session, source, source_length - 1, two, 2));
    EXPECT(PF_E_SHAPE, pf_session_encode(session, source, SIZE_MAX, two, 2));
    EXPECT(PF_E_TOKEN, pf_session_encode(session, wrong, 0, &source_length, 1));
    EXPECT(PF_E_FULL, pf_session_encode(session, source, 0, &long_length, 1));
    same_answer(session);

    tokens = 99;
    EXPECT(PF_E_BATCH, pf_session_encoded(session, 1, &vectors, &tokens));
    EXPECT(PF_E_NULL, pf_session_encoded(session, 0, NULL, &tokens));
    EXPECT(PF_E_NULL, pf_session_encoded(session, 0, &vectors, NULL));
    EXPECT(PF_E_OVERLAP, pf_session_encoded(session, 0, (const float **)(void *)&tokens, &tokens));
    CHECK(vectors == NULL && tokens == 99);
    EXPECT(PF_E_BATCH, pf_session_embedding(session, 1, info.d_model, embedding));
    EXPECT(PF_E_SHAPE, pf_session_embedding(session, 0, info.d_model - 1, embedding));
    EXPECT(PF_E_SHAPE, pf_session_embedding(session, 0, 0, NULL));
    EXPECT(PF_E_NULL, pf_session_embedding(session, 0, info.d_model, NULL));
    EXPECT(PF_E_SHAPE, pf_session_nearest(session, embedding, 3, &token));
    EXPECT(PF_E_NULL, pf_session_nearest(session, NULL, info.d_model, &token));
    EXPECT(PF_E_NULL, pf_session_nearest(session, embedding, info.d_model, NULL));
    CHECK(token == 99);
    EXPECT(PF_E_BATCH, pf_session_restart(session, 2));
    same_answer(session);

    two[0] = 1;
    EXPECT(PF_OK, pf_session_restart(session, 1));
    EXPECT(PF_E_BATCH, pf_session_decode(session, begin, 1, two, 2, &logits));
    EXPECT(PF_E_BATCH, pf_session_decode(session, begin, 1, none, 0, &logits));
    EXPECT(PF_E_NULL, pf_session_decode(session, NULL, 0, two, 1, &logits));
    EXPECT(PF_E_NULL, pf_session_decode(session, begin, 0, NULL, 1, &logits));
    EXPECT(PF_E_NULL, pf_session_decode(session, begin, 0, two, 1, NULL));
    EXPECT(PF_E_TOKEN, pf_session_decode(session, &info.target_vocab, 0, two, 1, &logits));
    two[0] = info.target_context + 1;
    CHECK(info.target_context < 600);
    EXPECT(PF_E_FULL, pf_session_decode(session, begin, 0, two, 1, &logits));
    CHECK(logits == NULL);
    /* To the brim, and one more. */
    two[0] = info.target_context;
    EXPECT(PF_OK, pf_session_decode(session, begin, 0, two, 1, &logits));
    two[0] = 1;
    EXPECT(PF_E_FULL, pf_session_decode(session, begin, 0, two, 1, &logits));
    EXPECT(PF_OK, pf_session_decode(session, NULL, 0, none, 1, &logits));
    same_answer(session);

    EXPECT(PF_E_NULL, pf_session_generate(session, 8, NULL, NULL, &ended));
    EXPECT(PF_E_NULL, pf_session_generate_into(session, 1, 8, NULL, &tokens, &ended));
    EXPECT(PF_E_NULL, pf_session_generate_into(session, 1, 8, out, NULL, &ended));
    EXPECT(PF_E_NULL, pf_session_generate_into(session, 1, 8, out, &tokens, NULL));
    EXPECT(PF_E_BATCH, pf_session_generate_into(session, 2, 8, out, &tokens, &ended));
    EXPECT(PF_E_SHAPE, pf_session_generate_into(session, 1, SIZE_MAX, out, &tokens, &ended));
    EXPECT(PF_E_OVERLAP, pf_session_generate_into(session, 1, 8, (uint32_t *)(void *)&tokens, &tokens, &ended));
    CHECK(ended == 99 && tokens == 99);
    same_answer(session);
}

static int calls;

/* A callback that uses the session that calls it. */
static void greedy(void *context, size_t sequence, uint32_t token) {
    pf_session *session = (pf_session *)context;
    const float *logits = NULL;
    size_t one = 1;
    int ended = 99;
    (void)sequence;
    calls++;
    EXPECT(PF_E_STATE, pf_session_restart(session, 1));
    EXPECT(PF_E_STATE, pf_session_encode(session, source, 0, &source_length, 1));
    EXPECT(PF_E_STATE, pf_session_decode(session, &token, 0, &one, 1, &logits));
    EXPECT(PF_E_STATE, pf_session_generate(session, 1, greedy, context, &ended));
    EXPECT(PF_E_STATE, pf_session_watch(session, NULL, NULL));
    CHECK(logits == NULL && ended == 99);
}

static void callbacks(void) {
    pf_session *session = opened(0);
    int ended = 0;
    EXPECT(PF_OK, pf_session_encode(session, source, 0, &source_length, 1));
    EXPECT(PF_OK, pf_session_generate(session, SIZE_MAX, greedy, session, &ended));
    CHECK(ended == 1 && (size_t)calls == reference_lengths[0]);
    same_answer(session);
    EXPECT(PF_E_NULL, pf_session_watch(NULL, NULL, NULL));
}

static void kernels(void) {
    enum { N = 32 };
    PF_ALIGNED static float a[4 * N], b[4 * N], lines[16 * N + 16], more[16 * N], before[4 * N];
    static uint8_t keep[N * N];
    pf_attention_shape shape = {2, 16, 2, 32, 3, 4, 0, PF_MASK_NONE, NULL}, bad;
    const pf_cpu *forged = (const pf_cpu *)(const void *)a;
    size_t size = 99, keys = 0, values = 0, scratch = 0, i;
    float *odd = (float *)(void *)((char *)a + 2), *off = lines + 4;

    for (i = 0; i < 4 * N; i++) a[i] = (float)i;
    memcpy(before, a, sizeof a);
    CHECK(pf_cpu_at(pf_cpu_count()) == NULL && pf_cpu_at(SIZE_MAX) == NULL);
    CHECK(pf_cpu_name(forged) == NULL && pf_cpu_name(NULL) != NULL);

    EXPECT(PF_E_NULL, pf_matmul_packed_size(3, 4, NULL));
    EXPECT(PF_E_SHAPE, pf_matmul_packed_size(SIZE_MAX, SIZE_MAX, &size));
    EXPECT(PF_E_SHAPE, pf_matmul_packed_size(SIZE_MAX / 4, 1 << 4, &size));
    CHECK(size == 99);
    EXPECT(PF_E_SHAPE, pf_matmul_pack(a, 3, 4, lines, 63));
    EXPECT(PF_E_NULL, pf_matmul_pack(NULL, 3, 4, lines, 64));
    EXPECT(PF_E_NULL, pf_matmul_pack(a, 3, 4, NULL, 64));
    EXPECT(PF_E_ALIGN, pf_matmul_pack(a, 3, 4, off, 64));
    EXPECT(PF_E_ALIGN, pf_matmul_pack(odd, 3, 4, lines, 64));
    EXPECT(PF_E_OVERLAP, pf_matmul_pack(lines + 8, 3, 4, lines, 64));

    EXPECT(PF_E_NULL, pf_matmul(NULL, NULL, 2, 4, lines, NULL, PF_RELU, 3, b));
    EXPECT(PF_E_NULL, pf_matmul(NULL, a, 2, 4, NULL, NULL, PF_RELU, 3, b));
    EXPECT(PF_E_NULL, pf_matmul(NULL, a, 2, 4, lines, NULL, PF_RELU, 3, NULL));
    EXPECT(PF_E_ALIGN, pf_matmul(NULL, a, 2, 4, off, NULL, PF_RELU, 3, b));
    EXPECT(PF_E_ALIGN, pf_matmul(NULL, a, 2, 4, lines, off, PF_RELU, 3, b));
    EXPECT(PF_E_ALIGN, pf_matmul(NULL, a, 2, 4, lines, NULL, PF_RELU, 3, (float *)(void *)((char *)b + 2)));
    EXPECT(PF_E_CHOICE, pf_matmul(NULL, a, 2, 4, lines, NULL, 8, 3, b));
    EXPECT(PF_E_CHOICE, pf_matmul(NULL, a, 2, 4, lines, NULL, -1, 3, b));
    EXPECT(PF_E_CHOICE, pf_matmul(forged, a, 2, 4, lines, NULL, PF_RELU, 3, b));
    EXPECT(PF_E_OVERLAP, pf_matmul(NULL, a, 2, 4, lines, NULL, PF_RELU, 3, a + 7));
    EXPECT(PF_E_OVERLAP, pf_matmul(NULL, a, 2, 4, lines, NULL, PF_RELU, 3, lines + 60));
    EXPECT(PF_E_SHAPE, pf_matmul(NULL, a, SIZE_MAX, 4, lines, NULL, PF_RELU, 3, b));
    EXPECT(PF_E_SHAPE, pf_matmul(NULL, a, 1, 4, lines, NULL, PF_RELU, SIZE_MAX / 2, b));
    for (i = 0; i < 4 * N; i++) CHECK(b[i] == 0);

    EXPECT(PF_E_NULL, pf_softmax(NULL, 1, 3, NULL));
    EXPECT(PF_E_ALIGN, pf_softmax(NULL, 1, 3, odd));
    EXPECT(PF_E_SHAPE, pf_softmax(NULL, SIZE_MAX, 3, a));
    EXPECT(PF_E_CHOICE, pf_softmax(forged, 1, 3, a));
    EXPECT(PF_OK, pf_softmax(NULL, 0, 0, NULL));

    EXPECT(PF_E_NULL, pf_layer_norm(NULL, 1, 3, NULL, lines, NULL, 0, NULL));
    EXPECT(PF_E_NULL, pf_layer_norm(NULL, 1, 3, NULL, NULL, NULL, 0, a));
    EXPECT(PF_E_ALIGN, pf_layer_norm(NULL, 1, 3, NULL, off, NULL, 0, a));
    EXPECT(PF_E_ALIGN, pf_layer_norm(NULL, 1, 3, NULL, lines, off, 0, a));
    EXPECT(PF_E_OVERLAP, pf_layer_norm(NULL, 1, 3, a + 2, lines, NULL, 0, a));
    EXPECT(PF_E_CHOICE, pf_layer_norm(forged, 1, 3, NULL, lines, NULL, 0, a));
    EXPECT(PF_E_NULL, pf_rms_norm(NULL, 1, 3, NULL, NULL, 0, a));
    EXPECT(PF_E_ALIGN, pf_rms_norm(NULL, 1, 3, NULL, off, 0, a));
    EXPECT(PF_E_SHAPE, pf_rms_norm(NULL, SIZE_MAX, 3, NULL, lines, 0, a));
    EXPECT(PF_E_NULL, pf_add(NULL, NULL, 3, a));
    EXPECT(PF_E_OVERLAP, pf_add(NULL, a, 3, a));
    EXPECT(PF_E_CHOICE, pf_activate(NULL, 99, 3, a));
    EXPECT(PF_E_NULL, pf_activate(NULL, PF_RELU, 3, NULL));
    EXPECT(PF_E_SHAPE, pf_activate(NULL, PF_RELU, SIZE_MAX, a));
    CHECK(memcmp(a, before, sizeof a) == 0);

    EXPECT(PF_E_NULL, pf_attention_sizes(NULL, &keys, &values, &scratch));
    EXPECT(PF_E_NULL, pf_attention_sizes(&shape, &keys, &values, NULL));
    EXPECT(PF_E_OVERLAP, pf_attention_sizes(&shape, &keys, &keys, &scratch));
    bad = shape;
    bad.capacity = SIZE_MAX / 8;
    EXPECT(PF_E_SHAPE, pf_attention_sizes(&bad, &keys, &values, &scratch));
    CHECK(keys == 0 && values == 0 && scratch == 0);
    EXPECT(PF_OK, pf_attention_sizes(&shape, &keys, &values, &scratch));
    CHECK(keys <= 16 * N && values <= 16 * N && scratch <= 16 * N);
    EXPECT(PF_E_FULL, pf_attention_append(&shape, 2, a, a, 32, 3, lines, more));
    EXPECT(PF_E_FULL, pf_attention_append(&shape, SIZE_MAX, a, a, 32, 1, lines, more));
    EXPECT(PF_E_SHAPE, pf_attention_append(&shape, 0, a, a, 31, 1, lines, more));
    EXPECT(PF_E_NULL, pf_attention_append(&shape, 0, NULL, a, 32, 1, lines, more));
    EXPECT(PF_E_ALIGN, pf_attention_append(&shape, 0, a, a, 32, 1, lines + 1, more));
    EXPECT(PF_E_OVERLAP, pf_attention_append(&shape, 0, a, a, 32, 1, lines, lines));
    CHECK(lines[0] == 0 && more[0] == 0);
    EXPECT(PF_OK, pf_attention_append(&shape, 0, a, a, 32, 3, lines, more));
    {
        PF_ALIGNED static float scores[16 * N];
        EXPECT(PF_E_NULL, pf_attention(NULL, &shape, NULL, lines, more, scores, NULL, b));
        EXPECT(PF_E_NULL, pf_attention(NULL, &shape, a, lines, more, NULL, NULL, b));
        EXPECT(PF_E_NULL, pf_attention(NULL, NULL, a, lines, more, scores, NULL, b));
        EXPECT(PF_E_ALIGN, pf_attention(NULL, &shape, a, lines + 1, more, scores, NULL, b));
        EXPECT(PF_E_OVERLAP, pf_attention(NULL, &shape, a, lines, more, scores, NULL, a));
        EXPECT(PF_E_OVERLAP, pf_attention(NULL, &shape, a, lines, more, scores, b, b));
        EXPECT(PF_E_CHOICE, pf_attention(forged, &shape, a, lines, more, scores, NULL, b));
        bad = shape;
        bad.keys = 5;
        EXPECT(PF_E_SHAPE, pf_attention(NULL, &bad, a, lines, more, scores, NULL, b));
        bad = shape;
        bad.query_stride = 31;
        EXPECT(PF_E_SHAPE, pf_attention(NULL, &bad, a, lines, more, scores, NULL, b));
        bad = shape;
        bad.mask = 5;
        EXPECT(PF_E_CHOICE, pf_attention(NULL, &bad, a, lines, more, scores, NULL, b));
        bad.mask = PF_MASK_KEY_PADDING;
        EXPECT(PF_E_NULL, pf_attention(NULL, &bad, a, lines, more, scores, NULL, b));
        bad.keep = keep;
        keep[2] = 2;
        EXPECT(PF_E_CHOICE, pf_attention(NULL, &bad, a, lines, more, scores, NULL, b));
        for (i = 0; i < 4 * N; i++) CHECK(b[i] == 0);
        EXPECT(PF_OK, pf_attention(NULL, &shape, a, lines, more, scores, NULL, b));
    }
}

/* An encoder has nothing to decode with. */
static void encoder(const char *path) {
    pf_capacity small = {1, 8, 0, 0};
    pf_model only;
    pf_session *session = NULL;
    const float *logits = NULL;
    size_t size, length = 1;
    int ended = 99;
    uint32_t token = 0;
    char *image = read_file(path, &size), *arena;
    EXPECT(PF_OK, pf_model_open(image, size, &only));
    EXPECT(PF_OK, pf_arena_size(&only, &small, &size));
    arena = place(size, 3);
    EXPECT(PF_OK, pf_session_open(&only, &small, NULL, arena, size, &session));
    EXPECT(PF_OK, pf_session_encode(session, &token, 0, &length, 1));
    EXPECT(PF_E_MISSING, pf_session_decode(session, &token, 0, &length, 1, &logits));
    EXPECT(PF_E_MISSING, pf_session_generate(session, 1, greedy, NULL, &ended));
    EXPECT(PF_E_MISSING, pf_session_generate_into(session, 1, 1, &token, &length, &ended));
    EXPECT(PF_E_MISSING, pf_text_encode(&only, PF_TARGET, "a", 1, NULL, 0, (pf_encoded *)(void *)arena));
    CHECK(logits == NULL && ended == 99 && length == 1);
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    images(argv[1]);
    no_tokenizer(argv[1]);
    texts();
    arenas();
    no_sessions();
    sessions();
    callbacks();
    kernels();
    if (argc > 2) encoder(argv[2]);
    return DONE();
}
