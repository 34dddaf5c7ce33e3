//! `picoformer convert`: a trained model's files to an image.

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use picoformer::ModelFile;
use picoformer::core::config::{Element, Elements};
use picoformer::families::Family;
use std::path::Path;
use std::time::Duration;

/// `--weights`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum Weights {
    /// 32-bit floats.
    F32,
    /// Eight bits, a scale a row.
    Int8,
    /// Eight bits, a scale for 64 numbers of a row.
    #[value(name = "int8-64")]
    Int8By64,
    /// Sixteen bits, IEEE 754's binary16.
    F16,
    /// Sixteen bits, the upper half of a float.
    Bf16,
}

impl Weights {
    fn elements(self) -> Elements {
        match self {
            Weights::F32 => Elements::F32,
            Weights::Int8 => Elements::all(Element::Int8),
            Weights::Int8By64 => Elements::all(Element::Int8By64),
            Weights::F16 => Elements::all(Element::F16),
            Weights::Bf16 => Elements::all(Element::Bf16),
        }
    }
}

pub(crate) fn convert(family: &str, input: &Path, out: &Path, weights: Weights) -> Result<()> {
    let names = Family::ALL.map(|(name, _)| name).join(", ");
    let (_, family) = Family::ALL
        .into_iter()
        .find(|(name, _)| *name == family)
        .with_context(|| format!("no family {family:?}: there are {names}"))?;
    let progress = ProgressBar::new_spinner().with_message(format!("packing {}", input.display()));
    progress.enable_steady_tick(Duration::from_millis(100));
    let bytes = family.convert(input, weights.elements())?;
    // What is written must open again.
    ModelFile::from_bytes(&bytes)?;
    // Written beside its place and moved there whole: a reader never sees half an image.
    let mut beside = out.as_os_str().to_owned();
    beside.push(format!(".{}.part", std::process::id()));
    let written = std::fs::write(&beside, &bytes).and_then(|()| std::fs::rename(&beside, out));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.with_context(|| format!("writing {}", out.display()))?;
    progress.finish_and_clear();
    eprintln!("{}: {}", out.display(), super::bytes(bytes.len()));
    Ok(())
}
