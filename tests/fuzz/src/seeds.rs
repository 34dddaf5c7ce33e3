//! Sound input of each target, small: what the fuzzer starts from, and the committed corpus. To
//! write it anew: `WRITE_SEEDS=1 cargo test -p picoformer-tests --test hostile seeds`.

use picoformer::{convert, vocab};
use picoformer_core::config::{Element, Elements, Output, Positions, Stack};
use picoformer_core::tokenize::{ADD_BEGIN, ADD_END, LOWER, SPACED, Specials};
use picoformer_core::{Config, Plan};
use picoformer_tests::{numbers, small};
use safetensors::tensor::{Dtype, TensorView};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The target, a name, and the bytes.
pub type Seed = (&'static str, &'static str, Vec<u8>);

const LETTERS: [&str; 6] = ["<pad>", "<s>", "</s>", "a", "b", "ab"];

/// Images of an encoder–decoder, an encoder of words, an encoder–decoder in sixteen bits of both
/// kinds, and a decoder in eight bits. No context is longer than eight.
pub fn images() -> Vec<Vec<u8>> {
    let specials = Specials { pad: Some(0), begin: Some(1), end: Some(2), ..Specials::default() };
    let both = Config {
        d_model: 2,
        heads: 2,
        d_ff: 3,
        encoder_layers: 1,
        decoder_layers: 1,
        source_vocab: 6,
        target_vocab: 6,
        source_context: 8,
        target_context: 8,
        ..Config::PAPER
    };
    let encoder = Config {
        stack: Stack::Encoder,
        decoder_layers: 0,
        target_vocab: 0,
        target_context: 0,
        positions: Positions::Learned,
        source_vocab: 8,
        heads: 1,
        output: Output::None,
        begin: 0,
        end: 0,
        ..both
    };
    let halves = Config {
        elements: Elements { tokens: Element::Bf16, output: Element::Bf16, ..Elements::all(Element::F16) },
        ..both
    };
    let decoder = Config {
        stack: Stack::Decoder,
        encoder_layers: 0,
        source_vocab: 0,
        source_context: 0,
        heads: 1,
        output: Output::Tied,
        output_bias: false,
        elements: Elements::all(Element::Int8By64),
        ..both
    };
    let words = vocab::wordpiece(&["[PAD]", "[UNK]", "[CLS]", "[SEP]", "a", "##b", "c", ","], true);
    let letters = vocab::characters(&LETTERS, LOWER | ADD_BEGIN | ADD_END, specials);
    let spaced = vocab::characters(&LETTERS, SPACED, specials);
    let image = |config: &Config, name, source: &[u8], target: &[u8]| {
        let blob = small::weights(&Plan::new(*config).unwrap(), 1);
        convert::image(config, name, &blob, source, target)
    };
    vec![
        image(&both, "both", &letters, &spaced),
        image(&encoder, "encoder", &words, &[]),
        image(&halves, "halves", &letters, &spaced),
        image(&decoder, "decoder", &[], &letters),
    ]
}

/// Every seed.
pub fn all() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let names = ["both", "encoder", "halves", "decoder"];
    seeds.extend(names.into_iter().zip(images()).map(|(name, bytes)| ("image", name, bytes)));

    let with_text = |table: Vec<u8>, text: &str| {
        let mut bytes = (table.len() as u16).to_le_bytes().to_vec();
        bytes.extend(table);
        bytes.extend(text.bytes());
        bytes
    };
    let words = vocab::wordpiece(&["[UNK]", "play", "##ing", "中", "'"], true);
    seeds.push(("tokenizers", "words", with_text(words, "Playing pláy 中中 [UNK] don't")));
    let names = vocab::characters(&["AE1", "B", "</s>"], SPACED, Specials::default());
    seeds.push(("tokenizers", "names", with_text(names, "AE1 B  C AE1")));
    seeds.push(("tokenizers", "text", with_text(Vec::new(), "ABcab 'tis e\u{301}İß\u{1F600}")));

    seeds.push(("weights", "safetensors", safetensors(&[("w", vec![2, 3]), ("b", vec![3])])));
    seeds.push(("weights", "stored", npz(CompressionMethod::Stored, &[("w", vec![2, 3]), ("b", vec![])])));
    seeds.push((
        "weights",
        "deflated",
        npz(CompressionMethod::Deflated, &[("w", vec![2, 3]), ("b", vec![])]),
    ));
    seeds.push(("weights", "torch", torch(&[("w", vec![2, 3]), ("b", vec![3])])));

    let family = |number: u8, json: &str, text: &str, weights: Vec<u8>| {
        let mut bytes = vec![number, 0];
        bytes.extend((json.len() as u16).to_le_bytes());
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(json.bytes().chain(text.bytes()));
        bytes.extend(weights);
        bytes
    };
    let g2p = r#"{"graphemes":["a","b","c"],"phonemes":["A","B"],"d_model":2,"heads":1,"d_ff":1,"n_encoder":1,"n_decoder":1,"bos":1,"eos":2}"#;
    let bert = r#"{"hidden_size":2,"num_attention_heads":1,"intermediate_size":1,"num_hidden_layers":1,"vocab_size":5,"max_position_embeddings":3}"#;
    let pieces = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n";
    let ruaccent = r#"{"<pad>":0,"<s>":1,"</s>":2,"<unk>":3}"#;
    let torch_config = r#"{"nhead":2,"bos":1,"eos":2}"#;
    let owned = |weights: &[(String, Vec<usize>)]| -> Vec<(&'static str, Vec<usize>)> {
        weights.iter().map(|(name, shape)| (&*name.clone().leak(), shape.clone())).collect()
    };
    let stored = CompressionMethod::Stored;
    seeds.push(("converters", "g2p", family(0, g2p, "", npz(stored, &owned(&g2p_tensors())))));
    seeds.push(("converters", "bert", family(1, bert, pieces, safetensors(&owned(&bert_tensors())))));
    let tensors = owned(&torch_tensors(8, &["embed.char_embed"], "output_proj", 4));
    seeds.push(("converters", "ruaccent", family(2, ruaccent, "", torch(&tensors))));
    let embeddings = ["src_tok_emb.embedding", "tgt_tok_emb.embedding"];
    let tensors = owned(&torch_tensors(2, &embeddings, "generator", 3));
    seeds.push(("converters", "torch", family(3, torch_config, "", safetensors(&tensors))));

    let sizes = [2, 2, 2, 1];
    let plan = |words: [u8; 29]| words.into_iter().chain(sizes).chain([1]).collect::<Vec<u8>>();
    let both = [2, 4, 2, 3, 1, 1, 5, 6, 4, 4, 0, 1, 1, 0, 0, 0, 9, 0, 0, 1, 1, 1, 2, 1, 0, 0, 1, 2, 0];
    let decoder = [1, 4, 2, 3, 0, 1, 0, 6, 0, 4, 0, 0, 3, 1, 1, 1, 9, 1, 1, 4, 0, 0, 1, 0, 0, 0, 1, 2, 1];
    seeds.extend([("plan", "both", plan(both)), ("plan", "decoder", plan(decoder))]);

    for (name, first) in [("both", 0), ("encoder", 1), ("decoder", 2)] {
        let calls = numbers(u32::from(first) + 1, 400).into_iter().map(|x| (x * 128.0 + 128.0) as u8);
        seeds.push(("c_calls", name, [first].into_iter().chain(calls).collect()));
    }
    seeds
}

/// The names of a linear layer, or of a norm.
fn pair(tensors: &mut Vec<(String, Vec<usize>)>, name: &str, rows: usize, cols: Option<usize>) {
    tensors.push((format!("{name}.weight"), [rows].into_iter().chain(cols).collect()));
    tensors.push((format!("{name}.bias"), vec![rows]));
}

fn g2p_tensors() -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![("src_embed.weight".into(), vec![6, 2]), ("tgt_embed.weight".into(), vec![5, 2])];
    pair(&mut tensors, "out", 5, Some(2));
    for (stack, attentions) in [("encoder", &["self_attn"][..]), ("decoder", &["self_attn", "cross_attn"])] {
        for attention in attentions {
            for part in ["q", "k", "v", "o"] {
                pair(&mut tensors, &format!("{stack}.0.{attention}.{part}"), 2, Some(2));
            }
        }
        pair(&mut tensors, &format!("{stack}.0.linear1"), 1, Some(2));
        pair(&mut tensors, &format!("{stack}.0.linear2"), 2, Some(1));
        for norm in 1..=1 + attentions.len() {
            pair(&mut tensors, &format!("{stack}.0.norm{norm}"), 2, None);
        }
    }
    tensors
}

fn bert_tensors() -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![
        ("embeddings.word_embeddings.weight".into(), vec![5, 2]),
        ("embeddings.position_embeddings.weight".into(), vec![3, 2]),
        ("embeddings.token_type_embeddings.weight".into(), vec![2, 2]),
    ];
    pair(&mut tensors, "embeddings.LayerNorm", 2, None);
    for part in ["self.query", "self.key", "self.value", "output.dense"] {
        pair(&mut tensors, &format!("encoder.layer.0.attention.{part}"), 2, Some(2));
    }
    pair(&mut tensors, "encoder.layer.0.attention.output.LayerNorm", 2, None);
    pair(&mut tensors, "encoder.layer.0.intermediate.dense", 1, Some(2));
    pair(&mut tensors, "encoder.layer.0.output.dense", 2, Some(1));
    pair(&mut tensors, "encoder.layer.0.output.LayerNorm", 2, None);
    tensors
}

fn torch_tensors(d: usize, embeddings: &[&str], output: &str, vocab: usize) -> Vec<(String, Vec<usize>)> {
    let mut tensors: Vec<_> =
        embeddings.iter().map(|name| (format!("{name}.weight"), vec![vocab, d])).collect();
    pair(&mut tensors, output, vocab, Some(d));
    for (stack, attentions) in
        [("encoder", &["self_attn"][..]), ("decoder", &["self_attn", "multihead_attn"])]
    {
        let layer = format!("transformer.{stack}.layers.0");
        for attention in attentions {
            tensors.push((format!("{layer}.{attention}.in_proj_weight"), vec![3 * d, d]));
            tensors.push((format!("{layer}.{attention}.in_proj_bias"), vec![3 * d]));
            pair(&mut tensors, &format!("{layer}.{attention}.out_proj"), d, Some(d));
        }
        pair(&mut tensors, &format!("{layer}.linear1"), 1, Some(d));
        pair(&mut tensors, &format!("{layer}.linear2"), d, Some(1));
        for norm in 1..=1 + attentions.len() {
            pair(&mut tensors, &format!("{layer}.norm{norm}"), d, None);
        }
        pair(&mut tensors, &format!("transformer.{stack}.norm"), d, None);
    }
    tensors
}

/// Names and shapes; the numbers are all the same few.
type Tensors<'n> = [(&'n str, Vec<usize>)];

fn floats(shape: &[usize]) -> Vec<u8> {
    numbers(1, shape.iter().product()).iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn safetensors(tensors: &Tensors<'_>) -> Vec<u8> {
    let data: Vec<_> = tensors.iter().map(|(name, shape)| (name, shape, floats(shape))).collect();
    let views = data
        .iter()
        .map(|(name, shape, data)| (name, TensorView::new(Dtype::F32, shape.to_vec(), data).unwrap()));
    safetensors::serialize(views, None).unwrap()
}

fn zip(method: CompressionMethod, members: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // (The same bytes at any time.)
    let options =
        SimpleFileOptions::default().compression_method(method).last_modified_time(zip::DateTime::default());
    for (name, content) in members {
        zip.start_file(name.as_str(), options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn npz(method: CompressionMethod, tensors: &Tensors<'_>) -> Vec<u8> {
    let member = |(name, shape): &(&str, Vec<usize>)| {
        let axes: String = shape.iter().map(|n| format!("{n},")).collect();
        let header = format!("{{'descr':'<f4','fortran_order':False,'shape':({axes})}}\n");
        let mut bytes = b"\x93NUMPY\x01\0".to_vec();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(floats(shape));
        (format!("{name}.npy"), bytes)
    };
    zip(method, &tensors.iter().map(member).collect::<Vec<_>>())
}

/// A state dictionary as `torch.save` writes it, all of it in one storage.
fn torch(tensors: &Tensors<'_>) -> Vec<u8> {
    let text = |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let number = |n: usize| [b"J", &(n as u32).to_le_bytes()[..]].concat();
    let tuple = |numbers: &[usize]| {
        let numbers: Vec<u8> = numbers.iter().flat_map(|n| number(*n)).collect();
        [b"(", &numbers[..], b"t"].concat()
    };
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    let all: usize = tensors.iter().map(|(_, shape)| count(shape)).sum();
    let mut pickle = b"\x80\x02}(".to_vec();
    let mut at = 0;
    for (name, shape) in tensors {
        let strides: Vec<usize> = (1..=shape.len()).map(|axis| count(&shape[axis..])).collect();
        pickle.extend(text(name));
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        pickle.extend(text("storage"));
        pickle.extend(b"ctorch\nFloatStorage\n");
        pickle.extend([text("0"), text("cpu"), number(all), b"tQ".to_vec(), number(at)].concat());
        pickle.extend([tuple(shape), tuple(&strides)].concat());
        pickle.extend(b"\x89NtR");
        at += count(shape);
    }
    pickle.extend(b"u.");
    let members = [("m/data.pkl".to_owned(), pickle), ("m/data/0".to_owned(), floats(&[all]))];
    zip(CompressionMethod::Stored, &members)
}
