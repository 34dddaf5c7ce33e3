//! `picoformer run`: texts in, answers out.

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use picoformer::Runner;
use serde_json::json;
use std::io::{BufRead, IsTerminal, Write, stdin, stdout};
use std::path::Path;

/// Texts that are read before they are answered.
const PIECE: usize = 64;

pub(crate) fn run(model: Option<&Path>, json: bool, texts: Vec<String>) -> Result<()> {
    let mut runner = Runner::new(super::open(model)?)?;
    let mut reported = Vec::new();
    if !texts.is_empty() {
        return answer(&mut runner, json, &texts, &mut reported);
    }
    // A person who types sees each answer at once; a file goes in pieces.
    let typed = stdin().is_terminal();
    let progress =
        if typed || stdout().is_terminal() { ProgressBar::hidden() } else { ProgressBar::new_spinner() };
    let mut piece = Vec::new();
    for (i, line) in stdin().lock().lines().enumerate() {
        let Ok(line) = line else {
            answer(&mut runner, json, &piece, &mut reported)?;
            bail!("line {} of standard input is not UTF-8 text", i + 1);
        };
        piece.push(line);
        if typed || piece.len() == PIECE {
            answer(&mut runner, json, &piece, &mut reported)?;
            progress.inc(piece.len() as u64);
            progress.set_message(format!(
                "{} texts, {:.0} a second",
                progress.position(),
                progress.per_sec()
            ));
            piece.clear();
        }
    }
    answer(&mut runner, json, &piece, &mut reported)?;
    progress.finish_and_clear();
    Ok(())
}

fn answer(runner: &mut Runner, json: bool, texts: &[String], reported: &mut Vec<char>) -> Result<()> {
    let mut out = stdout().lock();
    if runner.image()?.model().plan().config().has_decoder() {
        for text in texts {
            let answer = runner.transform(text)?;
            for &unknown in &answer.unknown {
                if !reported.contains(&unknown) {
                    reported.push(unknown);
                    eprintln!("picoformer: the model does not know the character {unknown:?}");
                }
            }
            if answer.cut {
                eprintln!("picoformer: an answer was cut off at the model's longest target");
            }
            match json {
                true => writeln!(
                    out,
                    "{}",
                    json!({ "text": text, "output": answer.text, "unknown": answer.unknown, "cut": answer.cut })
                )?,
                false => writeln!(out, "{}", answer.text)?,
            }
        }
    } else {
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for (text, vector) in texts.iter().zip(runner.embed(&texts)?) {
            match json {
                true => writeln!(out, "{}", json!({ "text": text, "embedding": vector }))?,
                false => {
                    let numbers: Vec<String> = vector.iter().map(|x| format!("{x:.6}")).collect();
                    writeln!(out, "{}", numbers.join(" "))?;
                }
            }
        }
    }
    Ok(())
}
