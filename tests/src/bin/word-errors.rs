//! The default model's word error rate over the test words of the CMU dictionary's split.
//!
//! The split and the metric are those of `std-bindings/models/g2p-en/train_g2p.py`: a
//! word is a test word if its SHA-1 modulo 100 is below 10; an answer is right if it is
//! one of the word's pronunciations.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use picoformer::{ModelFile, Runner};
use sha1::{Digest, Sha1};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// Word error rate of the default model on the CMU dictionary's test words.
#[derive(Parser)]
struct Arguments {
    /// The dictionary; fetched by `tests/fetch-models.sh` if it is not there.
    #[arg(long, default_value = "models/cmudict/cmudict.dict")]
    dictionary: PathBuf,
    /// Another model than the embedded one.
    #[arg(long)]
    model: Option<PathBuf>,
    /// Fail unless the rates are those of the model card, within 0.1 points.
    #[arg(long)]
    check: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if !arguments.dictionary.exists() {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("fetch-models.sh");
        ensure!(Command::new(script).status()?.success(), "fetching the dictionary failed");
    }
    let text = std::fs::read_to_string(&arguments.dictionary)
        .with_context(|| format!("{}", arguments.dictionary.display()))?;
    let mut words = test_words(&text);
    // Words of one length share a batch.
    words.sort_by_key(|(word, _)| word.len());
    let file = arguments.model.as_deref().map_or_else(|| Ok(ModelFile::embedded()), ModelFile::open)?;
    let mut runner = Runner::new(file)?;
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} words, {msg}")?;
    let progress = ProgressBar::new(words.len() as u64).with_style(style);
    let (mut wrong, mut wrong_without_stress, start) = (0, 0, Instant::now());
    for batch in words.chunks(32) {
        let spellings: Vec<&str> = batch.iter().map(|(word, _)| word.as_str()).collect();
        for ((_, pronunciations), answer) in batch.iter().zip(runner.transform_units(&spellings)?) {
            let plain = |phonemes: &str| phonemes.replace(|c: char| c.is_ascii_digit(), "");
            wrong += usize::from(!pronunciations.contains(&answer.text));
            let found = plain(&answer.text);
            wrong_without_stress += usize::from(!pronunciations.iter().any(|p| plain(p) == found));
        }
        progress.inc(batch.len() as u64);
        let rate = progress.position() as f64 / start.elapsed().as_secs_f64();
        progress.set_message(format!("{rate:.0} words a second"));
    }
    progress.finish_and_clear();
    let percent = |wrong: usize| 100.0 * wrong as f64 / words.len() as f64;
    let (stress, without) = (percent(wrong), percent(wrong_without_stress));
    println!("{} words, {:.0} a second", words.len(), words.len() as f64 / start.elapsed().as_secs_f64());
    println!("word error rate: {stress:.2} % with stress, {without:.2} % without");
    if arguments.check {
        ensure!(
            words.len() == 12_565,
            "the split has 12,565 test words, this dictionary has {}",
            words.len()
        );
        ensure!(
            (stress - 34.02).abs() <= 0.1 && (without - 28.37).abs() <= 0.1,
            "the model card says 34.02 % and 28.37 %"
        );
    }
    Ok(())
}

/// The test words of a dictionary with their pronunciations.
fn test_words(text: &str) -> Vec<(String, Vec<String>)> {
    let mut words: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(word) = fields.next() else { continue };
        // A further pronunciation has its number behind the word: `read(2)`.
        let word = word.split_once('(').map_or(word, |(word, _)| word);
        let known = |c: char| c == '\'' || c.is_ascii_lowercase();
        if word.chars().all(known) && word.contains(|c: char| c.is_ascii_lowercase()) {
            words.entry(word).or_default().push(fields.collect::<Vec<_>>().join(" "));
        }
    }
    let is_test = |word: &str| {
        let digest = Sha1::digest(word.as_bytes());
        digest.iter().fold(0, |rest, byte| (rest * 256 + u32::from(*byte)) % 100) < 10
    };
    words.into_iter().filter(|(word, _)| is_test(word)).map(|(word, p)| (word.to_owned(), p)).collect()
}
