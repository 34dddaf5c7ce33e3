/* What the C tests share: expectations, and files in memory of exactly their size. */
#include "picoformer.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>


static int failures, checks;

#define CHECK(condition) \
    do { \
        checks++; \
        if (!(condition)) { \
            failures++; \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
        } \
    } while (0)

#define EXPECT(wanted, call) \
    do { \
        int code_ = (call), wanted_ = (wanted); \
        checks++; \
        if (code_ != wanted_) { \
            failures++; \
            fprintf(stderr, "%s:%d: %s: got %d (%s), expected %s\n", __FILE__, __LINE__, #call, code_, \
                    pf_error(code_), #wanted); \
        } \
    } while (0)

#define DONE() (printf("%d checks, %d failed\n", checks, failures), failures != 0)

/* Memory that begins skew bytes after a multiple of 64. It ends where its block ends, so that
 * a memory checker sees every step beyond it. Nobody frees it: the tests end soon. */
static char *place(size_t size, size_t skew) {
    size_t pad = 0;
    for (;;) {
        char *block = (char *)malloc(pad + skew + size);
        if (!block) abort();
        if ((uintptr_t)(block + pad) % 64 == 0) return block + pad + skew;
        pad = (64 - (uintptr_t)block % 64) % 64;
    }
}

static char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    long length = -1;
    if (file && fseek(file, 0, SEEK_END) == 0) length = ftell(file);
    if (length >= 0 && fseek(file, 0, SEEK_SET) == 0) {
        bytes = place((size_t)length, 0);
        *size = fread(bytes, 1, (size_t)length, file);
    }
    if (!bytes || *size != (size_t)length) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    fclose(file);
    return bytes;
}
