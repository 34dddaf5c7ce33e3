/* The board without any library: semihosting by hand, and the four functions of memory that
 * a compiler, and picoformer, take for granted. */
#include "board.h"
#include <stddef.h>
#include <stdint.h>

static void semihosting(uint32_t operation, const void *argument) {
    register uint32_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
}

void board_start(void) {}
void board_print(const char *text) { semihosting(0x04, text); } /* SYS_WRITE0 */
void board_exit(int code) {
    uint32_t reason[2] = {0x20026, 0}; /* ADP_Stopped_ApplicationExit */
    reason[1] = (uint32_t)code;
    for (;;) semihosting(0x20, reason); /* SYS_EXIT_EXTENDED */
}

void *memset(void *to, int byte, size_t n) {
    unsigned char *t = to;
    while (n--) *t++ = (unsigned char)byte;
    return to;
}
void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    unsigned char *t = to;
    const unsigned char *f = from;
    while (n--) *t++ = *f++;
    return to;
}
void *memmove(void *to, const void *from, size_t n) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if ((uintptr_t)to <= (uintptr_t)from) return memcpy(to, from, n);
    while (n--) t[n] = f[n];
    return to;
}
int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    for (; n--; x++, y++)
        if (*x != *y) return *x - *y;
    return 0;
}
