/*
 * picoformer: whole Transformers from the caller's memory, for C and C++.
 *
 * This header is the specification. What holds for every function:
 *
 * - Memory is the caller's. Nothing is allocated, so nothing is freed: a model is a struct,
 *   a session lies in an arena that the caller gives, and both simply cease to be used.
 * - A function that can fail returns PF_OK or one of the negative codes below. One that
 *   fails has changed nothing, whatever the code, and may be called again.
 * - Results come last among the arguments and are written only on success.
 * - Every pointer is checked for NULL (PF_E_NULL) and for the alignment of its type
 *   (PF_E_ALIGN). NULL is legal where a comment says so, and for an array of no elements.
 *   Lengths are believed: that a buffer is as long as its argument says is up to the caller.
 * - Arrays that a function writes must not overlap those that it reads (PF_E_OVERLAP where
 *   this is checked: in the kernels).
 * - Results do not depend on time, place or what memory held before: the same input gives
 *   the same bits.
 *
 * Stack: on a Cortex-M4 a function takes at most 3,832 bytes (3,712 at opt-level s), callbacks
 * apart; what each takes is recorded in tests/proven/stack.txt. No function panics, and none waits for anything.
 *
 * Threads: there is no global state. Any number of threads may use one model at once, and
 * each a session of its own; a session is for one thread at a time. Functions may be called
 * from an interrupt under the same rule.
 *
 *     pf_model model;                              the image stays where it is: flash, mmap, static
 *     pf_model_open(image, image_size, &model);
 *     pf_capacity capacity = {1, 24, 24, 1};
 *     pf_arena_size(&model, &capacity, &size);
 *     pf_session_open(&model, &capacity, NULL, arena, size, &session);
 *     pf_session_encode(session, tokens, 0, &length, 1);
 *     pf_session_generate(session, 24, each, context, &ended);
 */
#ifndef PICOFORMER_H
#define PICOFORMER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------- */

/* The version of this header. */
#define PF_VERSION_MAJOR 0
#define PF_VERSION_MINOR 1
#define PF_VERSION_PATCH 0
#define PF_VERSION (PF_VERSION_MAJOR * 10000 + PF_VERSION_MINOR * 100 + PF_VERSION_PATCH)

/* The version of the library: PF_VERSION of the header that it was built with. */
int pf_version(void);

/* ---- Codes --------------------------------------------------------------------------- */

#define PF_OK 0            /* done */
#define PF_E_CONFIG (-1)   /* a number of the model or the capacity is 0, too large or not supported */
#define PF_E_WEIGHTS (-2)  /* the weights are not as long as the configuration needs */
#define PF_E_ARENA (-3)    /* the arena is smaller than pf_arena_size says */
#define PF_E_SHAPE (-4)    /* a buffer or a stride is shorter than its shape, or sizes overflow */
#define PF_E_TOKEN (-5)    /* a token is not in the vocabulary */
#define PF_E_BATCH (-6)    /* more sequences than planned, or another number than the session runs */
#define PF_E_FULL (-7)     /* a sequence is longer than planned */
#define PF_E_MISSING (-8)  /* the model has no such part: encoder, decoder, output or tokenizer */
#define PF_E_IMAGE (-9)    /* the bytes are not a .pf image, or are cut off */
#define PF_E_VERSION (-10) /* the image is of another version of the format */
#define PF_E_CHECKSUM (-11) /* the image's bytes are not those that were written */
#define PF_E_BUFFER (-12)  /* a buffer for tokens or text is too small: ask for the size first */
#define PF_E_NULL (-13)    /* a pointer is NULL that must not be */
#define PF_E_ALIGN (-14)   /* a pointer is not on the multiple of bytes that its comment says */
#define PF_E_STATE (-15)   /* not an open model or session, moved, or in use further up the stack */
#define PF_E_TEXT (-16)    /* the text is not UTF-8 */
#define PF_E_OVERLAP (-17) /* an output overlaps an input */
#define PF_E_CHOICE (-18)  /* a number is none of the constants for it */
#define PF_E_KERNEL (-19)  /* a kernel gives wrong results on this CPU */

/* What a code means, as a short text; of other numbers, that they mean nothing. Never NULL;
 * static, so it need not be copied. */
const char *pf_error(int code);

/* ---- Kernels of the CPU -------------------------------------------------------------- */

/* One backend's kernels. There are a few, static in the library. Wherever one is an
 * argument, NULL is the fastest, asked for anew: asking may take tens of microseconds under
 * a hypervisor, so keep the answer of pf_cpu_fastest for kernels that are called often. */
typedef struct pf_cpu pf_cpu;

/* The backends that run on this machine, at least 1. */
size_t pf_cpu_count(void);

/* A backend by its number, slowest first; NULL from pf_cpu_count on. */
const pf_cpu *pf_cpu_at(size_t index);

/* The fastest backend, the last of them. Never NULL. */
const pf_cpu *pf_cpu_fastest(void);

/* "baseline", "avx2", "avx512"...; of NULL, the fastest one's. NULL if cpu is no backend.
 * Static. */
const char *pf_cpu_name(const pf_cpu *cpu);

/* Floats that pf_selftest needs: 16 KiB. */
#define PF_SELFTEST_FLOATS 4096

/* Tests each kernel of a backend beside a plain loop, in milliseconds; for programs that must
 * not trust their CPU. room: PF_SELFTEST_FLOATS floats or more on a multiple of 64 bytes,
 * whatever they hold; they are overwritten. PF_E_KERNEL: a kernel is wrong, and *kernel is its
 * name, static; otherwise *kernel stays as it is. PF_E_ARENA: too few floats. */
int pf_selftest(const pf_cpu *cpu, float *room, size_t size, const char **kernel);

/* ---- Models -------------------------------------------------------------------------- */

/* An open image. Only pf_model_open fills it; its words mean nothing to others. It refers
 * to the image, which must stay as it is for as long as the model or one of its sessions is
 * used. It may be copied by assignment. A struct of zeros is a model that is not open. */
#define PF_MODEL_WORDS 80
typedef struct pf_model {
    uint64_t opaque[PF_MODEL_WORDS];
} pf_model;

/* Opens the image that size bytes are. Nothing is copied. The bytes must lie on a multiple
 * of 64 (PF_E_ALIGN), and are checked, but for the weights' values: see pf_model_verify.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_IMAGE, PF_E_VERSION, PF_E_CONFIG, PF_E_SHAPE (size is
 * beyond what memory can be). */
int pf_model_open(const void *image, size_t size, pf_model *model);

/* Reads every byte of the image and compares its checksum.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_CHECKSUM. */
int pf_model_verify(const pf_model *model);

/* Choices in pf_info. */
#define PF_STACK_ENCODER 0
#define PF_STACK_DECODER 1
#define PF_STACK_ENCODER_DECODER 2

#define PF_NORM_LAYER 0
#define PF_NORM_RMS 1

#define PF_NORM_POST 0
#define PF_NORM_PRE 1

#define PF_POSITIONS_NONE 0
#define PF_POSITIONS_SINUSOIDAL_INTERLEAVED 1
#define PF_POSITIONS_SINUSOIDAL_HALVES 2
#define PF_POSITIONS_LEARNED 3

#define PF_OUTPUT_NONE 0
#define PF_OUTPUT_TIED 1
#define PF_OUTPUT_SEPARATE 2

#define PF_POOLING_NONE 0
#define PF_POOLING_MEAN 1
#define PF_POOLING_FIRST 2

/* What a model reads at a time: the text, or single words (see pf_text_word). */
#define PF_UNIT_TEXT 0
#define PF_UNIT_WORD 1

/* What a model is. */
typedef struct pf_info {
    char name[68];              /* ends with a zero */
    uint32_t stack;             /* PF_STACK_ */
    uint32_t d_model;           /* features of the residual stream, and of an embedding */
    uint32_t heads;             /* attention heads */
    uint32_t d_ff;              /* features of the feed-forward layer's middle */
    uint32_t encoder_layers;
    uint32_t decoder_layers;
    uint32_t source_vocab;      /* tokens that the encoder knows: 0 to source_vocab - 1 */
    uint32_t target_vocab;      /* tokens that the decoder knows, and scores in a row of logits */
    uint32_t source_context;    /* tokens of the longest source */
    uint32_t target_context;    /* tokens of the longest target */
    uint32_t positions;         /* PF_POSITIONS_ */
    uint32_t norm;              /* PF_NORM_LAYER or PF_NORM_RMS */
    uint32_t norm_place;        /* PF_NORM_POST or PF_NORM_PRE */
    float norm_eps;
    uint32_t activation;        /* PF_IDENTITY, PF_RELU... of the feed-forward layers */
    uint32_t output;            /* PF_OUTPUT_ */
    uint32_t pooling;           /* PF_POOLING_ */
    uint32_t unit_length;       /* 1 if embeddings are scaled to length 1 */
    uint32_t begin;             /* the token that generation starts with */
    uint32_t end;               /* the token that ends a generated text */
    uint32_t source_tokenizer;  /* 1 if there is one */
    uint32_t target_tokenizer;  /* 1 if there is one */
    uint32_t unit;              /* PF_UNIT_, of the source's tokenizer */
} pf_info;

/* Describes a model. Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE. */
int pf_model_info(const pf_model *model, pf_info *info);

/* ---- Text ---------------------------------------------------------------------------- */

/* Which of a model's tokenizers. */
#define PF_SOURCE 0 /* of the encoder's text */
#define PF_TARGET 1 /* of the decoder's text */

/* What pf_text_encode found. */
typedef struct pf_encoded {
    size_t tokens;          /* tokens of the text, with those that the model puts around it */
    size_t unknown;         /* characters (or words, of WordPiece) that have no token */
    uint32_t first_unknown; /* the first such character, as its Unicode number; 0 if none */
} pf_encoded;

/* Turns length bytes of UTF-8 into tokens[capacity]. With capacity 0 it only counts the
 * tokens (not the unknown ones): then it succeeds, and tokens may be NULL. (A zero that ends
 * the text is not part of it.)
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_CHOICE (side), PF_E_MISSING (no such
 * tokenizer), PF_E_TEXT, PF_E_SHAPE, PF_E_BUFFER (capacity is less than the tokens). */
int pf_text_encode(const pf_model *model, int side, const char *text, size_t length,
                   uint32_t *tokens, size_t capacity, pf_encoded *encoded);

/* Turns count tokens into text[capacity] that ends with a zero, and *length, which is
 * without the zero. With capacity 0 it only tells the length: then it succeeds, and text
 * may be NULL. Special tokens have no text.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_CHOICE, PF_E_MISSING, PF_E_TOKEN,
 * PF_E_SHAPE, PF_E_BUFFER (capacity is not above the length). */
int pf_text_decode(const pf_model *model, int side, const uint32_t *tokens, size_t count,
                   char *text, size_t capacity, size_t *length);

/* One token as it stands in the vocabulary, special ones included: *length bytes of UTF-8
 * within the image, without a zero at their end.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_CHOICE, PF_E_MISSING, PF_E_TOKEN. */
int pf_text_token(const pf_model *model, int side, uint32_t token, const char **text, size_t *length);

/* The first word (letters and apostrophes) of length bytes of UTF-8 at or after byte from:
 * bytes *start to *end; both are length if there is none. For models with PF_UNIT_WORD: go
 * on from *end.
 * Codes: PF_E_NULL, PF_E_SHAPE (from is above length), PF_E_TEXT. */
int pf_text_word(const char *text, size_t length, size_t from, size_t *start, size_t *end);

/* ---- Sessions ------------------------------------------------------------------------ */

/* What a session has room for. Longer lengths than the model's contexts count as these, so
 * SIZE_MAX is the longest that is possible. */
typedef struct pf_capacity {
    size_t batch;  /* sequences that run together, from 1 on */
    size_t source; /* tokens of the longest source, from 1 on; of no matter without encoder */
    size_t target; /* tokens of the longest target, from 1 on; of no matter without decoder */
    size_t chunk;  /* tokens of a target that run at once, from 1 on: 1 needs the least memory,
                      more makes prompts faster; the result is the same */
} pf_capacity;

/* The bytes of an arena at any alignment for sessions of this capacity: so many suffice,
 * and one less is refused.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_CONFIG (a number of the capacity is 0, or
 * memory is not that large). */
int pf_arena_size(const pf_model *model, const pf_capacity *capacity, size_t *size);

/* Sequences in progress. A session lies in its arena, and is over when the arena is used
 * for something else. It must not be moved. It needs the image, but not the pf_model. */
typedef struct pf_session pf_session;

/* Starts a session in size bytes at arena, of any alignment and content, on the kernels of
 * cpu (or NULL). Without encoder the session runs capacity->batch sequences at once.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_CHOICE (cpu is no backend), PF_E_CONFIG,
 * PF_E_ARENA. */
int pf_session_open(const pf_model *model, const pf_capacity *capacity, const pf_cpu *cpu,
                    void *arena, size_t size, pf_session **session);

/* Encodes a batch of sources and starts their targets. Source i is lengths[i] tokens from
 * tokens[i * stride] on; stride is of no matter if batch is at most 1, else at least the
 * longest length (PF_E_SHAPE). Batch and lengths may be 0. A source's result has the same
 * bits alone and in any batch.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_SHAPE, PF_E_MISSING (no encoder),
 * PF_E_BATCH, PF_E_FULL, PF_E_TOKEN. */
int pf_session_encode(pf_session *session, const uint32_t *tokens, size_t stride,
                      const size_t *lengths, size_t batch);

/* The encoder's vectors of a source: *vectors[*tokens * d_model], in the arena, until the
 * session is used again.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_BATCH (no such source was encoded). */
int pf_session_encoded(pf_session *session, size_t sequence, const float **vectors, size_t *tokens);

/* One vector of a source: its tokens' vectors pooled as the model says, scaled to length 1
 * if it says so. out has d_model floats, and size must be that.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_BATCH, PF_E_SHAPE. */
int pf_session_embedding(pf_session *session, size_t sequence, size_t size, float *out);

/* Appends tokens to each target, as many as its length says (none is legal), arranged as in
 * pf_session_encode, and gives the scores of what comes next: *logits[batch * target_vocab],
 * in the arena, until the session is used again. The row of a target without new tokens is
 * that of its last ones (zeros at its start). The batch must be the session's. Token by
 * token or at once: the result has the same bits.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_SHAPE, PF_E_MISSING (no decoder or no
 * output), PF_E_BATCH, PF_E_FULL, PF_E_TOKEN. */
int pf_session_decode(pf_session *session, const uint32_t *tokens, size_t stride,
                      const size_t *lengths, size_t batch, const float **logits);

/* Receives a generated token. It must return (no longjmp, no exception), and must not use
 * the session: that is refused with PF_E_STATE. */
typedef void (*pf_each)(void *context, size_t sequence, uint32_t token);

/* Continues every target greedily, from the begin token or from what has been decoded,
 * until each has given the end token, limit tokens, or is full; calls each for every token
 * but the end token. *ended is 1 if all ended with it, else 0. context goes to each, and
 * may be NULL.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_MISSING. */
int pf_session_generate(pf_session *session, size_t limit, pf_each each, void *context, int *ended);

/* The same into memory: the tokens of target i from tokens[i * limit] on, lengths[i] of
 * them. The batch must be the session's; tokens has batch * limit places.
 * Codes: those of pf_session_generate, PF_E_SHAPE, PF_E_BATCH. */
int pf_session_generate_into(pf_session *session, size_t batch, size_t limit,
                             uint32_t *tokens, size_t *lengths, int *ended);

/* Starts the targets anew: those of the same sources (batch must be theirs), or, without
 * encoder, any batch that was planned.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_BATCH. */
int pf_session_restart(pf_session *session, size_t batch);

/* The token whose embedding has the largest dot product with x[size]: of the target's
 * table, or the source's in an encoder. size must be d_model.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE, PF_E_SHAPE. */
int pf_session_nearest(pf_session *session, const float *x, size_t size, uint32_t *token);

/* Where attention weights come from. */
#define PF_ENCODER_SELF_ATTENTION 0
#define PF_DECODER_SELF_ATTENTION 1
#define PF_DECODER_CROSS_ATTENTION 2

/* Attention weights that are about to be computed. */
typedef struct pf_weights {
    size_t layer;    /* from 0 */
    size_t sequence; /* of the batch, from 0 */
    size_t heads;
    size_t queries;
    size_t keys;     /* of the decoder itself, the last query is at position keys - 1 */
    int part;        /* PF_ENCODER_SELF_ATTENTION... */
} pf_weights;

/* Gives memory for the weights [heads * queries * keys], or NULL for those that nobody
 * wants; they are there when the function that runs the session returns. As pf_each, it
 * must return and not use the session. */
typedef float *(*pf_watch)(void *context, const pf_weights *weights);

/* Asks watch for memory during each later pf_session_encode and pf_session_decode of the
 * session; a watch of NULL ends that. context goes to watch, and may be NULL.
 * Codes: PF_E_NULL, PF_E_ALIGN, PF_E_STATE. */
int pf_session_watch(pf_session *session, pf_watch watch, void *context);

/* ---- Kernels alone ------------------------------------------------------------------- */

/* Matrices are row-major. Weights of kernels lie in lines of sixteen floats, on multiples
 * of 64 bytes (PF_E_ALIGN): "lines of n floats" are PF_PADDED(n) floats, of which those
 * beyond n do not matter unless a comment says so. Other arrays are plain floats.
 * Codes of all kernels: PF_E_NULL, PF_E_ALIGN, PF_E_SHAPE (sizes overflow), PF_E_CHOICE
 * (cpu or another choice), PF_E_OVERLAP. Sizes may be 0. */
#define PF_LINE 16
#define PF_PADDED(n) (((n) + PF_LINE - 1) / PF_LINE * PF_LINE)

/* Declares memory on a multiple of 64 bytes: PF_ALIGNED static float gamma[PF_PADDED(100)]; */
#if defined(__GNUC__)
#define PF_ALIGNED __attribute__((aligned(64)))
#elif defined(_MSC_VER)
#define PF_ALIGNED __declspec(align(64))
#elif defined(__cplusplus)
#define PF_ALIGNED alignas(64)
#else
#define PF_ALIGNED _Alignas(64)
#endif

/* Activations. GELU is x Phi(x) with the normal distribution's Phi, or the usual approximation
 * of it by tanh. */
#define PF_IDENTITY 0
#define PF_RELU 1
#define PF_GELU_ERF 2
#define PF_GELU_TANH 3
#define PF_SILU 4
#define PF_TANH 5
#define PF_SIGMOID 6
#define PF_EXP 7

/* Floats of weights[cols * depth] once packed. */
int pf_matmul_packed_size(size_t cols, size_t depth, size_t *floats);

/* Packs weights[cols * depth], a row of depth floats for each output column as linear
 * layers store them, into lines of size floats; size must be at least what
 * pf_matmul_packed_size says (PF_E_SHAPE). The same bytes on every CPU, so they may be
 * packed elsewhere and lie in flash. */
int pf_matmul_pack(const float *weights, size_t cols, size_t depth, float *packed, size_t size);

/* out[rows * cols] = activation(x[rows * depth] * W^T + bias), with W[cols * depth] packed;
 * bias is lines of cols floats, or NULL. */
int pf_matmul(const pf_cpu *cpu, const float *x, size_t rows, size_t depth, const float *packed,
              const float *bias, int activation, size_t cols, float *out);

/* The softmax of each row of x[rows * cols], in place. Entries of -INFINITY give 0, a row
 * of nothing else zeros. */
int pf_softmax(const pf_cpu *cpu, size_t rows, size_t cols, float *x);

/* x = (x + residual - mean) / sqrt(variance + eps) * gamma + beta for each row of
 * x[rows * cols], in place. residual[rows * cols] may be NULL; gamma is lines of cols
 * floats, and so is beta, which may be NULL. */
int pf_layer_norm(const pf_cpu *cpu, size_t rows, size_t cols, const float *residual,
                  const float *gamma, const float *beta, float eps, float *x);

/* x = (x + residual) / sqrt(mean((x + residual)^2) + eps) * gamma; arguments as above. */
int pf_rms_norm(const pf_cpu *cpu, size_t rows, size_t cols, const float *residual,
                const float *gamma, float eps, float *x);

/* x[size] += y[size]. */
int pf_add(const pf_cpu *cpu, const float *y, size_t size, float *x);

/* x = activation(x) for each of size floats, in place. */
int pf_activate(const pf_cpu *cpu, int activation, size_t size, float *x);

/* Which keys a query sees. */
#define PF_MASK_NONE 0               /* all */
#define PF_MASK_CAUSAL 1             /* query i sees those up to first + i */
#define PF_MASK_KEY_PADDING 2        /* those whose keep[keys] is 1 */
#define PF_MASK_CAUSAL_KEY_PADDING 3 /* both */
#define PF_MASK_ARBITRARY 4          /* those whose keep[queries * keys] is 1 */

/* The sizes of one attention. A row of queries, keys, values or results is the heads side
 * by side, each PF_PADDED(head_size) floats, whose floats beyond head_size are zeros in
 * values and do not matter elsewhere. */
typedef struct pf_attention_shape {
    size_t heads;
    size_t head_size;
    size_t queries;
    size_t query_stride; /* floats from one row of the query to the next, at least a row */
    size_t keys;         /* keys and values that are attended, at most capacity */
    size_t capacity;     /* keys and values that the packed memory has room for */
    size_t first;        /* the position of the first query, for the causal masks */
    int mask;            /* PF_MASK_ */
    const uint8_t *keep; /* of 0 and 1 (else PF_E_CHOICE), for the masks that have one */
} pf_attention_shape;

/* Floats of the packed keys, of the packed values and of the scratch of an attention. */
int pf_attention_sizes(const pf_attention_shape *shape, size_t *keys, size_t *values, size_t *scratch);

/* Packs count rows of keys and values, each stride floats after the last, at positions at
 * on of packed memory (lines, as large as pf_attention_sizes says); at + count may be at
 * most the capacity (PF_E_FULL). Of the shape only heads, head_size and capacity matter. */
int pf_attention_append(const pf_attention_shape *shape, size_t at, const float *key, const float *value,
                        size_t stride, size_t count, float *packed_keys, float *packed_values);

/* out[queries * row] = softmax(query * key^T / sqrt(head_size) + mask) * value for each head;
 * a query that sees no key gets zeros. scratch is lines; what it held does not matter.
 * weights[heads * queries * keys], if not NULL, receives the softmax. */
int pf_attention(const pf_cpu *cpu, const pf_attention_shape *shape, const float *query,
                 const float *packed_keys, const float *packed_values, float *scratch,
                 float *weights, float *out);

#ifdef __cplusplus
}
#endif

#endif
