//! Where a board has its memory, and its clock. `BOARD` names it; by default the target's own.
//! `MODEL` is the path of another image than the embedded model's.

use std::{env, fs, path::PathBuf};

fn main() {
    let target = env::var("TARGET").unwrap();
    let board = env::var("BOARD").unwrap_or_else(|_| {
        let board = match target.as_str() {
            t if t.starts_with("thumbv6m") => "lm3s6965evb",
            t if t.starts_with("thumbv8m.main") => "mps2-an505",
            _ => "mps2-an386",
        };
        board.into()
    });
    // Start and KiB of what is flash, then of RAM; MHz.
    let (flash, flash_size, ram, ram_size, clock) = match board.as_str() {
        "microbit" => (0x0000_0000u32, 256, 0x2000_0000u32, 16, 16),
        "lm3s6965evb" => (0x0000_0000, 256, 0x2000_0000, 64, 12),
        "mps2-an386" | "mps2-an500" => (0x0000_0000, 4096, 0x2000_0000, 4096, 25),
        // It starts in the secure state, which sees its memory here.
        "mps2-an505" => (0x1000_0000, 4096, 0x3800_0000, 2048, 20),
        // Tightly coupled memory: the larger memories of this board are behind the caches.
        "mps3-an547" => (0x0000_0000, 512, 0x2000_0000, 512, 32),
        unknown => panic!("no memory map for the board {unknown}"),
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let memory = format!(
        "MEMORY {{\n  FLASH : ORIGIN = {flash:#x}, LENGTH = {flash_size}K\n  RAM : ORIGIN = {ram:#x}, LENGTH = {ram_size}K\n}}\n"
    );
    fs::write(out.join("memory.x"), memory).unwrap();
    // With a quarter of a megabyte for the program.
    let image = env::var("MODEL").unwrap_or_else(|_| {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../../std-bindings/models/g2p-en/g2p-en.pf").into()
    });
    if fs::metadata(&image).unwrap().len() + (256 << 10) <= flash_size << 10 {
        println!("cargo:rustc-cfg=model_fits");
    }
    if ram_size > 128 {
        println!("cargo:rustc-cfg=large");
    }
    println!("cargo:rustc-check-cfg=cfg(model_fits, large)");
    println!("cargo:rerun-if-changed={image}");
    println!("cargo:rerun-if-env-changed=MODEL");
    println!("cargo:rustc-env=MODEL={image}");
    println!("cargo:rustc-env=CLOCK_MHZ={clock}");
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=BOARD");
}
