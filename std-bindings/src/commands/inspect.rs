//! `picoformer inspect`: what an image holds.

use anyhow::Result;
use picoformer::core::config::{Config, Element};
use picoformer::core::parts::Tensor;
use picoformer::core::tokenize::Tokenizer;
use picoformer::core::{Line, model};
use serde_json::{Map, Value, json};
use std::io::{Write, stdout};
use std::path::Path;

pub(crate) fn inspect(file: Option<&Path>, as_json: bool) -> Result<()> {
    let file = super::open(file)?;
    let image = file.image()?;
    let (model, mut out) = (image.model(), stdout().lock());
    let mut tensors = Vec::new();
    model::describe(model.plan(), &mut |path, tensor, lines| {
        tensors.push((path.to_string(), tensor, lines * size_of::<Line>()));
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
            tensors.iter().map(|(n, t, b)| json!({ "name": n, "tensor": json_of(*t), "bytes": b })).collect();
        let value = json!({
            "name": image.name(), "bytes": file.bytes().len(), "weights_bytes": weights,
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
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        writeln!(out, "  {:20} {text}", key)?;
    }
    for (key, tokens) in tokenizers {
        match tokens {
            Some(tokens) => writeln!(out, "  {key:20} {tokens} tokens")?,
            None => writeln!(out, "  {key:20} none")?,
        }
    }
    writeln!(out, "{} tensors, {}", tensors.len(), super::bytes(weights))?;
    for (name, tensor, bytes) in tensors {
        let shape = shape(tensor);
        writeln!(out, "  {name:48} {shape:32} {bytes:>10} B")?;
    }
    Ok(())
}

fn description(c: &Config) -> Map<String, Value> {
    let value = json!({
        "stack": format!("{:?}", c.stack), "d_model": c.d_model, "heads": c.heads, "d_ff": c.d_ff,
        "encoder_layers": c.encoder_layers, "decoder_layers": c.decoder_layers,
        "source_vocab": c.source_vocab, "target_vocab": c.target_vocab,
        "source_context": c.source_context, "target_context": c.target_context,
        "shared_embedding": c.shared_embedding, "scaled_embedding": c.scaled_embedding,
        "positions": format!("{:?}", c.positions), "position_offset": c.position_offset,
        "norm": format!("{:?}", c.norm), "norm_place": format!("{:?}", c.norm_place),
        "norm_eps": c.norm_eps, "final_norm": c.final_norm, "embedding_norm": c.embedding_norm,
        "activation": format!("{:?}", c.activation), "attention_bias": c.attention_bias,
        "feed_forward_bias": c.feed_forward_bias, "output": format!("{:?}", c.output),
        "output_bias": c.output_bias, "pooling": format!("{:?}", c.pooling),
        "unit_length": c.unit_length, "begin": c.begin, "end": c.end,
        "elements": format!("{:?}", c.elements),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn json_of(tensor: Tensor) -> Value {
    match tensor {
        Tensor::Linear { cols, depth, bias, element, .. } => {
            json!({ "kind": "linear", "shape": [cols, depth], "bias": bias, "weights": format!("{element:?}") })
        }
        Tensor::Table { rows, d_model, tied, element } => {
            json!({ "kind": "table", "shape": [rows, d_model], "tied": tied, "weights": format!("{element:?}") })
        }
        Tensor::Norm { d_model, beta } => json!({ "kind": "norm", "shape": [d_model], "shift": beta }),
        Tensor::Bias { cols } => json!({ "kind": "bias", "shape": [cols] }),
    }
}

fn shape(tensor: Tensor) -> String {
    match tensor {
        Tensor::Linear { cols, depth, bias, element, .. } => {
            format!("linear {cols} × {depth}{}{}", if bias { " + bias" } else { "" }, stored(element))
        }
        Tensor::Table { rows, d_model, tied, element } => {
            format!("table {rows} × {d_model}{}{}", if tied { ", tied" } else { "" }, stored(element))
        }
        Tensor::Norm { d_model, beta } => format!("norm {d_model}{}", if beta { " + shift" } else { "" }),
        Tensor::Bias { cols } => format!("bias {cols}"),
    }
}

/// How weights are stored, if not as floats.
fn stored(element: Element) -> &'static str {
    match element {
        Element::F32 => "",
        Element::Int8 => ", int8",
        Element::Int8By64 => ", int8 by 64",
        Element::F16 => ", f16",
        Element::Bf16 => ", bf16",
    }
}
