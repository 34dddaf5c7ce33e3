#!/usr/bin/env bash
# What the library is made of, and that it builds in every way that is promised: named steps that
# a person runs too.
#
#   tests/supply.sh            every step
#   tests/supply.sh STEP…      single steps
#   tests/supply.sh --list     their names
#
#   features           the core builds with every combination of its features
#   oldest_compiler    core and std crate build with the oldest compiler that is promised
#   minimal_versions   the core builds with the oldest versions of its dependencies that it allows
#   licences           licences, sources and advisories of every dependency (deny.toml)
#   public_interface   the core's public items are those of tests/proven/public.txt;
#                      RECORD=1 writes it
#
# The core's own tree of dependencies is held by tests/tests/supply.rs. What a step needs and
# does not find it says with SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/supply
core=(-p picoformer-core)
skipped() { echo "SKIPPED: $*"; }
# Compiles without optimisation or linking.
check() { CARGO_TARGET_DIR=$out "$@"; }

features() {
    local features
    # (`capi` has `ffi` in it; the archive itself is built by tests/c.sh.)
    for features in "" ffi capi; do
        check cargo check -q "${core[@]}" --no-default-features --features "$features"
        echo "checked with features: ${features:-none}"
    done
    # No feature is forgotten here.
    [ "$(sed -n '/^\[features\]/,/^\[/s/^\([a-z]*\) = .*/\1/p' core/Cargo.toml | xargs)" = "ffi capi" ] ||
        { echo "core/Cargo.toml has other features than are checked"; return 1; }
}

# The version of a `rust-version` line.
oldest() { sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml; }

oldest_compiler() {
    local version
    version=$(oldest)
    cargo +"$version" --version > /dev/null 2>&1 ||
        { skipped "no Rust $version (rustup toolchain install $version); clippy's incompatible_msrv stands in"; return; }
    CARGO_TARGET_DIR=$out/oldest cargo +"$version" check -q -p picoformer-core -p picoformer
    echo "builds with $(rustc +"$version" --version)"
}

minimal_versions() {
    cargo +nightly --version > /dev/null 2>&1 || { skipped "no nightly compiler, whose cargo can choose the oldest versions"; return; }
    local alone=$out/minimal
    rm -rf "$alone"
    mkdir -p "$alone"
    # The core alone, out of the workspace: others' minimal versions are not its affair.
    cp -r core "$alone/core"
    cp Cargo.toml "$alone/"
    sed -i 's/^members = .*/members = ["core"]/; s/^default-members = .*//; /^picoformer = /d' "$alone/Cargo.toml"
    (cd "$alone" && cargo +nightly update -q -Zdirect-minimal-versions && cargo +nightly tree -p picoformer-core --depth 1 &&
        CARGO_TARGET_DIR=$out cargo check -q -p picoformer-core --features ffi)
}

licences() {
    cargo deny --version > /dev/null 2>&1 || { skipped "no cargo-deny: cargo install --locked cargo-deny (some minutes)"; return; }
    cargo deny check -A duplicate licenses bans sources
    # Its database is a repository, which not every machine reaches.
    if cargo deny fetch db > "$out/advisories.log" 2>&1; then
        cargo deny check --disable-fetch advisories
    else
        skipped "the database of advisories cannot be fetched: $(tail -1 "$out/advisories.log")"
    fi
}

public_interface() {
    { cargo public-api --version && cargo +nightly --version; } > /dev/null 2>&1 ||
        { skipped "no cargo-public-api (cargo install --locked cargo-public-api) or no nightly compiler"; return; }
    local recorded=tests/proven/public.txt
    CARGO_TARGET_DIR=$out/public cargo +nightly public-api "${core[@]}" --simplified > "$out/public.txt"
    if [ -n "${RECORD:-}" ]; then
        cp "$out/public.txt" $recorded
    fi
    [ -e $recorded ] || { skipped "nothing is recorded: RECORD=1 tests/supply.sh public_interface"; return; }
    diff $recorded "$out/public.txt" || { echo "the public interface has changed: RECORD=1 if that is meant"; return 1; }
    echo "$(wc -l < $recorded) public items, as recorded"
}

STEPS=(features oldest_compiler minimal_versions licences public_interface)
[ "${1:-}" != --list ] || { printf '%s\n' "${STEPS[@]}"; exit; }
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${STEPS[@]}")
mkdir -p "$out"
for step in "${steps[@]}"; do
    printf '\n=== %s\n' "$step"
    start=$SECONDS
    "$step"
    printf -- '--- %s: %d s\n' "$step" $((SECONDS - start))
done
