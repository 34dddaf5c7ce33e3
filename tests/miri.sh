#!/usr/bin/env bash
# The tests of arenas, models and kernels under Miri, which sees every step that Rust does not
# define. There the CPU has no vectors, so it is the baseline that runs (core/src/cpu/detect.rs).
#
#   tests/miri.sh [TEST…]       a choice that takes minutes, or single files of tests/tests
set -euo pipefail
cd "$(dirname "$0")/.."

cargo +nightly miri --version > /dev/null 2>&1 ||
    { echo "SKIPPED: no Miri; rustup +nightly component add miri rust-src"; exit 0; }
tests=("$@")
[ ${#tests[@]} -gt 0 ] || tests=(misuse sessions)
# Files and time are asked for by the tests, not by the core.
MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-strict-provenance" RUSTFLAGS="--cfg emulated" \
    cargo +nightly miri test --target-dir target/miri -p picoformer-tests "${tests[@]/#/--test=}"
