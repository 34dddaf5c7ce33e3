# Linux on ARM under qemu-user: the test suite, and the bits beside this machine's.
#
#   aarch64   NEON: products round once, so every kernel and model must give AVX2's and AVX-512's bits
#   armv7     plain floats, for `wide` has no NEON here: the bits of the baseline (SSE2)
#
# Left out is what starts the command line, a program that this kernel cannot run by itself.

STEPS+=(aarch64 armv7)

# Suites and dependencies that need no optimisation, but for the kernels themselves.
ARM_SUITES=(arena families functions golden_attention golden_kernels golden_modules image invariance kernels
    misuse models no_allocation sources threads tokenizers)
ARM_CARGO=(--config 'profile.dev.package."*".opt-level=0')

aarch64() { linux_arm aarch64-unknown-linux-gnu aarch64-linux-gnu libc6-dev-arm64-cross qemu-aarch64 avx2 avx512; }

armv7() { linux_arm armv7-unknown-linux-gnueabihf arm-linux-gnueabihf libc6-dev-armhf-cross qemu-arm baseline; }

# In a shell of its own, for its environment.
linux_arm() ( # target, GCC's name for it, its C library, emulator, backends here that have its bits
    target=$1 gnu=$2 library=$3 emulator=$4
    shift 4
    command -v "$gnu-gcc" "$emulator" > /dev/null ||
        apt-get -qq install -y --no-install-recommends "gcc-$gnu" "$library" qemu-user > /dev/null 2>&1 ||
        { echo "SKIPPED: gcc-$gnu or qemu-user cannot be had"; exit 0; }
    [ -d "$CROSS/root/usr/lib/rustlib/$target" ] || { echo "SKIPPED: $CROSS has no std for $target"; exit 0; }

    upper=$(tr a-z- A-Z_ <<< "$target")
    export "CARGO_TARGET_${upper}_LINKER=$gnu-gcc" "CC_${target//-/_}=$gnu-gcc"
    export "CARGO_TARGET_${upper}_RUNNER=$emulator -L /usr/$gnu"
    cross=(env "RUSTC=$CROSS/bin/rustc" cargo "${ARM_CARGO[@]}")
    options=(-q --target "$target" --target-dir target/linux-arm -p picoformer-tests)

    "${cross[@]}" test "${options[@]}" "${ARM_SUITES[@]/#/--test=}"
    there=target/linux-arm/bits-$target.txt
    "${cross[@]}" run "${options[@]}" --bin bits -- baseline > "$there"
    for backend in "$@"; do
        here=target/linux-arm/bits-$backend.txt
        cargo run -q -p picoformer-tests --bin bits | grep -qx "$backend" ||
            { echo "SKIPPED: this machine has no $backend to compare with"; continue; }
        cargo run -q -p picoformer-tests --bin bits -- "$backend" > "$here"
        diff "$here" "$there" || { echo "$target: not the bits of $backend here"; exit 1; }
        echo "$target: the bits of $backend here, $(wc -l < "$there") lines"
    done
)
