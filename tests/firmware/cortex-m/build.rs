//! Where a board has its memory. `BOARD` names it; by default the target's own.

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
    // Start and KiB of what is flash, then of RAM.
    let (flash, flash_size, ram, ram_size) = match board.as_str() {
        "microbit" => (0x0000_0000u32, 256, 0x2000_0000u32, 16),
        "lm3s6965evb" => (0x0000_0000, 256, 0x2000_0000, 64),
        "mps2-an386" | "mps2-an500" => (0x0000_0000, 4096, 0x2000_0000, 4096),
        // It starts in the secure state, which sees its memory here.
        "mps2-an505" => (0x1000_0000, 4096, 0x3800_0000, 2048),
        // Tightly coupled memory: the larger memories of this board are behind the caches.
        "mps3-an547" => (0x0000_0000, 512, 0x2000_0000, 512),
        unknown => panic!("no memory map for the board {unknown}"),
    };
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let memory = format!(
        "MEMORY {{\n  FLASH : ORIGIN = {flash:#x}, LENGTH = {flash_size}K\n  RAM : ORIGIN = {ram:#x}, LENGTH = {ram_size}K\n}}\n"
    );
    fs::write(out.join("memory.x"), memory).unwrap();
    println!("cargo:rustc-link-search={}", out.display());
    println!("cargo:rustc-link-arg-bins=-Tlink.x");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=BOARD");
}
