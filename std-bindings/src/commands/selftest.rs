//! `picoformer selftest`: whether the kernels are right on this CPU.

use anyhow::{Result, bail};
use picoformer::core::selftest::{self, Kernel};
use picoformer::core::{Cpu, Line};
use serde_json::json;
use std::io::{Write, stdout};
use std::time::Instant;

pub(crate) fn selftest(as_json: bool) -> Result<()> {
    let (mut out, mut wrong) = (stdout().lock(), Vec::new());
    let mut room = vec![Line::ZERO; selftest::LINES];
    for cpu in Cpu::all() {
        let start = Instant::now();
        let found = selftest::run(cpu, &mut room);
        let milliseconds = start.elapsed().as_secs_f64() * 1e3;
        let (name, error) = (cpu.name(), found.err().map(|error| error.to_string()));
        match (&error, as_json) {
            (_, true) => writeln!(
                out,
                "{}",
                json!({
                    "backend": name, "kernels": Kernel::ALL.len(), "ok": error.is_none(), "error": error,
                    "milliseconds": milliseconds,
                })
            )?,
            (None, _) => {
                writeln!(out, "{name:<14} {} kernels are right  ({milliseconds:.1} ms)", Kernel::ALL.len())?;
            }
            (Some(error), _) => writeln!(out, "{name:<14} WRONG: {error}")?,
        }
        wrong.extend(error.map(|error| format!("{name}: {error}")));
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("; "));
    }
    Ok(())
}
