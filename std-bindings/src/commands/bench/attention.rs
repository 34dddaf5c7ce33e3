//! The one attention that is asked for, as the comparison with other engines needs it.

use anyhow::{Context, Result, ensure};
use picoformer::core::Cpu;
use picoformer::core::kernels::attention::{Heads, Mask};
use picoformer::measure::cases::Attention;
use picoformer::measure::{median, seconds};
use serde_json::json;
use std::io::{Write, stdout};

/// `HEADSxSIZExQUERIESxKEYS`.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    heads: usize,
    size: usize,
    queries: usize,
    keys: usize,
}

impl Shape {
    pub(super) fn parse(text: &str) -> Result<Shape> {
        let numbers: Option<Vec<usize>> = text.split('x').map(|number| number.parse().ok()).collect();
        let Some(&[heads, size, queries, keys]) = numbers.as_deref() else {
            anyhow::bail!("four numbers with x between them, such as 12x32x128x128");
        };
        // The output has no gaps then, and neither have the rows that others make of the numbers.
        ensure!(size % 16 == 0, "the size of a head is a multiple of 16");
        ensure!(queries <= keys, "the last query sees all keys: there are at least as many keys");
        ensure!([heads, size, queries].iter().all(|&number| number > 0), "every number is at least 1");
        // What is more takes minutes and memory, not measurements.
        let floats = [heads, size, keys].iter().try_fold(1_usize, |all, &number| all.checked_mul(number));
        ensure!(floats.is_some_and(|floats| floats <= 1 << 26), "keys of more than 256 MiB");
        Ok(Shape { heads, size, queries, keys })
    }
}

/// Measures it on one thread, keys and values packed: packing is what the KV cache does, once a token.
pub(super) fn one(cpu: Cpu, shape: Shape, causal: bool, as_json: bool) -> Result<()> {
    const SAMPLES: usize = 20;
    let Shape { heads, size, queries, keys } = shape;
    let mask = if causal { Mask::Causal } else { Mask::None };
    let mut case = Attention::new(Heads { heads, head_size: size }, queries, keys, mask);
    // The first run warms the caches, the second says how many fill 5 ms.
    case.run(cpu);
    let times = ((5e-3 / seconds(1, || case.run(cpu))) as u64).max(1);
    let samples: Vec<f64> = (0..SAMPLES).map(|_| seconds(times, || case.run(cpu))).collect();
    let seconds = median(samples);
    let gflops = case.flops() as f64 / seconds * 1e-9;
    let mut out = stdout().lock();
    if as_json {
        // The last row sees all keys; it is the middle one that shows whether others are hidden.
        let row =
            |at: usize| case.out.chunks_exact(heads * size).nth(at).map(|row| &row[..row.len().min(64)]);
        let value = json!({
            "attention": format!("{heads}x{size}x{queries}x{keys}"), "causal": causal, "cpu": cpu.name(),
            "seconds": seconds, "gflops": gflops,
            "output": row(queries - 1).context("there is a last row")?,
            "middle": row(queries / 2).context("there is a middle row")?,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    let (name, tag) = (cpu.name(), if causal { ", causal" } else { "" });
    let us = seconds * 1e6;
    writeln!(
        out,
        "attention {heads} heads of {size}, {queries} × {keys}{tag}, {name}: {us:.2} µs, {gflops:.1} GFLOP/s"
    )?;
    Ok(())
}
