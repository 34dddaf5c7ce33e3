//! The families built on PyTorch's `nn.Transformer`.
//!
//! The plain one has the names of PyTorch's tutorial "Language Translation with nn.Transformer":
//! `src_tok_emb.embedding`, `tgt_tok_emb.embedding`, `positional_encoding.pos_embedding` (a buffer,
//! optional here), `transformer` and `generator`, the output projection. Its `config.json` says
//! what a state dictionary cannot, under PyTorch's names:
//!
//! | key | without it |
//! |---|---|
//! | `nhead` | refused: any divisor of d_model could be right |
//! | `activation`: `relu` or `gelu` | `relu` |
//! | `norm_first` | `false` |
//! | `layer_norm_eps` | 1e-5 |
//! | `bos`, `eos`: the tokens that begin and end a target | 2 and 3, as in the tutorial |

use super::{activation, json, number};
use crate::convert::{self, Names};
use crate::source::Source;
use crate::vocab;
use anyhow::{Context, Result, ensure};
use picoformer_core::config::{Elements, NormPlace};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use picoformer_core::tokenize::{ADD_BEGIN, ADD_END, Specials};
use picoformer_core::{Config, Plan};
use serde_json::Value;
use std::path::Path;

/// A family's own names, and after them those of `nn.Transformer`, with query, key and value packed
/// in that order.
macro_rules! around_nn_transformer {
    ($($own:expr,)*) => { &[
        $($own,)*
        ("encoder.*.self_attention.query_key_value", &["transformer.encoder.layers.*.self_attn.in_proj_?"]),
        ("encoder.*.self_attention.output", &["transformer.encoder.layers.*.self_attn.out_proj.?"]),
        ("encoder.*.norm1", &["transformer.encoder.layers.*.norm1.?"]),
        ("encoder.*.feed_forward.up", &["transformer.encoder.layers.*.linear1.?"]),
        ("encoder.*.feed_forward.down", &["transformer.encoder.layers.*.linear2.?"]),
        ("encoder.*.norm2", &["transformer.encoder.layers.*.norm2.?"]),
        ("encoder.norm", &["transformer.encoder.norm.?"]),
        ("decoder.*.self_attention.query_key_value", &["transformer.decoder.layers.*.self_attn.in_proj_?"]),
        ("decoder.*.self_attention.output", &["transformer.decoder.layers.*.self_attn.out_proj.?"]),
        ("decoder.*.norm1", &["transformer.decoder.layers.*.norm1.?"]),
        ("decoder.*.cross_attention.query", &["transformer.decoder.layers.*.multihead_attn.in_proj_?#0-1"]),
        ("decoder.*.cross_attention.key_value", &["transformer.decoder.layers.*.multihead_attn.in_proj_?#1-3"]),
        ("decoder.*.cross_attention.output", &["transformer.decoder.layers.*.multihead_attn.out_proj.?"]),
        ("decoder.*.norm2", &["transformer.decoder.layers.*.norm2.?"]),
        ("decoder.*.feed_forward.up", &["transformer.decoder.layers.*.linear1.?"]),
        ("decoder.*.feed_forward.down", &["transformer.decoder.layers.*.linear2.?"]),
        ("decoder.*.norm3", &["transformer.decoder.layers.*.norm3.?"]),
        ("decoder.norm", &["transformer.decoder.norm.?"]),
    ] };
}

/// Names of the Russian stress model.
pub const RUACCENT: &Names =
    around_nn_transformer![("source_tokens", &["embed.char_embed.weight"]), ("output", &["output_proj.?"]),];

/// Names of the tutorial's translator.
pub const TORCH: &Names = around_nn_transformer![
    ("source_tokens", &["src_tok_emb.embedding.weight"]),
    ("target_tokens", &["tgt_tok_emb.embedding.weight"]),
    ("output", &["generator.?"]),
];

/// What the weights of an `nn.Transformer` tell; `embedding` is its source's table.
fn config(source: &Source, embedding: &str) -> Result<Config> {
    let rows_and_cols = |name: &str| match source.shape(name) {
        Some(&[rows, cols]) => Ok((rows as u32, cols as u32)),
        Some(shape) => anyhow::bail!("{name} must have two axes, it has {shape:?}"),
        None => anyhow::bail!("no tensor {name}"),
    };
    let layers = |stack: &str| {
        (0..).take_while(|i| source.contains(&format!("transformer.{stack}.layers.{i}.norm1.weight"))).count()
    };
    let (vocab, d_model) = rows_and_cols(embedding)?;
    Ok(Config {
        d_model,
        heads: 8,
        d_ff: rows_and_cols("transformer.encoder.layers.0.linear1.weight")?.0,
        encoder_layers: layers("encoder") as u32,
        decoder_layers: layers("decoder") as u32,
        source_vocab: vocab,
        target_vocab: vocab,
        source_context: 256,
        target_context: 256,
        final_norm: true,
        ..Config::PAPER
    })
}

/// The image of the tutorial's translator. It has no tokenizers: a state dictionary knows none.
pub(super) fn transformer(source: &Source, folder: &Path, elements: Elements) -> Result<Vec<u8>> {
    let json = json(&folder.join("config.json"))?;
    let rows = |name: &str| source.shape(name).and_then(|s| s.first()).map(|&n| n as u32);
    let or = |key: &str, default: u32| match json[key] {
        Value::Null => Ok(default),
        _ => number(&json, key),
    };
    let told = config(source, "src_tok_emb.embedding.weight")?;
    let context = rows(POSITIONS).unwrap_or(512);
    let config = Config {
        elements,
        heads: number(&json, "nhead")?,
        target_vocab: rows("tgt_tok_emb.embedding.weight")
            .context("no tensor tgt_tok_emb.embedding.weight")?,
        source_context: context,
        target_context: context,
        activation: activation(&json, "activation", Activation::Relu)?,
        norm_place: match json["norm_first"].as_bool() {
            Some(true) => NormPlace::Pre,
            _ => NormPlace::Post,
        },
        norm_eps: json["layer_norm_eps"].as_f64().unwrap_or(1e-5) as f32,
        begin: or("bos", 2)?,
        end: or("eos", 3)?,
        ..told
    };
    check_positions(source, config.d_model as usize)?;
    let blob = convert::weights(&Plan::new(config)?, source, TORCH)?;
    Ok(convert::image(&config, "nn.Transformer", &blob, &[], &[]))
}

const POSITIONS: &str = "positional_encoding.pos_embedding";

/// Fails if the file has positions that are not the paper's, which are computed here.
fn check_positions(source: &Source, d_model: usize) -> Result<()> {
    if !source.contains(POSITIONS) {
        return Ok(());
    }
    let theirs = source.tensor(POSITIONS)?.data;
    // Later rows are less exact in f32, as PyTorch computes them.
    let mut ours = vec![0.0; theirs.len().min(64 * d_model)];
    add_sinusoidal(Sinusoid::Interleaved, 0, &mut ours, d_model);
    let near = ours.iter().zip(&*theirs).all(|(x, y)| (x - y).abs() < 1e-4);
    ensure!(near, "{POSITIONS} does not hold the paper's sines and cosines, interleaved");
    Ok(())
}

/// The image of the Russian stress model.
pub(super) fn ruaccent(source: &Source, folder: &Path, elements: Elements) -> Result<Vec<u8>> {
    let vocab = json(&folder.join("vocab.json"))?;
    let map = vocab.as_object().context("vocab.json: it should be an object of characters and ids")?;
    let mut characters = vec![String::new(); map.len()];
    for (character, id) in map {
        let id = id.as_u64().unwrap_or(u64::MAX) as usize;
        let slot = characters.get_mut(id).with_context(|| format!("vocab.json: the id of {character:?}"))?;
        *slot = character.clone();
    }
    let config = Config { shared_embedding: true, elements, ..config(source, "embed.char_embed.weight")? };
    ensure!(
        config.source_vocab as usize == characters.len(),
        "vocab.json has {} characters, not {}",
        characters.len(),
        config.source_vocab
    );
    let blob = convert::weights(&Plan::new(config)?, source, RUACCENT)?;
    let specials = Specials { pad: Some(0), begin: Some(1), end: Some(2), unknown: Some(3), mask: None };
    let characters = vocab::characters(&characters, ADD_BEGIN | ADD_END, specials);
    Ok(convert::image(&config, "Russian stress marks", &blob, &characters, &characters))
}
