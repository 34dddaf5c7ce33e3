//! `picoformer trace`: each step of the encoder–decoder, as a teacher would show it.

use anyhow::{Context, Result, ensure};
use picoformer::Runner;
use picoformer::core::tokenize::{Tokenizer, Unit, words};
use picoformer::trace::{Trace, Weights};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::Path;

pub(crate) fn trace(model: Option<&Path>, as_json: bool, text: &str) -> Result<()> {
    let mut runner = Runner::new(super::open(model)?)?;
    let unit = match runner.image()?.source_tokenizer().context("this model has no tokenizer")?.unit() {
        Unit::Text => text.to_owned(),
        Unit::Word => words(text).next().context("the text has no word in it")?.to_owned(),
    };
    let mut trace = Trace::default();
    let (source, target) = runner.watched(&unit, &mut trace)?;
    let image = runner.image()?;
    let config = *image.model().plan().config();
    let names = |tokenizer: Option<Tokenizer<'_>>, ids: &[u32]| -> Vec<String> {
        let name =
            |id: &u32| tokenizer.and_then(|t| t.token(*id)).map_or_else(|| id.to_string(), str::to_owned);
        ids.iter().map(name).collect()
    };
    let source_names = names(image.source_tokenizer(), &source);
    let begun: Vec<u32> = [config.begin].into_iter().chain(target.iter().copied()).collect();
    let target_names = names(image.target_tokenizer(), &begun);
    let mut out = stdout().lock();
    if as_json {
        let steps: Vec<_> = trace
            .steps
            .iter()
            .map(|s| json!({ "part": s.part, "layer": s.layer, "shape": [s.rows, s.d_model], "first": s.first }))
            .collect();
        let weights: Vec<_> = trace
            .weights
            .iter()
            .map(|w| {
                json!({ "part": w.site.part, "layer": w.site.layer, "shape": [w.heads, w.queries, w.keys], "weights": w.data })
            })
            .collect();
        let value = json!({
            "unit": unit, "source": source_names, "target": target_names, "steps": steps, "attention": weights,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "source: {unit:?} → {}", source_names.join(" "))?;
    writeln!(out, "        tokens {source:?}\n")?;
    writeln!(out, "the encoder reads the whole source at once:")?;
    for step in trace.steps.iter().filter(|s| s.part.starts_with("encoder")) {
        let place =
            if step.part.ends_with("embedding") { String::new() } else { format!("layer {}", step.layer) };
        let numbers: Vec<String> = step.first.iter().map(|x| format!("{x:7.3}")).collect();
        let shape = format!("[{} × {}]", step.rows, step.d_model);
        writeln!(out, "  {:26} {place:8} {shape:12} last row: {} …", step.part, numbers.join(" "))?;
    }
    let last = |part: &str| trace.weights.iter().rfind(|w| w.site.part == part);
    if let Some(w) = last("encoder.self_attention") {
        writeln!(out, "\nself-attention, layer {}, head 0 (a row looks at the columns; %):", w.site.layer)?;
        table(&mut out, &source_names, &source_names, w.head(0))?;
    }
    if !config.has_decoder() {
        return Ok(());
    }
    ensure!(!trace.steps.is_empty(), "nothing was traced");
    writeln!(out, "\nthe decoder writes one token a step; its first step:")?;
    let per_token = 1 + config.decoder_layers as usize * 3;
    for step in trace.steps.iter().filter(|s| s.part.starts_with("decoder")).take(per_token) {
        let place =
            if step.part.ends_with("embedding") { String::new() } else { format!("layer {}", step.layer) };
        let numbers: Vec<String> = step.first.iter().map(|x| format!("{x:7.3}")).collect();
        let shape = format!("[{} × {}]", step.rows, step.d_model);
        writeln!(out, "  {:26} {place:8} {shape:12} last row: {} …", step.part, numbers.join(" "))?;
    }
    writeln!(out, "  {:26} {:8} [1 × {}]", "output projection", "", config.target_vocab)?;
    let layer = config.decoder_layers as usize - 1;
    let of = |part: &'static str| {
        trace.weights.iter().filter(move |w| w.site.part == part && w.site.layer == layer)
    };
    writeln!(out, "\nmasked self-attention, layer {layer}, head 0 (a token sees those before it; %):")?;
    table(
        &mut out,
        &target_names,
        &target_names,
        of("decoder.self_attention").flat_map(|w: &Weights| w.head(0)),
    )?;
    writeln!(out, "\ncross-attention, layer {layer}, head 0 (a target token looks at the source; %):")?;
    table(
        &mut out,
        &target_names,
        &source_names,
        of("decoder.cross_attention").flat_map(|w: &Weights| w.head(0)),
    )?;
    let answer: Vec<&str> = target_names.iter().skip(1).map(String::as_str).collect();
    writeln!(out, "\nanswer: {}", answer.join(" "))?;
    Ok(())
}

/// Weights in percent, the first sixteen columns.
fn table<'w>(
    out: &mut impl Write,
    rows: &[String],
    columns: &[String],
    weights: impl Iterator<Item = &'w [f32]>,
) -> Result<()> {
    const WIDEST: usize = 16;
    let cut = |name: &String| name.chars().take(5).collect::<String>();
    let head: Vec<String> = columns.iter().take(WIDEST).map(|c| format!("{:>5}", cut(c))).collect();
    writeln!(out, "        {}", head.join(" "))?;
    for (name, row) in rows.iter().zip(weights) {
        let cells: Vec<String> = row.iter().take(WIDEST).map(|w| format!("{:5.0}", w * 100.0)).collect();
        let more = if columns.len() > WIDEST { " …" } else { "" };
        writeln!(out, "  {:5} {}{more}", cut(name), cells.join(" "))?;
    }
    Ok(())
}
