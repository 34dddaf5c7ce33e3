#!/usr/bin/env bash
# Builds the C library and puts it into PREFIX: include/picoformer.h, lib/libpicoformer.a,
# and where there is an operating system lib/libpicoformer.so, for pkg-config and CMake too.
#
#   core/c-library.sh PREFIX [TARGET]
#
# TARGET is a Rust target triple. For another than this machine's, BINUTILS is the prefix
# of its ld, objcopy and ar (arm-none-eabi- for thumb targets), and LD may name an ld with
# options. CARGO_PROFILE_ARCHIVE_OPT_LEVEL=s makes it small.
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
prefix=$(realpath "$1") target=${2:-}
cd "$(dirname "$0")/.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
soname=libpicoformer.so.${version%.*}
case $target in
    thumb*) BINUTILS=${BINUTILS-arm-none-eabi-} ;;
esac
binutils=${BINUTILS-} ld=${LD:-${BINUTILS-}ld}
case $target in
    *-none-* | *-none) types=staticlib shared= ;;
    *) types=staticlib,cdylib shared=yes ;;
esac

# One object of everything (fat LTO), without unwinding: see [profile.archive].
cargo rustc -p picoformer-core --features capi --profile archive --crate-type $types \
    ${target:+--target "$target"} -- ${shared:+-C "link-arg=-Wl,-soname,$soname"}
built=${CARGO_TARGET_DIR:-target}/${target:+$target/}archive

# Rust's archive also has compiler_builtins, whose symbols every Rust archive has. So what
# is needed of them is linked in here, and then only pf_ symbols stay visible: the library
# goes with any other, of Rust or not. (-u takes the object with the functions; sections stay
# apart, so --gc-sections still leaves out what a program does not use. The bitcode that
# compiler_builtins carries is of no use to anyone.)
mkdir -p "$prefix/include" "$prefix/lib"
object=$(mktemp -d)
trap 'rm -r "$object"' EXIT
$ld -r -u pf_version -o "$object/all.o" "$built/libpicoformer_core.a"
"${binutils}objcopy" --wildcard --keep-global-symbol='pf_*' -R .llvmbc -R .llvmcmd \
    "$object/all.o" "$object/picoformer.o"
rm -f "$prefix/lib/libpicoformer.a"
"${binutils}ar" rcs "$prefix/lib/libpicoformer.a" "$object/picoformer.o"
cp core/include/picoformer.h "$prefix/include/"

[ -n "$shared" ] || exit 0
cp "$built/libpicoformer_core.so" "$prefix/lib/libpicoformer.so.$version"
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
