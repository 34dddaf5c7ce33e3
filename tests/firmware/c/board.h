/* What a program has from its board: words out, and an end. */
#ifndef BOARD_H
#define BOARD_H

void board_start(void);
void board_print(const char *text);
_Noreturn void board_exit(int code);

#endif
