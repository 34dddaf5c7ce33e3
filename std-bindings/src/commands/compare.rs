//! `picoformer compare`: how far two images of one model differ over real texts, such as the
//! same weights in floats and in eight bits.

use anyhow::{Context, Result, ensure};
use picoformer::{ModelFile, Runner};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::Path;

/// Sentence encoders compare all pairs of this many texts at most.
const PAIRED: usize = 2000;

pub(crate) fn compare(a: &Path, b: &Path, texts: &Path, json: bool) -> Result<()> {
    let text = std::fs::read_to_string(texts).with_context(|| format!("{}", texts.display()))?;
    let texts: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    ensure!(!texts.is_empty(), "there is no text to compare with: one a line");
    let (mut first, mut second) = (Runner::new(ModelFile::open(a)?)?, Runner::new(ModelFile::open(b)?)?);
    let decodes =
        |runner: &Runner| Ok::<_, anyhow::Error>(runner.image()?.model().plan().config().has_decoder());
    ensure!(
        decodes(&first)? == decodes(&second)?,
        "{} and {} are not of one kind: one writes text, the other gives vectors",
        a.display(),
        b.display()
    );
    match decodes(&first)? {
        true => outputs(&mut first, &mut second, &texts, json),
        false => vectors(&first.embed(&texts)?, &second.embed(&texts)?, &texts, json),
    }
}

/// Models that write: how many answers changed, and the first few.
fn outputs(first: &mut Runner, second: &mut Runner, texts: &[&str], json: bool) -> Result<()> {
    let mut changed = Vec::new();
    for text in texts {
        let (x, y) = (first.transform(text)?.text, second.transform(text)?.text);
        if x != y {
            changed.push((*text, x, y));
        }
    }
    let percent = 100.0 * changed.len() as f64 / texts.len() as f64;
    let mut out = stdout().lock();
    if json {
        let changed: Vec<_> = changed.iter().map(|(t, x, y)| json!({ "text": t, "a": x, "b": y })).collect();
        writeln!(out, "{}", json!({ "texts": texts.len(), "changed": changed }))?;
        return Ok(());
    }
    writeln!(out, "{} texts, {} answers changed ({percent:.2} %)", texts.len(), changed.len())?;
    for (text, x, y) in changed.iter().take(10) {
        writeln!(out, "  {text}\n    a  {x}\n    b  {y}")?;
    }
    Ok(())
}

/// Models that give vectors: their cosines, and whether pairs of texts keep their order.
fn vectors(first: &[Vec<f32>], second: &[Vec<f32>], texts: &[&str], json: bool) -> Result<()> {
    let mut cosines: Vec<(f64, &str)> =
        first.iter().zip(second).zip(texts).map(|((x, y), text)| (cosine(x, y), *text)).collect();
    let mean = cosines.iter().map(|(cosine, _)| cosine).sum::<f64>() / cosines.len() as f64;
    cosines.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (worst, text) = cosines.first().copied().unwrap_or((1.0, ""));
    let pairs = |vectors: &[Vec<f32>]| -> Vec<f64> {
        let vectors = &vectors[..vectors.len().min(PAIRED)];
        let row = |i: usize| vectors[i + 1..].iter().map(move |y| cosine(&vectors[i], y));
        (0..vectors.len()).flat_map(row).collect()
    };
    let spearman = correlation(&ranks(&pairs(first)), &ranks(&pairs(second)));
    let mut out = stdout().lock();
    if json {
        let report = json!({
            "texts": texts.len(), "mean_cosine": mean, "worst_cosine": worst, "worst_text": text,
            "spearman_of_pairs": spearman,
        });
        writeln!(out, "{report}")?;
        return Ok(());
    }
    writeln!(out, "{} texts", texts.len())?;
    writeln!(out, "  cosine to the first      mean {mean:.5}, worst {worst:.5} ({text:?})")?;
    writeln!(out, "  order of pairs' cosines  Spearman {spearman:.5}")?;
    Ok(())
}

fn cosine(x: &[f32], y: &[f32]) -> f64 {
    let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
    let lengths = (dot(x, x) * dot(y, y)).sqrt();
    if lengths > 0.0 { dot(x, y) / lengths } else { 0.0 }
}

/// Each number's place in the order.
fn ranks(x: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..x.len()).collect();
    order.sort_by(|a, b| x[*a].total_cmp(&x[*b]));
    let mut ranks = vec![0.0; x.len()];
    order.iter().enumerate().for_each(|(rank, i)| ranks[*i] = rank as f64);
    ranks
}

/// Pearson's correlation; 1 of fewer than two.
fn correlation(x: &[f64], y: &[f64]) -> f64 {
    let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len().max(1) as f64;
    let (mx, my) = (mean(x), mean(y));
    let product = |x: &[f64], mx: f64, y: &[f64], my: f64| {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum::<f64>()
    };
    let both = (product(x, mx, x, mx) * product(y, my, y, my)).sqrt();
    if both > 0.0 { product(x, mx, y, my) / both } else { 1.0 }
}
