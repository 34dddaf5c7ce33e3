//! `picoformer bench`: how fast the kernels and a model are on this CPU.

mod attention;
mod kernels;
mod model;

use anyhow::{Context, Result};
use picoformer::Pool;
use picoformer::core::Cpu;
use serde_json::{Map, json};
use std::io::{Write, stdout};
use std::path::PathBuf;

/// What to measure: all kernels and the usual passes, or the one pass or attention that is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// The model; without it, the embedded one, and before it every kernel.
    #[arg(long, value_name = "FILE.pf")]
    model: Option<PathBuf>,
    /// Sequences that run together.
    #[arg(long, default_value_t = 1)]
    batch: usize,
    /// One encoder pass over so many tokens of each sequence.
    #[arg(long, value_name = "TOKENS")]
    source: Option<usize>,
    /// Encoder and decoder, scores after each of so many target tokens.
    #[arg(long, value_name = "TOKENS", conflicts_with = "generate")]
    target: Option<usize>,
    /// Encoder, then so many tokens greedily, one after another; the end token does not stop it.
    #[arg(long, value_name = "TOKENS")]
    generate: Option<usize>,
    /// One attention and no model, on one thread; keys and values are packed, as a KV cache has them.
    #[arg(long, value_name = "HEADSxSIZExQUERIESxKEYS", value_parser = attention::Shape::parse)]
    #[arg(conflicts_with_all = ["model", "batch", "source", "target", "generate", "threads"])]
    attention: Option<attention::Shape>,
    /// Queries of the attention see keys up to their own; the last sees all.
    #[arg(long, requires = "attention")]
    causal: bool,
    /// The kernels to use (without it, the fastest of this CPU): baseline, avx2, avx512.
    #[arg(long, value_name = "NAME")]
    cpu: Option<String>,
    /// Threads of the passes.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// One line of JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn bench(options: &Options) -> Result<()> {
    let pool = Pool::new(options.threads).context("--threads")?;
    let cpu = match &options.cpu {
        None => Cpu::detect(),
        Some(name) => Cpu::all().find(|cpu| cpu.name() == name).with_context(|| {
            let names: Vec<_> = Cpu::all().map(Cpu::name).collect();
            format!("--cpu {name:?}: this CPU has {}", names.join(", "))
        })?,
    };
    if let Some(shape) = options.attention {
        return attention::one(cpu, shape, options.causal, options.json);
    }
    let on = model::On { cpu, pool: &pool };
    let file = super::open(options.model.as_deref())?;
    let asked = model::Pass::asked(options.batch, options.source, options.target, options.generate);
    if let Some(pass) = asked {
        return model::one(&file, &on, pass, options.json);
    }
    let passes = model::Pass::usual(&file)?;
    if !options.json {
        if options.model.is_none() {
            kernels::table(&mut stdout().lock(), &kernels::measure())?;
        }
        return model::table(&file, &on, &passes);
    }
    let mut whole = Map::new();
    if options.model.is_none() {
        whole.insert("kernels".into(), kernels::measure().iter().map(kernels::Row::json).collect());
    }
    let times = model::measure(&file, &on, &passes, model::ROUNDS)?;
    let passes = passes.iter().zip(times).map(|(pass, times)| times.json(&on, *pass));
    whole.insert("passes".into(), passes.collect());
    writeln!(stdout(), "{}", json!(whole))?;
    Ok(())
}

/// `part` of `whole` as a bar of at most so many characters, in eighths of one.
fn bar(part: f64, whole: f64, most: usize) -> String {
    let eighths = (part / whole * most as f64 * 8.0).round().clamp(0.0, most as f64 * 8.0) as usize;
    let last = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"][eighths % 8];
    let bar = "█".repeat(eighths / 8) + last;
    format!("{bar:most$}")
}
