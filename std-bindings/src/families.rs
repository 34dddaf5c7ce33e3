//! The families of models that are converted: their names, sizes and vocabularies.

pub mod torch;

use crate::convert::{self, Names};
use crate::source::Source;
use crate::vocab;
use anyhow::{Context, Result, ensure};
use picoformer_core::config::{Elements, Output, Pooling, Positions, Stack};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::tokenize::{ADD_END, BY_WORD, LOWER, SPACED, Specials};
use picoformer_core::{Config, Plan};
use serde_json::Value;
use std::path::Path;

/// A family of models with the same names and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The spelling-to-phonemes model: `model.npz` beside `vocab.json`.
    G2p,
    /// BERT sentence encoders: `model.safetensors` beside `config.json` and `vocab.txt`.
    Bert,
    /// The Russian stress model: `acc_model.pt` beside `vocab.json`.
    Ruaccent,
    /// PyTorch's `nn.Transformer` as its translation tutorial wraps it: a `.safetensors` or
    /// `.pt` of the state dictionary beside `config.json`; see [`torch`].
    Torch,
}

impl Family {
    /// Every family, by the name the command line knows it by.
    pub const ALL: [(&'static str, Family); 4] = [
        ("g2p", Family::G2p),
        ("bert", Family::Bert),
        ("ruaccent", Family::Ruaccent),
        ("torch", Family::Torch),
    ];

    /// The image of the model in `input`, a weight file whose vocabulary lies beside it, with its
    /// weights stored as `elements`.
    pub fn convert(self, input: &Path, elements: Elements) -> Result<Vec<u8>> {
        let source = Source::open(input)?;
        let folder = input.parent().unwrap_or(Path::new(""));
        // Told by a tensor of its own, before the files beside it are looked for.
        let (first, files) = match self {
            Family::G2p => ("src_embed.weight", "a model.npz, with vocab.json beside it"),
            Family::Bert => (
                "embeddings.word_embeddings.weight",
                "a model.safetensors, with config.json and vocab.txt beside it",
            ),
            Family::Ruaccent => ("embed.char_embed.weight", "an acc_model.pt, with vocab.json beside it"),
            Family::Torch => (
                "src_tok_emb.embedding.weight",
                "the state dictionary of an nn.Transformer, with config.json beside it",
            ),
        };
        ensure!(
            source.contains(first),
            "{} is not of this family, which reads {files}: it has no tensor {first:?}",
            input.display()
        );
        match self {
            Family::G2p => g2p(&source, folder, elements),
            Family::Bert => bert(&source, folder, elements),
            Family::Ruaccent => torch::ruaccent(&source, folder, elements),
            Family::Torch => torch::transformer(&source, folder, elements),
        }
    }
}

/// Names of the paper's modules as the training script of the default model has them.
pub const G2P: &Names = &[
    ("source_tokens", &["src_embed.weight"]),
    (
        "encoder.*.self_attention.query_key_value",
        &["encoder.*.self_attn.q.?", "encoder.*.self_attn.k.?", "encoder.*.self_attn.v.?"],
    ),
    ("encoder.*.self_attention.output", &["encoder.*.self_attn.o.?"]),
    ("encoder.*.norm1", &["encoder.*.norm1.?"]),
    ("encoder.*.feed_forward.up", &["encoder.*.linear1.?"]),
    ("encoder.*.feed_forward.down", &["encoder.*.linear2.?"]),
    ("encoder.*.norm2", &["encoder.*.norm2.?"]),
    ("target_tokens", &["tgt_embed.weight"]),
    (
        "decoder.*.self_attention.query_key_value",
        &["decoder.*.self_attn.q.?", "decoder.*.self_attn.k.?", "decoder.*.self_attn.v.?"],
    ),
    ("decoder.*.self_attention.output", &["decoder.*.self_attn.o.?"]),
    ("decoder.*.norm1", &["decoder.*.norm1.?"]),
    ("decoder.*.cross_attention.query", &["decoder.*.cross_attn.q.?"]),
    ("decoder.*.cross_attention.key_value", &["decoder.*.cross_attn.k.?", "decoder.*.cross_attn.v.?"]),
    ("decoder.*.cross_attention.output", &["decoder.*.cross_attn.o.?"]),
    ("decoder.*.norm2", &["decoder.*.norm2.?"]),
    ("decoder.*.feed_forward.up", &["decoder.*.linear1.?"]),
    ("decoder.*.feed_forward.down", &["decoder.*.linear2.?"]),
    ("decoder.*.norm3", &["decoder.*.norm3.?"]),
    ("output", &["out.?"]),
];

/// Names of BERT; its first token type is every token's, so it joins the positions.
pub const BERT: &Names = &[
    ("source_tokens", &["embeddings.word_embeddings.weight"]),
    (
        "source_positions",
        &["embeddings.position_embeddings.weight", "+embeddings.token_type_embeddings.weight"],
    ),
    ("source_norm", &["embeddings.LayerNorm.?"]),
    (
        "encoder.*.self_attention.query_key_value",
        &[
            "encoder.layer.*.attention.self.query.?",
            "encoder.layer.*.attention.self.key.?",
            "encoder.layer.*.attention.self.value.?",
        ],
    ),
    ("encoder.*.self_attention.output", &["encoder.layer.*.attention.output.dense.?"]),
    ("encoder.*.norm1", &["encoder.layer.*.attention.output.LayerNorm.?"]),
    ("encoder.*.feed_forward.up", &["encoder.layer.*.intermediate.dense.?"]),
    ("encoder.*.feed_forward.down", &["encoder.layer.*.output.dense.?"]),
    ("encoder.*.norm2", &["encoder.layer.*.output.LayerNorm.?"]),
];

fn g2p(source: &Source, folder: &Path, elements: Elements) -> Result<Vec<u8>> {
    let vocab = json(&folder.join("vocab.json"))?;
    let symbols = |key: &str| -> Result<Vec<String>> {
        let list = vocab[key].as_array().with_context(|| format!("vocab.json: no list {key:?}"))?;
        let symbols: Option<Vec<_>> = list.iter().map(|s| s.as_str().map(str::to_owned)).collect();
        let special = ["<pad>", "<bos>", "<eos>"].map(String::from);
        Ok(special.into_iter().chain(symbols.context("vocab.json: a symbol is not text")?).collect())
    };
    let (graphemes, phonemes) = (symbols("graphemes")?, symbols("phonemes")?);
    let config = Config {
        d_model: number(&vocab, "d_model")?,
        heads: number(&vocab, "heads")?,
        d_ff: number(&vocab, "d_ff")?,
        encoder_layers: number(&vocab, "n_encoder")?,
        decoder_layers: number(&vocab, "n_decoder")?,
        source_vocab: graphemes.len() as u32,
        target_vocab: phonemes.len() as u32,
        source_context: 64,
        target_context: 64,
        begin: number(&vocab, "bos")?,
        end: number(&vocab, "eos")?,
        elements,
        ..Config::PAPER
    };
    let blob = convert::weights(&Plan::new(config)?, source, G2P)?;
    let specials = Specials { pad: Some(0), begin: Some(1), end: Some(2), ..Specials::default() };
    let source = vocab::characters(&graphemes, LOWER | ADD_END | BY_WORD, specials);
    let target = vocab::characters(&phonemes, SPACED, specials);
    Ok(convert::image(&config, "English spelling to phonemes", &blob, &source, &target))
}

fn bert(source: &Source, folder: &Path, elements: Elements) -> Result<Vec<u8>> {
    let json = json(&folder.join("config.json"))?;
    let path = folder.join("vocab.txt");
    let text = std::fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let pieces: Vec<&str> = text.lines().collect();
    let eps = json["layer_norm_eps"].as_f64().unwrap_or(1e-12) as f32;
    let activation = activation(&json, "hidden_act", Activation::GeluErf)?;
    let config = Config {
        stack: Stack::Encoder,
        d_model: number(&json, "hidden_size")?,
        heads: number(&json, "num_attention_heads")?,
        d_ff: number(&json, "intermediate_size")?,
        encoder_layers: number(&json, "num_hidden_layers")?,
        decoder_layers: 0,
        source_vocab: number(&json, "vocab_size")?,
        target_vocab: 0,
        source_context: number(&json, "max_position_embeddings")?,
        target_context: 0,
        scaled_embedding: false,
        positions: Positions::Learned,
        norm_eps: eps,
        embedding_norm: true,
        activation,
        output: Output::None,
        output_bias: false,
        pooling: Pooling::Mean,
        unit_length: true,
        begin: 0,
        end: 0,
        elements,
        ..Config::PAPER
    };
    ensure!(
        pieces.len() == config.source_vocab as usize,
        "vocab.txt has {} pieces, the model {}",
        pieces.len(),
        config.source_vocab
    );
    let blob = convert::weights(&Plan::new(config)?, source, BERT)?;
    let name = json["_name_or_path"].as_str().unwrap_or("BERT sentence encoder");
    Ok(convert::image(&config, name, &blob, &vocab::wordpiece(&pieces, true), &[]))
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{}: this family needs it beside the weights", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))
}

fn number(json: &Value, key: &str) -> Result<u32> {
    let number = json[key].as_u64().and_then(|n| u32::try_from(n).ok());
    number.with_context(|| format!("{key:?} should be a whole number, it is {}", json[key]))
}

/// The activation that a `config.json` names under `key`, or `default` if it names none.
fn activation(json: &Value, key: &str, default: Activation) -> Result<Activation> {
    Ok(match (json[key].as_str(), &json[key]) {
        (None, Value::Null) => default,
        (Some("gelu"), _) => Activation::GeluErf,
        (Some("gelu_new" | "gelu_pytorch_tanh"), _) => Activation::GeluTanh,
        (Some("relu"), _) => Activation::Relu,
        (_, other) => {
            anyhow::bail!("config.json: {key} {other} is not known: gelu, gelu_new or relu is")
        }
    })
}
