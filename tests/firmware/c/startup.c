/* From reset to main, without a C library: vectors, floating point on, memory set up. */
#include "board.h"
#include <stdint.h>

extern uint32_t data_start[], data_end[], data_image[], bss_start[], bss_end[], stack_top[];
int main(void);

static void fault(void) {
    board_print("fault\n");
    board_exit(99);
}

void reset(void) {
    uint32_t *to;
    const uint32_t *from = data_image;
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: full access to the FPU */
    __asm__ volatile("dsb\n isb" ::: "memory");
    for (to = data_start; to < data_end;) *to++ = *from++;
    for (to = bss_start; to < bss_end;) *to++ = 0;
    board_start();
    board_exit(main());
}

/* The first is the stack's top, the others are called. */
union vector {
    uint32_t *stack;
    void (*handler)(void);
};

__attribute__((section(".vectors"), used)) static const union vector vectors[16] = {
    {.stack = stack_top},
    {.handler = reset},
    {.handler = fault}, /* non-maskable interrupt */
    {.handler = fault}, /* hard fault, and what becomes one: */
    {.handler = fault}, /* memory management */
    {.handler = fault}, /* bus */
    {.handler = fault}, /* usage */
    {.handler = fault}, /* security */
};
