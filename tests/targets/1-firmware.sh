# Firmware in Rust, on boards that QEMU emulates: the embedded model from flash, the kernels'
# own tests, and how many instructions both take. The programs are in tests/firmware.
#
#   tests/targets.sh record_instructions   writes tests/targets/instructions.txt anew

STEPS+=(firmware_words firmware_kernels device_instructions)

# The boards, each with its target. On those of `WORDS_ON` the model fits the flash.
WORDS_ON=(mps2-an386 mps2-an500 mps2-an505)
KERNELS_ON=(microbit lm3s6965evb mps2-an386 mps2-an505 mps3-an547)
COUNTED_ON=(mps2-an386 mps2-an505 mps3-an547)
INSTRUCTIONS=$PWD/tests/targets/instructions.txt

board_target() {
    case $1 in
        microbit | lm3s6965evb) echo thumbv6m-none-eabi ;;
        mps2-an386 | mps2-an500) echo thumbv7em-none-eabihf ;;
        mps2-an505 | mps3-an547) echo thumbv8m.main-none-eabihf ;;
    esac
}

# Builds a program of tests/firmware/cortex-m for a board and runs it: its output, and its
# exit code.
on_board() { # BOARD PROGRAM
    local target
    target=$(board_target "$1")
    (cd tests/firmware && BOARD=$1 RUSTC=$CROSS/bin/rustc \
        cargo build --quiet --release --target "$target" -p picoformer-cortex-m --bin "$2") >&2 || return
    timeout 300 qemu-system-arm -M "$1" -nographic -semihosting-config enable=on,target=native \
        -icount shift=6,sleep=off -kernel "tests/firmware/target/$target/release/$2" < /dev/null
}

# The kernels on RISC-V, without and with floating-point registers.
on_riscv() { # TARGET
    (cd tests/firmware && RUSTC=$CROSS/bin/rustc \
        cargo build --quiet --release --target "$1" -p picoformer-riscv --bin kernels) >&2 || return
    timeout 300 qemu-system-riscv32 -M virt -nographic -bios none \
        -kernel "tests/firmware/target/$1/release/kernels" < /dev/null
}

firmware_words() {
    local board out word phonemes host wrong=0
    for board in "${WORDS_ON[@]}"; do
        out=$(on_board "$board" words)
        while IFS=: read -r word phonemes; do
            host=$(cargo run --quiet --release -p picoformer -- run "$word")
            if [ "$phonemes" != " $host" ]; then
                echo "$board: $word is$phonemes; on this machine it is $host"
                wrong=1
            fi
        done < <(grep : <<< "$out")
        [ "$(grep -c : <<< "$out")" -ge 8 ] || { echo "$board answered few words: $out"; wrong=1; }
        echo "$board: $(grep -v : <<< "$out"), $(grep -c : <<< "$out") words as on this machine"
    done
    return $wrong
}

firmware_kernels() {
    local board target
    for board in "${KERNELS_ON[@]}"; do
        echo "$board, $(board_target "$board"):"
        on_board "$board" kernels
    done
    for target in riscv32imc-unknown-none-elf riscv32imafc-unknown-none-elf; do
        echo "virt, $target:"
        on_riscv "$target"
    done
}

# Prints `board case instructions work` of everything that is counted.
count_instructions() {
    local board
    for board in "${COUNTED_ON[@]}"; do
        on_board "$board" instructions | sed "s/^/$board /"
    done
}

# What compiled it: another compiler has other counts.
cross_compiler() { "$CROSS/bin/rustc" --version; }

device_instructions() {
    local compared=1
    grep -qxF "# compiler: $(cross_compiler)" "$INSTRUCTIONS" || compared=0
    count_instructions | awk -v compared=$compared '
        # First the recorded counts, then those of now.
        FNR == NR { if ($1 != "#") recorded[$1 " " $2] = $3; next }
        {
            key = $1 " " $2; before = recorded[key]; delete recorded[key]
            change = before ? 100 * ($3 / before - 1) : 0; mark = ""
            if (!before) mark = "<- NOT RECORDED"
            else if (change > 3) mark = "<- MORE than recorded"
            else if (change < -3) mark = "<- LESS than recorded: record it"
            wrong += mark != ""
            printf "%-12s %-28s %10d %9.3f each %+7.2f%% %s\n", $1, $2, $3, $3 / $4, change, mark
        }
        END {
            for (key in recorded) { print key " is recorded, but was not counted"; wrong++ }
            if (!compared) { print "*** NOT COMPARED: recorded with another compiler"; exit 0 }
            if (wrong) print wrong " counts are not within 3 % of the recorded ones. If that is meant:\n" \
                "tests/targets.sh record_instructions"
            exit wrong > 0
        }' "$INSTRUCTIONS" -
}

record_instructions() {
    local counts
    counts=$(count_instructions)
    {
        echo "# Instructions of each case on each board, and its multiply-adds or elements, counted by QEMU."
        echo "# To write it anew: tests/targets.sh record_instructions"
        echo "# compiler: $(cross_compiler)"
        echo "$counts"
    } > "$INSTRUCTIONS"
    cat "$INSTRUCTIONS"
}
