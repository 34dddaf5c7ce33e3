/* The board by newlib, whose semihosting goes to the emulator's output. */
#include "board.h"
#include <stdio.h>
#include <stdlib.h>

void initialise_monitor_handles(void);

void board_start(void) { initialise_monitor_handles(); }
void board_print(const char *text) { printf("%s", text); }
void board_exit(int code) { exit(code); }
