//! Tells the program what compiled it: instruction counts depend on it.

use std::process::Command;

fn main() {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let output = Command::new(variable("RUSTC")).arg("-V").output().expect("rustc tells its version");
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    // Flags are separated by a character that nobody can read.
    let flags = variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    println!("cargo::rustc-env=COMPILER={}", format!("{version}, {} {flags}", variable("TARGET")).trim());
    println!("cargo::rerun-if-changed=build.rs");
}
