/* Every function does what the header says: functions IMAGE
 *
 * IMAGE is the embedded encoder-decoder. Kernels are compared with plain loops. */
#include "check.h"
#include <math.h>

static pf_model model;
static pf_info info;

static double number(void) {
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (double)(state >> 8) / (1 << 24) * 4 - 2;
}

static void fill(float *x, size_t size) {
    size_t i;
    for (i = 0; i < size; i++) x[i] = (float)number();
}

static int near(const float *a, const double *b, size_t size, double bound) {
    size_t i;
    for (i = 0; i < size; i++) {
        if (!(fabs(a[i] - b[i]) <= bound * (1 + fabs(b[i])))) return 0;
    }
    return 1;
}

static double activation(int kind, double x) {
    switch (kind) {
    case PF_RELU: return x > 0 ? x : 0;
    case PF_GELU_ERF: return x * 0.5 * erfc(-x / sqrt(2.0));
    case PF_GELU_TANH: return x / (1 + exp(-2 * sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    case PF_SILU: return x / (1 + exp(-x));
    case PF_TANH: return tanh(x);
    case PF_SIGMOID: return 1 / (1 + exp(-x));
    case PF_EXP: return exp(x);
    default: return x;
    }
}

enum { ROWS = 5, COLS = 37, DEPTH = 21 };

static void matmuls(const pf_cpu *cpu) {
    static float x[ROWS * DEPTH], w[COLS * DEPTH], out[ROWS * COLS];
    static double wanted[ROWS * COLS];
    PF_ALIGNED static float bias[PF_PADDED(COLS)], packed[PF_PADDED(COLS) * DEPTH];
    size_t i, j, k, size = 0;
    int kind;
    fill(x, ROWS * DEPTH);
    fill(w, COLS * DEPTH);
    fill(bias, PF_PADDED(COLS));
    EXPECT(PF_OK, pf_matmul_packed_size(COLS, DEPTH, &size));
    CHECK(size == sizeof packed / sizeof *packed);
    EXPECT(PF_OK, pf_matmul_pack(w, COLS, DEPTH, packed, size));
    for (kind = PF_IDENTITY; kind <= PF_EXP; kind++) {
        for (i = 0; i < ROWS; i++) {
            for (j = 0; j < COLS; j++) {
                double sum = kind == PF_RELU ? 0 : bias[j];
                for (k = 0; k < DEPTH; k++) sum += (double)x[i * DEPTH + k] * w[j * DEPTH + k];
                wanted[i * COLS + j] = activation(kind, sum);
            }
        }
        EXPECT(PF_OK, pf_matmul(cpu, x, ROWS, DEPTH, packed, kind == PF_RELU ? NULL : bias, kind, COLS, out));
        CHECK(near(out, wanted, ROWS * COLS, kind == PF_EXP ? 1e-4 : 1e-5));
    }
}

static void rows(const pf_cpu *cpu) {
    static float x[ROWS * COLS], y[ROWS * COLS], in[ROWS * COLS];
    static double wanted[ROWS * COLS];
    PF_ALIGNED static float gamma[PF_PADDED(COLS)], beta[PF_PADDED(COLS)];
    size_t i, j;
    int kind;
    fill(in, ROWS * COLS);
    fill(y, ROWS * COLS);
    fill(gamma, PF_PADDED(COLS));
    fill(beta, PF_PADDED(COLS));

    in[3] = -INFINITY;
    for (i = 0; i < ROWS; i++) {
        double sum = 0;
        for (j = 0; j < COLS; j++) sum += exp(in[i * COLS + j]);
        for (j = 0; j < COLS; j++) wanted[i * COLS + j] = exp(in[i * COLS + j]) / sum;
    }
    memcpy(x, in, sizeof x);
    EXPECT(PF_OK, pf_softmax(cpu, ROWS, COLS, x));
    CHECK(near(x, wanted, ROWS * COLS, 1e-6) && x[3] == 0);
    in[3] = 0.5f;

    for (i = 0; i < ROWS; i++) {
        double mean = 0, variance = 0;
        for (j = 0; j < COLS; j++) mean += ((double)in[i * COLS + j] + y[i * COLS + j]) / COLS;
        for (j = 0; j < COLS; j++) {
            variance += pow((double)in[i * COLS + j] + y[i * COLS + j] - mean, 2) / COLS;
        }
        for (j = 0; j < COLS; j++) {
            double z = (double)in[i * COLS + j] + y[i * COLS + j];
            wanted[i * COLS + j] = (z - mean) / sqrt(variance + 1e-5) * gamma[j] + beta[j];
        }
    }
    memcpy(x, in, sizeof x);
    EXPECT(PF_OK, pf_layer_norm(cpu, ROWS, COLS, y, gamma, beta, 1e-5f, x));
    CHECK(near(x, wanted, ROWS * COLS, 1e-5));

    for (i = 0; i < ROWS; i++) {
        double squares = 0;
        for (j = 0; j < COLS; j++) squares += pow(in[i * COLS + j], 2) / COLS;
        for (j = 0; j < COLS; j++) wanted[i * COLS + j] = in[i * COLS + j] / sqrt(squares + 1e-5) * gamma[j];
    }
    memcpy(x, in, sizeof x);
    EXPECT(PF_OK, pf_rms_norm(cpu, ROWS, COLS, NULL, gamma, 1e-5f, x));
    CHECK(near(x, wanted, ROWS * COLS, 1e-5));

    memcpy(x, in, sizeof x);
    EXPECT(PF_OK, pf_add(cpu, y, ROWS * COLS, x));
    for (i = 0; i < ROWS * COLS; i++) CHECK(x[i] == in[i] + y[i]);

    for (kind = PF_IDENTITY; kind <= PF_EXP; kind++) {
        for (i = 0; i < ROWS * COLS; i++) wanted[i] = activation(kind, in[i]);
        memcpy(x, in, sizeof x);
        EXPECT(PF_OK, pf_activate(cpu, kind, ROWS * COLS, x));
        CHECK(near(x, wanted, ROWS * COLS, 1e-6));
    }
}

/* Causal attention of two heads of 20 features, and a key that nobody may see. */
static void attentions(const pf_cpu *cpu) {
    enum { HEADS = 2, SIZE = 20, ROW = HEADS * PF_PADDED(SIZE), QUERIES = 4, KEYS = 7, CAPACITY = 9 };
    static float query[QUERIES * ROW], key[KEYS * ROW], value[KEYS * ROW], out[QUERIES * ROW];
    static float weights[HEADS * QUERIES * KEYS];
    static uint8_t keep[KEYS] = {1, 1, 0, 1, 1, 1, 1};
    pf_attention_shape shape = {HEADS, SIZE, QUERIES, ROW, KEYS, CAPACITY, 3, PF_MASK_CAUSAL_KEY_PADDING, keep};
    size_t keys, values, scratch, h, i, t, f;
    float *packed_keys, *packed_values, *scores;
    fill(query, QUERIES * ROW);
    fill(key, KEYS * ROW);
    for (t = 0; t < KEYS; t++) {
        for (h = 0; h < HEADS; h++) fill(value + t * ROW + h * PF_PADDED(SIZE), SIZE);
    }
    EXPECT(PF_OK, pf_attention_sizes(&shape, &keys, &values, &scratch));
    packed_keys = (float *)(void *)place(keys * sizeof(float), 0);
    packed_values = (float *)(void *)place(values * sizeof(float), 0);
    scores = (float *)(void *)place(scratch * sizeof(float), 0);
    memset(packed_keys, 0, keys * sizeof(float));
    memset(packed_values, 0, values * sizeof(float));
    memset(scores, 0, scratch * sizeof(float));
    EXPECT(PF_OK, pf_attention_append(&shape, 0, key, value, ROW, 3, packed_keys, packed_values));
    EXPECT(PF_OK, pf_attention_append(&shape, 3, key + 3 * ROW, value + 3 * ROW, ROW, 4, packed_keys, packed_values));
    EXPECT(PF_OK, pf_attention(cpu, &shape, query, packed_keys, packed_values, scores, weights, out));
    for (h = 0; h < HEADS; h++) {
        for (i = 0; i < QUERIES; i++) {
            double p[KEYS], sum = 0, wanted[SIZE] = {0};
            for (t = 0; t < KEYS; t++) {
                double dot = 0;
                for (f = 0; f < SIZE; f++) {
                    dot += (double)query[i * ROW + h * PF_PADDED(SIZE) + f] * key[t * ROW + h * PF_PADDED(SIZE) + f];
                }
                p[t] = keep[t] && t <= i + 3 ? exp(dot / sqrt((double)SIZE)) : 0;
                sum += p[t];
            }
            for (t = 0; t < KEYS; t++) {
                p[t] /= sum;
                for (f = 0; f < SIZE; f++) wanted[f] += p[t] * value[t * ROW + h * PF_PADDED(SIZE) + f];
            }
            CHECK(near(weights + (h * QUERIES + i) * KEYS, p, KEYS, 1e-6));
            CHECK(near(out + i * ROW + h * PF_PADDED(SIZE), wanted, SIZE, 1e-5));
        }
    }
}

/* Memory for all weights that a run asks for, and where each came from. */
typedef struct {
    float *memory;
    size_t used, asked;
    pf_weights last;
} seen;

static float *watch(void *context, const pf_weights *w) {
    seen *s = (seen *)context;
    float *memory = s->memory + s->used;
    CHECK(w->heads == info.heads && w->queries > 0 && w->keys > 0);
    s->asked++;
    s->last = *w;
    s->used += w->heads * w->queries * w->keys;
    return memory;
}

static void collect(void *context, size_t sequence, uint32_t token) {
    uint32_t (*tokens)[65] = (uint32_t(*)[65])context;
    tokens[sequence][1 + tokens[sequence][0]++] = token;
}

static pf_session *opened(size_t batch, size_t chunk, const pf_cpu *cpu) {
    pf_capacity capacity;
    pf_session *session = NULL;
    size_t size = 0;
    capacity.batch = batch;
    capacity.source = capacity.target = SIZE_MAX;
    capacity.chunk = chunk;
    EXPECT(PF_OK, pf_arena_size(&model, &capacity, &size));
    EXPECT(PF_OK, pf_session_open(&model, &capacity, cpu, place(size, 7), size, &session));
    return session;
}

static void sessions(const pf_cpu *cpu) {
    static const char *words[2] = {"interleaved", "two"};
    static uint32_t sources[2][64], into[2][64], alone[64], generated[2][65];
    static float vectors[2][1024], one[1024];
    size_t lengths[2], counts[2], count, i, step;
    pf_encoded encoded;
    pf_session *both = opened(2, 1, cpu), *other = opened(1, 3, cpu);
    const float *logits = NULL, *rows = NULL;
    int ended = 0;
    for (i = 0; i < 2; i++) {
        EXPECT(PF_OK, pf_text_encode(&model, PF_SOURCE, words[i], strlen(words[i]), sources[i], 64, &encoded));
        lengths[i] = encoded.tokens;
    }
    memset(generated, 0, sizeof generated);
    EXPECT(PF_OK, pf_session_encode(both, sources[0], 64, lengths, 2));
    EXPECT(PF_OK, pf_session_generate(both, 64, collect, generated, &ended));
    CHECK(ended == 1);
    EXPECT(PF_OK, pf_session_restart(both, 2));
    EXPECT(PF_OK, pf_session_generate_into(both, 2, 64, into[0], counts, &ended));
    for (i = 0; i < 2; i++) {
        CHECK(counts[i] == generated[i][0] && memcmp(into[i], generated[i] + 1, counts[i] * 4) == 0);
        CHECK(counts[i] > 1);
    }
    /* A limit cuts, and says so; what is left comes later. */
    EXPECT(PF_OK, pf_session_restart(both, 2));
    EXPECT(PF_OK, pf_session_generate_into(both, 2, 2, into[0], counts, &ended));
    CHECK(ended == 0 && counts[0] == 2 && into[0][0] == generated[0][1] && into[0][1] == generated[0][2]);

    /* Each alone, while the other session is in use: the same bits. */
    for (i = 0; i < 2; i++) {
        EXPECT(PF_OK, pf_session_embedding(both, i, info.d_model, vectors[i]));
        EXPECT(PF_OK, pf_session_encode(other, sources[i], 0, &lengths[i], 1));
        EXPECT(PF_OK, pf_session_embedding(other, 0, info.d_model, one));
        CHECK(memcmp(vectors[i], one, info.d_model * sizeof(float)) == 0);
        EXPECT(PF_OK, pf_session_encoded(other, 0, &rows, &count));
        CHECK(count == lengths[i]);
        EXPECT(PF_OK, pf_session_generate_into(other, 1, 64, alone, &count, &ended));
        CHECK(count == generated[i][0] && memcmp(alone, generated[i] + 1, count * 4) == 0);
    }

    /* Step by step, then the whole as one prompt: the same scores. */
    EXPECT(PF_OK, pf_session_restart(other, 1));
    alone[0] = info.begin;
    for (step = 0, count = 1; step <= generated[1][0]; step++) {
        uint32_t best = 0, token;
        EXPECT(PF_OK, pf_session_decode(other, &alone[step], 0, &count, 1, &logits));
        for (token = 1; token < info.target_vocab; token++) {
            if (logits[token] > logits[best]) best = token;
        }
        CHECK(best == (step < generated[1][0] ? generated[1][step + 1] : info.end));
        alone[step + 1] = best;
    }
    {
        static float stepped[4096];
        CHECK(info.target_vocab <= 4096);
        memcpy(stepped, logits, info.target_vocab * sizeof(float));
        EXPECT(PF_OK, pf_session_restart(other, 1));
        EXPECT(PF_OK, pf_session_decode(other, alone, 0, &step, 1, &logits));
        CHECK(memcmp(stepped, logits, info.target_vocab * sizeof(float)) == 0);
    }
}

static void weights(void) {
    seen s;
    size_t length, i, j, after;
    uint32_t source[64];
    pf_encoded encoded;
    const float *logits;
    pf_session *session = opened(1, 1, NULL);
    EXPECT(PF_OK, pf_text_encode(&model, PF_SOURCE, "watch", 5, source, 64, &encoded));
    length = encoded.tokens;
    memset(&s, 0, sizeof s);
    s.memory = (float *)calloc(1 << 20, sizeof(float));
    EXPECT(PF_OK, pf_session_watch(session, watch, &s));
    EXPECT(PF_OK, pf_session_encode(session, source, 0, &length, 1));
    CHECK(s.asked == info.encoder_layers && s.last.part == PF_ENCODER_SELF_ATTENTION);
    CHECK(s.last.layer == info.encoder_layers - 1 && s.last.queries == length && s.last.keys == length);
    CHECK(s.used == info.encoder_layers * info.heads * length * length);
    for (i = 0; i < s.used / length; i++) {
        double sum = 0;
        for (j = 0; j < length; j++) sum += s.memory[i * length + j];
        CHECK(fabs(sum - 1) < 1e-5);
    }
    length = 1;
    s.asked = 0;
    EXPECT(PF_OK, pf_session_decode(session, &info.begin, 0, &length, 1, &logits));
    CHECK(s.asked == 2 * info.decoder_layers && s.last.part == PF_DECODER_CROSS_ATTENTION);
    CHECK(s.last.keys == encoded.tokens && s.last.queries == 1 && s.last.sequence == 0);
    after = s.asked;
    EXPECT(PF_OK, pf_session_watch(session, NULL, NULL));
    EXPECT(PF_OK, pf_session_decode(session, &info.begin, 0, &length, 1, &logits));
    CHECK(s.asked == after);
    free(s.memory);
}

static void texts(void) {
    static const char text[] = "  don't \xe2\x80\x94 na\xc3\xafve, 2x!";
    const char *piece = NULL;
    size_t start = 0, end = 0, length = 0, words = 0, i;
    char found[3][16] = {{0}};
    pf_encoded encoded;
    uint32_t tokens[8], token = 0;
    for (;;) {
        EXPECT(PF_OK, pf_text_word(text, sizeof text - 1, end, &start, &end));
        if (start == end || words == 3) break;
        memcpy(found[words++], text + start, end - start);
    }
    CHECK(start == sizeof text - 1 && words == 3);
    CHECK(strcmp(found[0], "don't") == 0 && strcmp(found[1], "na\xc3\xafve") == 0 && strcmp(found[2], "x") == 0);
    EXPECT(PF_OK, pf_text_encode(&model, PF_SOURCE, "a4", 2, tokens, 8, &encoded));
    CHECK(encoded.unknown == 1 && encoded.first_unknown == '4');
    /* Every token of the target has a text, from which encoding finds it again; but special
     * tokens, which stand in angle brackets, are no text. */
    for (token = 0; token < info.target_vocab; token++) {
        EXPECT(PF_OK, pf_text_token(&model, PF_TARGET, token, &piece, &length));
        EXPECT(PF_OK, pf_text_encode(&model, PF_TARGET, piece, length, tokens, 8, &encoded));
        for (i = 0; i < encoded.tokens && tokens[i] != token; i++) {
        }
        CHECK(i < encoded.tokens || piece[0] == '<');
    }
}

/* Room on a multiple of 64 bytes. */
static void selftest(const pf_cpu *cpu) {
    static float room[PF_SELFTEST_FLOATS + 16];
    float *aligned = (float *)(((uintptr_t)room + 63) / 64 * 64);
    const char *kernel = NULL;
    EXPECT(PF_OK, pf_selftest(cpu, aligned, PF_SELFTEST_FLOATS, &kernel));
    CHECK(kernel == NULL);
    EXPECT(PF_E_ARENA, pf_selftest(cpu, aligned, PF_SELFTEST_FLOATS - 1, &kernel));
}

int main(int argc, char **argv) {
    size_t size, i;
    char *image;
    if (argc < 2) return 2;
    CHECK(pf_version() == PF_VERSION);
    CHECK(pf_cpu_count() >= 1 && pf_cpu_at(pf_cpu_count() - 1) == pf_cpu_fastest());
    CHECK(strcmp(pf_cpu_name(pf_cpu_at(0)), "baseline") == 0);
    CHECK(pf_cpu_name(NULL) == pf_cpu_name(pf_cpu_fastest()));
    image = read_file(argv[1], &size);
    EXPECT(PF_OK, pf_model_open(image, size, &model));
    EXPECT(PF_OK, pf_model_info(&model, &info));
    CHECK(info.stack == PF_STACK_ENCODER_DECODER && info.unit == PF_UNIT_WORD && info.name[0] != 0);
    CHECK(info.source_tokenizer == 1 && info.target_tokenizer == 1 && info.d_model <= 1024);
    texts();
    weights();
    for (i = 0; i < pf_cpu_count(); i++) {
        printf("%s: ", pf_cpu_name(pf_cpu_at(i)));
        selftest(pf_cpu_at(i));
        matmuls(pf_cpu_at(i));
        rows(pf_cpu_at(i));
        attentions(pf_cpu_at(i));
        sessions(pf_cpu_at(i));
    }
    return DONE();
}
