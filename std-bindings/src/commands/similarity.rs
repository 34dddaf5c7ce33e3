//! `picoformer similarity`: the cosine of two texts' vectors.

use anyhow::{Result, ensure};
use picoformer::{ModelFile, Runner};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::Path;

pub(crate) fn similarity(model: &Path, json: bool, a: &str, b: &str) -> Result<()> {
    let mut runner = Runner::new(ModelFile::open(model)?)?;
    ensure!(
        !runner.image()?.model().plan().config().has_decoder(),
        "{} is no sentence encoder: it has a decoder; try `picoformer run`",
        model.display()
    );
    let vectors = runner.embed(&[a, b])?;
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let (x, y) = (&vectors[0], &vectors[1]);
    let lengths = (dot(x, x) * dot(y, y)).sqrt();
    let cosine = if lengths > 0.0 { dot(x, y) / lengths } else { 0.0 };
    match json {
        true => writeln!(stdout(), "{}", json!({ "a": a, "b": b, "cosine": cosine }))?,
        false => writeln!(stdout(), "{cosine:.4}")?,
    }
    Ok(())
}
