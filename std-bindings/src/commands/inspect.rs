//! `picoformer inspect`: what an image holds.

use anyhow::Result;
use picoformer::core::config::Config;
use picoformer::core::parts::Tensor;
use picoformer::core::tokenize::Tokenizer;
use picoformer::core::{Line, model};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::path::Path;

pub(crate) fn inspect(file: Option<&Path>, as_json: bool) -> Result<()> {
    let file = super::open(file)?;
    let image = file.image()?;
    let (model, mut out) = (image.model(), stdout().lock());
    let mut tensors = Vec::new();
    model::describe(model.plan(), &mut |path, tensor, lines| {
        tensors.push((path.to_string(), shape(tensor), lines * size_of::<Line>()));
    });
    let weights = model.plan().weights() * size_of::<Line>();
    let description = description(model.plan().config());
    let tokenizer = |t: Option<Tokenizer<'_>>| t.map(|t| t.vocab());
    let tokenizers = [
        ("source tokenizer", tokenizer(image.source_tokenizer())),
        ("target tokenizer", tokenizer(image.target_tokenizer())),
    ];
    if as_json {
        let tensors: Vec<Value> =
            tensors.iter().map(|(n, s, b)| json!({ "name": n, "shape": s, "bytes": b })).collect();
        let description: serde_json::Map<String, Value> =
            description.into_iter().map(|(key, value)| (key.replace(' ', "_"), json!(value))).collect();
        let value = json!({
            "name": image.name(), "bytes": file.bytes().len(), "weights": weights,
            "checksum": format!("{:016x}", image.checksum()), "format": picoformer::core::image::VERSION,
            "configuration": description, "tensors": tensors,
            "source_tokens": tokenizers[0].1, "target_tokens": tokenizers[1].1,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "{}", image.name())?;
    writeln!(
        out,
        "{}, format {}, checksum {:016x}",
        super::bytes(file.bytes().len()),
        picoformer::core::image::VERSION,
        image.checksum()
    )?;
    for (key, value) in description {
        writeln!(out, "  {key:20} {value}")?;
    }
    for (key, tokens) in tokenizers {
        match tokens {
            Some(tokens) => writeln!(out, "  {key:20} {tokens} tokens")?,
            None => writeln!(out, "  {key:20} none")?,
        }
    }
    writeln!(out, "{} tensors, {}", tensors.len(), super::bytes(weights))?;
    for (name, shape, bytes) in tensors {
        writeln!(out, "  {name:48} {shape:32} {bytes:>10} B")?;
    }
    Ok(())
}

fn description(c: &Config) -> Vec<(String, String)> {
    let rows: Vec<(&str, String)> = vec![
        ("stack", format!("{:?}", c.stack)),
        ("d_model", c.d_model.to_string()),
        ("heads", c.heads.to_string()),
        ("d_ff", c.d_ff.to_string()),
        ("encoder layers", c.encoder_layers.to_string()),
        ("decoder layers", c.decoder_layers.to_string()),
        ("source vocab", c.source_vocab.to_string()),
        ("target vocab", c.target_vocab.to_string()),
        ("source context", c.source_context.to_string()),
        ("target context", c.target_context.to_string()),
        ("shared embedding", c.shared_embedding.to_string()),
        ("scaled embedding", c.scaled_embedding.to_string()),
        ("positions", format!("{:?}", c.positions)),
        ("norm", format!("{:?} {:?}, eps {:e}", c.norm_place, c.norm, c.norm_eps)),
        ("final norm", c.final_norm.to_string()),
        ("embedding norm", c.embedding_norm.to_string()),
        ("activation", format!("{:?}", c.activation)),
        ("output", format!("{:?}", c.output)),
        ("pooling", format!("{:?}", c.pooling)),
    ];
    rows.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn shape(tensor: Tensor) -> String {
    match tensor {
        Tensor::Linear { cols, depth, bias, .. } => {
            format!("linear {cols} × {depth}{}", if bias { " + bias" } else { "" })
        }
        Tensor::Table { rows, d_model, tied } => {
            format!("table {rows} × {d_model}{}", if tied { ", tied" } else { "" })
        }
        Tensor::Norm { d_model, beta } => format!("norm {d_model}{}", if beta { " + shift" } else { "" }),
        Tensor::Bias { cols } => format!("bias {cols}"),
    }
}
