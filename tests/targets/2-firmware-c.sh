# Firmware in C (tests/firmware/c), linked with the archive for bare metal: the embedded model
# from flash, on a Cortex-M4F and a Cortex-M33, with newlib and without any C library.

STEPS+=(firmware_c)

firmware_c() {
    firmware_c_on mps2-an386 thumbv7em-none-eabihf -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 0x00000000 0x20000000 4M
    firmware_c_on mps2-an505 thumbv8m.main-none-eabihf -mcpu=cortex-m33 -mfpu=fpv5-sp-d16 0x10000000 0x38000000 2M
}

firmware_c_on() { # BOARD TARGET CPU FPU FLASH RAM RAM_SIZE
    local board=$1 target=$2 library=target/firmware-c/$2 from=tests/firmware/c console program out host wrong=0
    # Apart from the host's: another compiler.
    CARGO_TARGET_DIR=$PWD/target/firmware-c RUSTC=$CROSS/bin/rustc core/c-library.sh "$library" "$target"
    local flags=("$3" -mthumb -mfloat-abi=hard "$4" -std=c11 -Wall -Wextra -Werror -pedantic -Os
        -ffunction-sections -fdata-sections "-I$library/include"
        "-DIMAGE=\"$PWD/std-bindings/models/g2p-en/g2p-en.pf\""
        -nostartfiles -T "$from/board.ld" -Wl,--gc-sections,-z,noexecstack
        "-Wl,--defsym=FLASH=$5,--defsym=FLASH_SIZE=4M,--defsym=RAM=$6,--defsym=RAM_SIZE=$7")
    for console in newlib bare; do
        program=$library/words-$console
        case $console in
            newlib) set -- --specs=rdimon.specs ;;
            # A loop that copies must not become a call of the function that it is in.
            bare) set -- -nostdlib -ffreestanding -fno-tree-loop-distribute-patterns ;;
        esac
        arm-none-eabi-gcc "${flags[@]}" "$@" "$from"/{startup,$console,words}.c "$from/image.S" \
            "$library/lib/libpicoformer.a" -o "$program"
        # Without a library, words go to what is the emulator's standard error.
        out=$(timeout 300 qemu-system-arm -M "$board" -nographic -semihosting-config enable=on,target=native \
            -kernel "$program" < /dev/null 2>&1)
        local word phonemes
        while IFS=: read -r word phonemes; do
            host=$(cargo run --quiet --release -p picoformer -- run "$word")
            [ "$phonemes" = " $host" ] || { echo "$board, $console: $word is$phonemes, here it is $host"; wrong=1; }
        done <<< "$out"
        [ "$(grep -c : <<< "$out")" -eq 8 ] || { echo "$board, $console answered $out"; wrong=1; }
        arm-none-eabi-size "$program" | awk -v what="$board, $console" 'NR == 2 { print what ": flash " $1 + $2 ", RAM without arena and stack " $2 + $3 }'
    done
    return $wrong
}
