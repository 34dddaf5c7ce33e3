# The cross compiler, the emulators and the C compilers that the other steps use.
#
# CROSS is the folder of the toolchain (default target/cross); a step builds with
#   RUSTC=$CROSS/bin/rustc cargo build --target TRIPLE …

CROSS=${CROSS:-$PWD/target/cross}
