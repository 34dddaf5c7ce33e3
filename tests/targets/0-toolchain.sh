# The cross compiler, the emulators and the C compilers that the other steps use.
#
# CROSS is the folder of the toolchain (default target/cross); a step builds with
#   RUSTC=$CROSS/bin/rustc cargo build --target TRIPLE …
#
# Debian packages a Rust compiler with the source of its library. The packages are unpacked
# into the folder, not installed, and `core` is built there once per target, so that a build for
# a target is that of a stable compiler. About 430 MB to download, and five minutes of CPU; a
# step that is interrupted goes on where it was. Needs Debian, root for apt-get, and rustup.

CROSS=${CROSS:-$PWD/target/cross}
DEVICE_TARGETS=(thumbv7em-none-eabihf thumbv8m.main-none-eabihf thumbv6m-none-eabi
    riscv32imc-unknown-none-elf riscv32imafc-unknown-none-elf)
STD_TARGETS=(aarch64-unknown-linux-gnu armv7-unknown-linux-gnueabihf)
STEPS+=(toolchain)

toolchain() {
    toolchain_devices
    build_library wasm32-unknown-unknown core,alloc compiler-builtins-mem
    local target
    for target in "${STD_TARGETS[@]}"; do
        build_library "$target" std,panic_unwind,test panic-unwind
    done
}

# What the steps without an operating system need.
toolchain_devices() {
    install_emulators
    mkdir -p "$CROSS"
    CROSS=$(cd "$CROSS" && pwd)
    [ -e "$CROSS/unpacked" ] || unpack_compiler
    local target
    for target in "${DEVICE_TARGETS[@]}"; do
        build_library "$target" core,alloc compiler-builtins-mem
    done
    "$CROSS/bin/rustc" --version
}

# Whatever needs the network: three times, for a mirror may be busy.
try() { "$@" || { sleep 5; "$@"; } || { sleep 15; "$@"; }; }

install_emulators() {
    local command missing=
    for command in qemu-system-arm qemu-system-riscv32 qemu-aarch64 arm-none-eabi-gcc \
        aarch64-linux-gnu-gcc arm-linux-gnueabihf-gcc; do
        command -v "$command" > /dev/null || missing+=" $command"
    done
    [ -n "$missing" ] || return 0
    echo "installing what is missing:$missing"
    try apt-get -qq update
    DEBIAN_FRONTEND=noninteractive try apt-get -qq install -y --no-install-recommends \
        qemu-system-arm qemu-system-misc qemu-user gcc-arm-none-eabi libnewlib-arm-none-eabi \
        gcc-aarch64-linux-gnu libc6-dev-arm64-cross gcc-arm-linux-gnueabihf libc6-dev-armhf-cross > /dev/null
}

# The compiler in $CROSS/root, and $CROSS/bin/rustc that starts it with its own libraries.
unpack_compiler() {
    local host=x86_64-unknown-linux-gnu packages=$CROSS/packages root=$CROSS/root version series llvm
    # Only the newest version stays on the mirrors, so none is named here.
    [ -n "$(apt-cache madison rustc-web)" ] || try apt-get -qq update
    version=$(apt-cache madison rustc-web | awk 'NR == 1 { print $3 }')
    [ -n "$version" ] || { echo "this system has no package rustc-web"; return 1; }
    series=$(cut -d. -f1,2 <<< "$version")
    # (To the end: what stops reading early fails the pipe.)
    llvm=$(apt-cache show "libstd-rust-web-$series=$version" | grep -o 'libllvm[0-9]*' | sort -u)

    rm -rf "$packages" "$root"
    mkdir -p "$packages" "$root" "$CROSS/bin"
    (cd "$packages" && try apt-get -qq download "rustc-web=$version" "libstd-rust-web-$series=$version" \
        "libstd-rust-web-dev=$version" "rust-web-src=$version" "$llvm" libz3-4 libedit2)
    local package
    for package in "$packages"/*.deb; do
        case $package in
            # Of the source, the library is enough.
            */rust-web-src_*)
                dpkg-deb --fsys-tarfile "$package" |
                    tar -x -C "$root" --wildcards './usr/src/rustc-*/library' ./usr/lib/rustlib/src/rust
                ;;
            *) dpkg-deb -x "$package" "$root" ;;
        esac
    done
    rm -rf "$packages"

    local program
    for program in rustc rustdoc; do
        cat > "$CROSS/bin/$program" <<EOF
#!/bin/sh
export LD_LIBRARY_PATH="$root/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
exec "$root/usr/bin/$program" "\$@"
EOF
        chmod +x "$CROSS/bin/$program"
    done
    # The linker for bare metal is that of the toolchain in use.
    mkdir -p "$root/usr/lib/rustlib/$host/bin"
    ln -sfn "$(rustup run stable rustc --print sysroot)/lib/rustlib/$host/bin/"* "$root/usr/lib/rustlib/$host/bin/"
    touch "$CROSS/unpacked"
}

# Library CRATES for TARGET, built from source into the compiler's own folder.
build_library() { # TARGET CRATES FEATURES
    local to=$CROSS/root/usr/lib/rustlib/$1/lib work=$CROSS/work
    [ ! -e "$to/complete" ] || return 0
    echo "building $2 for $1"
    mkdir -p "$work/src"
    echo '#![no_std]' > "$work/src/lib.rs"
    printf '[package]\nname = "empty"\nedition = "2021"\n[workspace]\n' > "$work/Cargo.toml"
    # This once, the compiler is allowed what only the library's own build needs.
    (cd "$work" && RUSTC=$CROSS/bin/rustc RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Cembed-bitcode=yes \
        try cargo +stable build --quiet --release --target "$1" -Zbuild-std="$2" -Zbuild-std-features="$3")
    rm -rf "$to"
    mkdir -p "$to"
    cp "$work/target/$1/release/deps/"lib*.rlib "$to/"
    rm -f "$to"/libempty*
    touch "$to/complete"
    rm -rf "$work/target"
}
