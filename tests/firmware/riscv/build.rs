//! Where QEMU's board `virt` has its memory: all of it is RAM.

use std::{env, fs, path::PathBuf};

fn main() {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let mut memory = String::from("MEMORY { RAM : ORIGIN = 0x80000000, LENGTH = 16M }\n");
    for region in ["TEXT", "RODATA", "DATA", "BSS", "HEAP", "STACK"] {
        memory += &format!("REGION_ALIAS(\"REGION_{region}\", RAM);\n");
    }
    fs::write(out.join("memory.x"), memory).unwrap();
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tmemory.x");
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=build.rs");
}
