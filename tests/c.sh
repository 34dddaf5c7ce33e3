#!/usr/bin/env bash
# The C interface as C programs use it: named steps that a person runs too.
#
#   tests/c.sh               every step
#   tests/c.sh STEP…         single steps; all but the first need what `library` builds
#   tests/c.sh --list        their names
#
# What a step needs and does not find it says with SKIPPED.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$PWD/target/c
image=std-bindings/models/g2p-en/g2p-en.pf
minilm=models/minilm.pf
strict=(-Wall -Wextra -Werror -pedantic -O1 -g)
programs=(core/examples/{phonemes,similarity,linear}.c tests/c/{misuse,functions}.c)

skipped() { echo "SKIPPED: $*"; }
same() { [ "$1" = "$2" ] || { printf 'got:      %s\nexpected: %s\n' "$1" "$2"; return 1; }; }

# compile OUT [FLAGS…]: every program into OUT, as C99 and as C++17.
compile() {
    local to=$1 name
    shift
    mkdir -p "$to"
    for program in "${programs[@]}"; do
        name=$to/$(basename "$program" .c)
        cc -std=c99 "${strict[@]}" "$@" -I"$out/include" "$program" "$out/lib/libpicoformer.a" -lm -o "$name"
        c++ -std=c++17 -x c++ "${strict[@]}" "$@" -I"$out/include" "$program" -x none \
            "$out/lib/libpicoformer.a" -o "$name-cpp"
    done
}

# encoder: the image of an encoder, if its weights were fetched.
encoder() {
    [ -e models/minilm/model.safetensors ] || return 0
    [ -e $minilm ] ||
        cargo run --release -q -p picoformer -- convert bert models/minilm/model.safetensors $minilm >&2
    echo $minilm
}

# run_all "LANGUAGES" FOLDER COMMAND…: runs every program of c, or c and cpp, under a command.
run_all() {
    local languages=$1 from=$2 encoder language
    shift 2
    encoder=$(encoder)
    for language in $languages; do
        [ "$language" = c ] && language= || language=-cpp
        "$@" "$from/linear$language"
        same "$("$@" "$from/phonemes$language" $image transformer)" "T R AE0 N S F AO1 R M ER0"
        "$@" "$from/misuse$language" $image ${encoder:+"$encoder"}
        "$@" "$from/functions$language" $image
        if [ -n "$encoder" ]; then
            same "$("$@" "$from/similarity$language" "$encoder" \
                "The cat sits outside" "The feline is outdoors")" 0.5552
        else
            skipped "similarity: tests/fetch-models.sh has not fetched models/minilm"
        fi
    done
}

# The library, into target/c.
library() { core/c-library.sh "$out"; }

# Only pf_ symbols are visible, those that the header declares; and what the library needs.
symbols() {
    local declared needed
    declared=$(cc -E -P core/include/picoformer.h | grep -oE '\bpf_[a-z_]+\(' | tr -d '(' | sort)
    [ "$(wc -l <<< "$declared")" -gt 30 ]
    same "$(nm --defined-only -g "$out/lib/libpicoformer.a" | awk 'NF == 3 { print $3 }' | sort)" "$declared"
    same "$(nm --defined-only -D "$out/lib/libpicoformer.so" | awk '{ print $3 }' | sort)" "$declared"
    needed=$(nm -u "$out/lib/libpicoformer.a" | awk '$1 == "U" { print $2 }' | sort | xargs)
    echo "the archive needs $needed"
    [ -z "$(tr ' ' '\n' <<< "$needed" | grep -vxE 'memcpy|memmove|memset|memcmp|bcmp')" ]
    readelf -d "$out/lib/libpicoformer.so" | grep -E 'SONAME.*libpicoformer\.so\.[0-9]'
}

# The programs of core/examples and tests/c; the phonemes are the command line's.
programs() {
    compile "$out/bin"
    run_all "c cpp" "$out/bin" env
    local texts=("hello world" "Don’t 'tis ''rock'' 2nd-rate -- '" "naïve café, Zürich" "attention is all you need" "")
    same "$(for text in "${texts[@]}"; do "$out/bin/phonemes" $image "$text"; done)" \
        "$(printf '%s\n' "${texts[@]}" | cargo run --release -q -p picoformer -- run 2> /dev/null)"
}

address_sanitizer() {
    compile "$out/asan" -fsanitize=address,undefined -fno-sanitize-recover=all
    ASAN_OPTIONS=detect_leaks=0 run_all "c cpp" "$out/asan" env
}

# (Memory that programs leave to the system's end is no error.)
valgrind_memcheck() {
    command -v valgrind > /dev/null || { skipped "no valgrind: apt-get install valgrind"; return; }
    run_all c "$out/bin" valgrind -q --error-exitcode=9
}

# A program with another Rust library, in every kind of ours.
linking() {
    local other=$out/other/release/libother.a flags=(-std=c99 "${strict[@]}" -I"$out/include" tests/c/linked.c)
    cargo build -q --release --manifest-path tests/c/other/Cargo.toml --target-dir "$out/other"
    cc "${flags[@]}" "$out/lib/libpicoformer.a" "$other" -o "$out/bin/linked" && "$out/bin/linked"
    cc "${flags[@]}" "$other" "$out/lib/libpicoformer.a" -o "$out/bin/linked" && "$out/bin/linked"
    cc "${flags[@]}" "$other" -L"$out/lib" -lpicoformer -Wl,-rpath,"$out/lib" -o "$out/bin/linked" && "$out/bin/linked"
}

# The same for a Cortex-M4 without libc: there our archive needs nothing at all.
linking_bare() {
    local cross=${CROSS:-$PWD/target/cross} triple=thumbv7em-none-eabihf
    local bare=$out/$triple
    local machine=(-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -nostdlib)
    command -v arm-none-eabi-gcc > /dev/null || { skipped "no arm-none-eabi-gcc: apt-get install gcc-arm-none-eabi"; return; }
    if [ -x "$cross/bin/rustc" ]; then
        export RUSTC=$cross/bin/rustc
    elif [ ! -d "$(rustc --print sysroot)/lib/rustlib/$triple" ]; then
        skipped "no Rust for $triple: tests/targets.sh fetches one, or rustup target add $triple"
        return
    fi
    # Apart from the host's: another compiler.
    CARGO_TARGET_DIR=$out/cross core/c-library.sh "$bare" $triple
    cargo build -q --release --manifest-path tests/c/other/Cargo.toml --target $triple --target-dir "$out/other"
    unset RUSTC
    same "$(arm-none-eabi-nm -u "$bare/lib/libpicoformer.a" | awk '$1 == "U"' |
        grep -vxE ' *U (memcpy|memmove|memset|memcmp)')" ""
    same "$(arm-none-eabi-nm --defined-only -g "$bare/lib/libpicoformer.a" | awk 'NF == 3 { print $3 }' | sort)" \
        "$(nm --defined-only -g "$out/lib/libpicoformer.a" | awk 'NF == 3 { print $3 }' | sort)"
    for order in "$bare/lib/libpicoformer.a $out/other/$triple/release/libother.a" \
        "$out/other/$triple/release/libother.a $bare/lib/libpicoformer.a"; do
        # shellcheck disable=SC2086 # two archives
        arm-none-eabi-gcc "${machine[@]}" -DBARE -std=c99 -Wall -Wextra -Werror -pedantic -Os -I"$bare/include" \
            tests/c/linked.c $order -Wl,--gc-sections,-z,noexecstack -o "$out/bin/linked-bare"
        arm-none-eabi-size "$out/bin/linked-bare"
    done
}

# uses_it PREFIX: a program built by pkg-config, and one by CMake, from an installed library.
uses_it() {
    local prefix=$1 scratch
    scratch=$(mktemp -d)
    if command -v pkg-config > /dev/null; then
        # shellcheck disable=SC2046 # flags
        PKG_CONFIG_PATH=$prefix/lib/pkgconfig cc core/examples/linear.c \
            $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs picoformer) -o "$scratch/linear"
        LD_LIBRARY_PATH=$prefix/lib "$scratch/linear"
        PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion picoformer
    else
        skipped "no pkg-config"
    fi
    if command -v cmake > /dev/null; then
        cmake -S core/examples -B "$scratch/build" -DCMAKE_PREFIX_PATH="$prefix" > "$scratch/log" || { cat "$scratch/log"; return 1; }
        cmake --build "$scratch/build" > "$scratch/log" || { cat "$scratch/log"; return 1; }
        "$scratch/build/linear"
        same "$("$scratch/build/phonemes" $image transformer)" "T R AE0 N S F AO1 R M ER0"
    else
        skipped "no cmake: apt-get install cmake"
    fi
    rm -r "$scratch"
}

installed() { uses_it "$out"; }

# What cargo-c installs, used in the same ways, and beside another Rust library.
cargo_c() {
    cargo capi --version > /dev/null 2>&1 || { skipped "no cargo-c: cargo install --locked cargo-c, of a version for this compiler (some minutes)"; return; }
    local prefix=$out/cargo-c
    rm -rf "$prefix"
    cargo cinstall -p picoformer-core --profile archive --prefix "$prefix" --libdir lib
    (cd "$prefix" && find . -type f -o -type l | sort)
    uses_it "$prefix"
    cc -std=c99 -I"$prefix/include" tests/c/linked.c "$prefix/lib/libpicoformer.a" "$out/other/release/libother.a" \
        -o "$out/bin/linked" && "$out/bin/linked"
}

STEPS=(library symbols programs address_sanitizer valgrind_memcheck linking linking_bare installed cargo_c)
[ "${1:-}" != --list ] || { printf '%s\n' "${STEPS[@]}"; exit; }
steps=("$@")
[ ${#steps[@]} -gt 0 ] || steps=("${STEPS[@]}")
for step in "${steps[@]}"; do
    printf '\n=== %s\n' "$step"
    start=$SECONDS
    "$step"
    printf -- '--- %s: %d s\n' "$step" $((SECONDS - start))
done
