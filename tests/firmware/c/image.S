/* The model's bytes in flash, on a multiple of 64; IMAGE is its path. */
    .section .rodata.image, "a"
    .balign 64
    .global image_start, image_end
image_start:
    .incbin IMAGE
image_end:
