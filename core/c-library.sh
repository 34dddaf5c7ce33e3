#!/usr/bin/env bash
# Builds the C library and puts it into PREFIX: include/picoformer.h, lib/libpicoformer.a,
# and where there is an operating system lib/libpicoformer.so, for pkg-config and CMake too.
#
#   core/c-library.sh PREFIX [TARGET]
#
# TARGET is a Rust target triple. For another than this machine's, BINUTILS is the prefix
# of its ld, objcopy and ar (arm-none-eabi- for thumb targets); LD and CC may name others, with
# options. CARGO_PROFILE_ARCHIVE_OPT_LEVEL=s makes it small.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
prefix=$(realpath "$1") target=${2:-}
cd "$(dirname "$0")/.."

case $target in
    thumb*) BINUTILS=${BINUTILS-arm-none-eabi-} ;;
esac
binutils=${BINUTILS-} ld=${LD:-${BINUTILS-}ld}

# One object of everything (fat LTO), without unwinding: see [profile.archive].
cargo rustc -p picoformer-core --features capi --profile archive --crate-type staticlib ${target:+--target "$target"}
built=${CARGO_TARGET_DIR:-target}/${target:+$target/}archive/libpicoformer_core.a

# Rust's archive also has compiler_builtins, whose symbols every Rust archive has. So what
# is needed of them is linked in here, and then only pf_ symbols stay visible: the library
# goes with any other, of Rust or not. (-u takes the object with the functions; sections stay
# apart, so --gc-sections still leaves out what a program does not use. The bitcode that
# compiler_builtins carries is of no use to anyone.)
mkdir -p "$prefix/include" "$prefix/lib"
object=$(mktemp -d)
trap 'rm -r "$object"' EXIT
$ld -r -u pf_version -o "$object/all.o" "$built"
"${binutils}objcopy" --wildcard --keep-global-symbol='pf_*' -R .llvmbc -R .llvmcmd \
    "$object/all.o" "$object/picoformer.o"
rm -f "$prefix/lib/libpicoformer.a"
"${binutils}ar" rcs "$prefix/lib/libpicoformer.a" "$object/picoformer.o"
cp core/include/picoformer.h "$prefix/include/"

# Without an operating system that is all.
case $target in
    *-none-* | *-none) exit ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
soname=libpicoformer.so.${version%.*}
"${CC:-cc}" -shared -Wl,-soname,"$soname" -o "$prefix/lib/libpicoformer.so.$version" "$object/picoformer.o"
ln -sf "libpicoformer.so.$version" "$prefix/lib/$soname"
ln -sf "$soname" "$prefix/lib/libpicoformer.so"
mkdir -p "$prefix/lib/pkgconfig" "$prefix/share/picoformer"
cp core/cmake/picoformer-config.cmake "$prefix/share/picoformer/"
cat > "$prefix/lib/pkgconfig/picoformer.pc" <<END
prefix=\${pcfiledir}/../..
Name: picoformer
Description: Transformers from the caller's memory
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -lpicoformer
END
