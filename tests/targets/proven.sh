# What the library promises of itself, proven on the machine code for a Cortex-M4: that no
# panic is reachable, the stack that each C function needs at most, and the bytes of flash.
#
#   tests/targets.sh record_stack record_size   write tests/proven/{stack,size}.txt anew

STEPS+=(no_panic stack size)

PROVEN=thumbv7em-none-eabihf
PROVEN_OUT=$PWD/target/proven
CORTEX_M4=(arm-none-eabi-gcc -mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16 -nostdlib)
OPT_LEVELS=(s 3)

# The library at an opt-level, as core/c-library.sh makes it: in $PROVEN_OUT/c-LEVEL.
proven_library() { # LEVEL
    RUSTC=$CROSS/bin/rustc CARGO_TARGET_DIR=$PROVEN_OUT CARGO_PROFILE_ARCHIVE_OPT_LEVEL=$1 \
        core/c-library.sh "$PROVEN_OUT/c-$1" $PROVEN > "$PROVEN_OUT/log" 2>&1 || { cat "$PROVEN_OUT/log"; return 1; }
}

# Links what the given entry points reach, and nothing else, from ARCHIVE.
link_entries() { # PROGRAM ARCHIVE ENTRY…
    local program=$1 archive=$2
    shift 2
    "${CORTEX_M4[@]}" -Wl,--gc-sections,--defsym=anything=0,-e,"$1" "${@/#/-Wl,-u,}" "$archive" -o "$program"
}

c_functions() { cc -E -P core/include/picoformer.h | grep -oE '\bpf_[a-z_]+\(' | tr -d '(' | sort -u; }

# The archive has no panic in it; and of tests/proven/no_panic, where a panic does not link,
# each function links alone (but for one, which shows that the test can fail).
no_panic() {
    local archive=$PROVEN_OUT/c-s/lib/libpicoformer.a entry entries count=0 found
    mkdir -p "$PROVEN_OUT"
    proven_library s
    found=$(arm-none-eabi-nm -C "$archive" | grep -E 'panicking|unwrap_failed|core::fmt' || true)
    [ -z "$found" ] || { echo "in the archive: $found"; return 1; }
    (cd tests/proven/no_panic && RUSTC=$CROSS/bin/rustc CARGO_TARGET_DIR=$PROVEN_OUT \
        cargo build --quiet --release --target $PROVEN)
    archive=$PROVEN_OUT/$PROVEN/release/libno_panic.a
    entries="$(c_functions) $(grep -oE '^    rust_[a-z0-9_]+' tests/proven/no_panic/src/lib.rs)"
    for entry in $entries; do
        if ! link_entries "$PROVEN_OUT/linked" "$archive" "$entry" 2> "$PROVEN_OUT/log"; then
            echo "$entry:"
            cat "$PROVEN_OUT/log"
            return 1
        fi
        count=$((count + 1))
    done
    if link_entries "$PROVEN_OUT/linked" "$archive" panics 2> "$PROVEN_OUT/log"; then
        echo "a function that panics was linked"
        return 1
    fi
    grep -q a_panic_is_reachable "$PROVEN_OUT/log"
    echo "no panic is reachable from $count functions"
}

# Prints `LEVEL function bytes`.
measure_stack() {
    local level
    mkdir -p "$PROVEN_OUT"
    for level in "${OPT_LEVELS[@]}"; do
        proven_library "$level"
        # shellcheck disable=SC2046 # names
        link_entries "$PROVEN_OUT/linked" "$PROVEN_OUT/c-$level/lib/libpicoformer.a" $(c_functions)
        python3 tests/proven/stack.py "$PROVEN_OUT/linked" | sed "s/^/$level /"
    done
}

# Prints `LEVEL part bytes`: code and constants of programs that use a part of the library.
measure_size() {
    local level part entries encoder all
    mkdir -p "$PROVEN_OUT"
    encoder="pf_model_open pf_arena_size pf_session_open pf_session_encode pf_session_encoded pf_session_embedding"
    all="$encoder pf_session_decode pf_session_generate"
    for level in "${OPT_LEVELS[@]}"; do
        proven_library "$level"
        for part in matmul kernels encoder encoder_decoder with_tokenizers; do
            case $part in
                matmul) entries=pf_matmul ;;
                kernels) entries=$(c_functions | grep -vE '^pf_(model|session|text|arena)_') ;;
                encoder) entries=$encoder ;;
                encoder_decoder) entries=$all ;;
                with_tokenizers) entries="$all pf_text_encode pf_text_decode" ;;
            esac
            # shellcheck disable=SC2086 # names
            link_entries "$PROVEN_OUT/linked" "$PROVEN_OUT/c-$level/lib/libpicoformer.a" $entries
            echo "$level $part $(arm-none-eabi-size "$PROVEN_OUT/linked" | awk 'NR == 2 { print $1 + $2 }')"
        done
    done
}

# Compares `LEVEL name bytes` lines with the recorded ones; nothing may be above LIMIT.
compare_bytes() { # RECORDED LIMIT
    local compared=1
    grep -qxF "# compiler: $(cross_compiler)" "$1" || compared=0
    awk -v compared=$compared -v limit="$2" -v file="$1" '
        FNR == NR { if ($1 != "#") recorded[$1 " " $2] = $3; next }
        {
            key = $1 " " $2; before = recorded[key]; delete recorded[key]
            change = before ? 100 * ($3 / before - 1) : 0; mark = ""
            if (!before) mark = "<- NOT RECORDED"
            else if (change > 3) mark = "<- MORE than recorded"
            else if (change < -3) mark = "<- LESS than recorded: record it"
            if (limit && $3 > limit) { mark = "<- ABOVE " limit; over++ }
            wrong += mark != ""
            printf "%-2s %-28s %8d %+7.2f%% %s\n", $1, $2, $3, change, mark
        }
        END {
            for (key in recorded) { print key " is recorded, but was not measured"; wrong++ }
            if (over) exit 1
            if (!compared) { print "*** NOT COMPARED: recorded with another compiler"; exit 0 }
            if (wrong) print wrong " are not within 3 % of " file "; if that is meant, record them"
            exit wrong > 0
        }' "$1" -
}

record_bytes() { # FILE WHAT MEASURE RECORD
    local measured
    measured=$($3)
    printf '%s\n' "# $2" "# To write it anew: tests/targets.sh $4" "# compiler: $(cross_compiler)" "$measured" > "$1"
    cat "$1"
}

stack() { measure_stack | compare_bytes tests/proven/stack.txt 4096; }
size() { measure_size | compare_bytes tests/proven/size.txt 0; }
record_stack() {
    record_bytes tests/proven/stack.txt "Opt-level, C function, bytes of stack at most, on a Cortex-M4." measure_stack record_stack
}
record_size() {
    record_bytes tests/proven/size.txt "Opt-level, part of the library, bytes of code and constants, on a Cortex-M4." measure_size record_size
}
