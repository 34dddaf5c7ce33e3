#!/usr/bin/env bash
# Builds the page's two modules beside it: with 128-bit SIMD, and without for old browsers.
# Needs the target: rustup target add wasm32-unknown-unknown
set -euo pipefail
cd "$(dirname "$0")"

build() { # features, name of the module
    RUSTFLAGS="-Ctarget-feature=$1" cargo build -q --release --target wasm32-unknown-unknown
    cp target/wasm32-unknown-unknown/release/picoformer_web.wasm "$2"
    echo "$2: $(stat -c %s "$2") bytes"
}
build +simd128 picoformer-simd.wasm
build -simd128 picoformer.wasm
