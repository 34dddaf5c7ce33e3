# Linux on ARM under qemu-user: the tests of the kernels and models, and the bits beside this
# machine's.
#
#   aarch64   NEON: products round once, so every kernel and model must give AVX2's and AVX-512's bits
#   armv7     plain floats, whose products round twice: the bits of the baseline here (SSE2)
#
# Eight-bit products have the same bits on all of these. Left out is what only reads files, and
# what starts the command line, a program that this kernel cannot run by itself.
#
# Why there is no NEON backend on 32-bit ARM: its instructions are not to be had from a stable
# compiler, and there they take denormal numbers for zeros, which would break the stated errors
# and the equal bits. The price: the matmul's tile takes 2.5 instructions a multiply-add (2 of
# them the product and the sum); a NEON loop would take about 0.6. On 64 bits it takes 0.33.

STEPS+=(aarch64 armv7)

ARM_SUITES=(arena functions golden_attention golden_kernels golden_modules image int8 invariance
    kernels misuse models no_allocation threads)

aarch64() { linux_arm aarch64-unknown-linux-gnu aarch64-linux-gnu libc6-dev-arm64-cross qemu-aarch64 avx2 avx512; }

armv7() { linux_arm armv7-unknown-linux-gnueabihf arm-linux-gnueabihf libc6-dev-armhf-cross qemu-arm baseline; }

# In a shell of its own, for its environment.
linux_arm() ( # target, GCC's name for it, its C library, emulator, backends here that have its bits
    target=$1 gnu=$2 library=$3 emulator=$4
    shift 4
    { command -v "$gnu-gcc" && command -v "$emulator"; } > /dev/null ||
        apt-get -qq install -y --no-install-recommends "gcc-$gnu" "$library" qemu-user > /dev/null 2>&1 ||
        { echo "SKIPPED: gcc-$gnu or $emulator cannot be had"; exit 0; }
    [ -d "$CROSS/root/usr/lib/rustlib/$target" ] || { echo "SKIPPED: $CROSS has no std for $target"; exit 0; }

    # Only the kernels need optimisation (at level 3 LLVM takes minutes to unswitch their loops),
    # and nobody looks for a line in the emulator. The flag leaves out the reference tokenizer
    # (tests/Cargo.toml).
    upper=$(tr a-z- A-Z_ <<< "$target")
    export "CARGO_TARGET_${upper}_LINKER=$gnu-gcc" "CC_${target//-/_}=$gnu-gcc"
    export "CARGO_TARGET_${upper}_RUNNER=$emulator -L /usr/$gnu" "CARGO_TARGET_${upper}_RUSTFLAGS=--cfg emulated"
    CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0 RUSTC=$CROSS/bin/rustc \
        cargo --config 'profile.dev.package."*".opt-level=0' \
        --config profile.dev.package.picoformer-core.opt-level=2 test -q --target "$target" \
        --target-dir target/linux-arm -p picoformer-tests "${ARM_SUITES[@]/#/--test=}"

    # Both programs as built for the tests: the feature is one of theirs.
    there=target/linux-arm/bits-$target.txt
    "$emulator" -L "/usr/$gnu" "target/linux-arm/$target/debug/bits" baseline > "$there"
    cargo build -q -p picoformer-tests --bin bits --features picoformer-core/ffi
    for backend in "$@"; do
        here=target/linux-arm/bits-$backend.txt
        target/debug/bits | grep -x "$backend" > /dev/null ||
            { echo "SKIPPED: this machine has no $backend to compare with"; continue; }
        target/debug/bits "$backend" > "$here"
        diff "$here" "$there" || { echo "$target: not the bits of $backend here"; exit 1; }
        echo "$target: the bits of $backend here, $(wc -l < "$there") lines"
    done
)
