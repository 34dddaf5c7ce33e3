#!/usr/bin/env bash
# The tests under the compiler's sanitizers: named steps that a person runs too.
#
#   tests/sanitizers.sh            every step
#   tests/sanitizers.sh STEP…      single steps
#   tests/sanitizers.sh --list     their names
#
#   address   the core's tests under AddressSanitizer: what is touched outside of memory
#   memory    the same under MemorySanitizer: what is read before it is written
#   thread    the tests of threads under ThreadSanitizer: what two touch at once
#
# `address` needs a nightly compiler. The other two need the standard library built with them:
# from the source of its own version, as a nightly's component rust-src has it, or the toolchain
# that tests/targets.sh unpacks (CROSS, default target/cross) with a nightly's runtimes.
set -euo pipefail
cd "$(dirname "$0")/.."

host=x86_64-unknown-linux-gnu
CROSS=${CROSS:-$PWD/target/cross}
core_suites=(kernels guard_pages int8 functions golden_kernels golden_attention golden_modules
    invariance misuse arena image sessions hostile)

skipped() { echo "SKIPPED: $*"; }
nightly() { [ "$(uname -m)" = x86_64 ] && cargo +nightly --version > /dev/null 2>&1; }

# suites SANITIZER TEST…: with whatever CARGO and RUSTC the step has set. Optimised as the tests
# are; without the reference tokenizer, which is in part C and would need the same flags.
suites() {
    local sanitizer=$1
    shift
    RUSTFLAGS="-Zsanitizer=$sanitizer --cfg emulated" CARGO_PROFILE_DEV_DEBUG=line-tables-only \
        "${cargo[@]}" test -q --target $host --target-dir "target/sanitizers/$sanitizer" \
        --config profile.dev.package.picoformer-core.opt-level=1 --config 'profile.dev.package."*".opt-level=1' \
        -p picoformer-tests "${@/#/--test=}"
}

address() {
    nightly || { skipped "no nightly compiler"; return; }
    local cargo=(cargo +nightly)
    # What a test leaks is its own affair.
    ASAN_OPTIONS=detect_leaks=0 suites address "${core_suites[@]}"
}

# with_std SANITIZER RUNTIME TEST…
with_std() {
    local sanitizer=$1 runtime=$2 cargo
    shift 2
    nightly || { skipped "no nightly compiler"; return; }
    if [ -d "$(rustc +nightly --print sysroot)/lib/rustlib/src/rust/library" ]; then
        cargo=(cargo +nightly -Zbuild-std)
    elif [ -x "$CROSS/bin/rustc" ]; then
        # Of another version than the nightly, but its runtimes are of C and fit.
        local from to
        from=$(rustc +nightly --print sysroot)/lib/rustlib/$host/lib
        to=$("$CROSS/bin/rustc" --print sysroot)/lib/rustlib/$host/lib
        [ -e "$to/librustc-stable_rt.$runtime.a" ] ||
            ln -s "$(ls "$from"/librustc-nightly_rt."$runtime".a)" "$to/librustc-stable_rt.$runtime.a"
        export RUSTC=$CROSS/bin/rustc RUSTC_BOOTSTRAP=1
        cargo=(cargo +stable -Zbuild-std)
    else
        skipped "neither rust-src of a nightly, nor the toolchain of tests/targets.sh toolchain"
        return
    fi
    suites "$sanitizer" "$@"
    unset RUSTC RUSTC_BOOTSTRAP
}

memory() { with_std memory msan "${core_suites[@]}"; }

thread() { TSAN_OPTIONS=halt_on_error=1 with_std thread tsan threads sessions; }

STEPS=(address memory thread)
[ "${1:-}" != --list ] || { printf '%s\n' "${STEPS[@]}"; exit; }
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${STEPS[@]}")
for step in "${steps[@]}"; do
    printf '\n=== %s\n' "$step"
    start=$SECONDS
    "$step"
    printf -- '--- %s: %d s\n' "$step" $((SECONDS - start))
done
