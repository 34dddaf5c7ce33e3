//! A state dictionary of PyTorch's `nn.Transformer`, made here of random numbers, runs as PyTorch's
//! modules are written down, in plain `f64`.

use picoformer::ModelFile;
use picoformer::families::Family;
use picoformer_core::config::Elements;
use picoformer_core::{Capacity, Cpu};
use picoformer_tests::{assert_close, numbers};
use safetensors::tensor::{Dtype, TensorView};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const D: usize = 12;
const HEADS: usize = 3;
const FF: usize = 20;
const VOCABS: (usize, usize) = (9, 11);

type Matrix = Vec<Vec<f64>>;

/// A state dictionary: shapes and numbers by name.
struct Weights(BTreeMap<String, (Vec<usize>, Vec<f32>)>);

impl Weights {
    fn random(layers: (usize, usize)) -> Self {
        let mut weights = Weights(BTreeMap::new());
        weights.add("src_tok_emb.embedding.weight", &[VOCABS.0, D]);
        weights.add("tgt_tok_emb.embedding.weight", &[VOCABS.1, D]);
        weights.linear("generator", VOCABS.1, D);
        for (stack, layers) in [("encoder", layers.0), ("decoder", layers.1)] {
            for i in 0..layers {
                let layer = format!("transformer.{stack}.layers.{i}");
                let attentions = ["self_attn", "multihead_attn"];
                for attention in attentions.iter().take(if stack == "encoder" { 1 } else { 2 }) {
                    weights.add(&format!("{layer}.{attention}.in_proj_weight"), &[3 * D, D]);
                    weights.add(&format!("{layer}.{attention}.in_proj_bias"), &[3 * D]);
                    weights.linear(&format!("{layer}.{attention}.out_proj"), D, D);
                }
                weights.linear(&format!("{layer}.linear1"), FF, D);
                weights.linear(&format!("{layer}.linear2"), D, FF);
                for norm in 1..=if stack == "encoder" { 2 } else { 3 } {
                    weights.add(&format!("{layer}.norm{norm}.weight"), &[D]);
                    weights.add(&format!("{layer}.norm{norm}.bias"), &[D]);
                }
            }
            weights.add(&format!("transformer.{stack}.norm.weight"), &[D]);
            weights.add(&format!("transformer.{stack}.norm.bias"), &[D]);
        }
        let positions = (0..30).flat_map(|at| (0..D).map(move |i| position(at, i) as f32)).collect();
        weights.0.insert("positional_encoding.pos_embedding".into(), (vec![30, 1, D], positions));
        weights
    }

    fn add(&mut self, name: &str, shape: &[usize]) {
        let data = numbers(self.0.len() as u32 + 1, shape.iter().product());
        self.0.insert(name.into(), (shape.to_vec(), data));
    }

    fn linear(&mut self, name: &str, cols: usize, depth: usize) {
        self.add(&format!("{name}.weight"), &[cols, depth]);
        self.add(&format!("{name}.bias"), &[cols]);
    }

    /// Writes the weights and `config.json` beside each other; gives the weights' path.
    fn write(&self, folder: &Path, config: &str) -> PathBuf {
        fs::create_dir_all(folder).unwrap();
        fs::write(folder.join("config.json"), config).unwrap();
        let bytes: Vec<(&String, &Vec<usize>, Vec<u8>)> = self
            .0
            .iter()
            .map(|(name, (shape, data))| (name, shape, data.iter().flat_map(|x| x.to_le_bytes()).collect()))
            .collect();
        let views = bytes
            .iter()
            .map(|(name, shape, data)| (*name, TensorView::new(Dtype::F32, shape.to_vec(), data).unwrap()));
        let path = folder.join("model.safetensors");
        fs::write(&path, safetensors::serialize(views, None).unwrap()).unwrap();
        path
    }

    fn rows(&self, name: &str, from: usize, to: usize) -> Matrix {
        let (shape, data) = &self.0[name];
        let cols: usize = shape[1..].iter().product();
        data.chunks(cols).map(|row| row.iter().map(|x| f64::from(*x)).collect()).collect::<Matrix>()[from..to]
            .to_vec()
    }

    fn project(&self, x: &Matrix, weight: &str, bias: &str, from: usize, to: usize) -> Matrix {
        let (weight, bias) = (self.rows(weight, from, to), self.rows(bias, from, to));
        let row = |x: &Vec<f64>| weight.iter().zip(&bias).map(|(w, b)| dot(w, x) + b[0]).collect();
        x.iter().map(row).collect()
    }

    fn apply(&self, x: &Matrix, name: &str) -> Matrix {
        let (weight, bias) = (format!("{name}.weight"), format!("{name}.bias"));
        self.project(x, &weight, &bias, 0, self.0[&weight].0[0])
    }

    fn attend(&self, x: &Matrix, memory: &Matrix, name: &str, causal: bool) -> Matrix {
        let (weight, bias) = (format!("{name}.in_proj_weight"), format!("{name}.in_proj_bias"));
        let part = |x, i| self.project(x, &weight, &bias, i * D, (i + 1) * D);
        let (query, key, value) = (part(x, 0), part(memory, 1), part(memory, 2));
        let size = D / HEADS;
        let row = |(i, q): (usize, &Vec<f64>)| -> Vec<f64> {
            let seen = if causal { i + 1 } else { key.len() };
            let head = |h: usize| {
                let at = h * size..(h + 1) * size;
                let weights: Vec<f64> = (0..seen)
                    .map(|t| (dot(&q[at.clone()], &key[t][at.clone()]) / (size as f64).sqrt()).exp())
                    .collect();
                let sum: f64 = weights.iter().sum();
                let mix = |j: usize| weights.iter().zip(&value).map(|(w, v)| w * v[j]).sum::<f64>() / sum;
                at.map(mix).collect::<Vec<f64>>()
            };
            (0..HEADS).flat_map(head).collect()
        };
        let heads = query.iter().enumerate().map(row).collect();
        self.apply(&heads, &format!("{name}.out_proj"))
    }

    fn norm(&self, x: &Matrix, name: &str) -> Matrix {
        let (gamma, beta) =
            (self.rows(&format!("{name}.weight"), 0, D), self.rows(&format!("{name}.bias"), 0, D));
        let row = |x: &Vec<f64>| {
            let mean = x.iter().sum::<f64>() / D as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / D as f64;
            let scaled = x.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt());
            scaled.zip(gamma.iter().zip(&beta)).map(|(x, (g, b))| x * g[0] + b[0]).collect()
        };
        x.iter().map(row).collect()
    }

    /// One stack; a decoder's is given the encoder's memory.
    fn stack(&self, mut x: Matrix, memory: Option<&Matrix>, layers: usize, pre: bool) -> Matrix {
        let stack = if memory.is_some() { "decoder" } else { "encoder" };
        for i in 0..layers {
            let layer = format!("transformer.{stack}.layers.{i}");
            let mut norms = 0;
            let mut step = |x: Matrix, f: &dyn Fn(&Matrix) -> Matrix| {
                norms += 1;
                let norm = format!("{layer}.norm{norms}");
                if pre { add(&x, &f(&self.norm(&x, &norm))) } else { self.norm(&add(&x, &f(&x)), &norm) }
            };
            x = step(x, &|x| self.attend(x, x, &format!("{layer}.self_attn"), memory.is_some()));
            if let Some(memory) = memory {
                x = step(x, &|x| self.attend(x, memory, &format!("{layer}.multihead_attn"), false));
            }
            x = step(x, &|x| {
                let mut hidden = self.apply(x, &format!("{layer}.linear1"));
                hidden.iter_mut().flatten().for_each(|x| *x = x.max(0.0));
                self.apply(&hidden, &format!("{layer}.linear2"))
            });
        }
        self.norm(&x, &format!("transformer.{stack}.norm"))
    }

    fn embed(&self, tokens: &[u32], name: &str) -> Matrix {
        let row = |(at, token): (usize, &u32)| {
            let vector = self.rows(name, *token as usize, *token as usize + 1).remove(0);
            vector.iter().enumerate().map(|(i, x)| x * (D as f64).sqrt() + position(at, i)).collect()
        };
        tokens.iter().enumerate().map(row).collect()
    }
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn add(x: &Matrix, y: &Matrix) -> Matrix {
    x.iter().zip(y).map(|(x, y)| x.iter().zip(y).map(|(x, y)| x + y).collect()).collect()
}

fn position(at: usize, i: usize) -> f64 {
    let angle = at as f64 / 10000f64.powf((i / 2 * 2) as f64 / D as f64);
    if i.is_multiple_of(2) { angle.sin() } else { angle.cos() }
}

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("picoformer-families-{}-{name}", std::process::id()))
}

#[test]
fn a_state_dictionary_of_pytorchs_transformer_scores_as_its_modules_do() {
    let (source, target, layers) = ([4, 0, 8, 5], [2, 10, 7], (2, 3));
    let weights = Weights::random(layers);
    for (pre, config) in [(false, r#"{"nhead": 3}"#), (true, r#"{"nhead": 3, "norm_first": true}"#)] {
        let folder = scratch(&format!("norm-first-{pre}"));
        let image = Family::Torch.convert(&weights.write(&folder, config), Elements::F32).unwrap();
        let memory =
            weights.stack(weights.embed(&source, "src_tok_emb.embedding.weight"), None, layers.0, pre);
        let x = weights.embed(&target, "tgt_tok_emb.embedding.weight");
        let expected = weights.apply(&weights.stack(x, Some(&memory), layers.1, pre), "generator");
        let file = ModelFile::from_bytes(&image).unwrap();
        let capacity = Capacity { batch: 1, source: source.len(), target: target.len(), chunk: target.len() };
        let model = file.image().unwrap().model().with_capacity(capacity).unwrap();
        assert_eq!((model.plan().config().source_context, model.plan().config().end), (30, 3));
        let mut arena = picoformer::arena(model.plan().arena());
        for cpu in Cpu::all() {
            let mut session = model.session(&mut arena, cpu).unwrap();
            session.encode(&[&source]).unwrap();
            let check = |_: usize, at: usize, logits: &[f32]| {
                let expected: Vec<f32> = expected[at].iter().map(|x| *x as f32).collect();
                assert_close(
                    &format!("scores {at} on {}, norm first {pre}", cpu.name()),
                    logits,
                    &expected,
                    1e-5,
                );
            };
            session.decode_each(&[&target], check).unwrap();
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn what_a_state_dictionary_lacks_or_has_otherwise_is_refused_by_name() {
    let folder = scratch("refused");
    let mut weights = Weights::random((1, 1));
    let refusal = |weights: &Weights, config: &str| {
        let error = Family::Torch
            .convert(&weights.write(&folder, config), Elements::F32)
            .expect_err("must be refused");
        format!("{error:#}")
    };
    assert!(refusal(&weights, "{}").contains("nhead"));
    assert!(refusal(&weights, r#"{"nhead": 5}"#).contains("heads must divide d_model"));
    assert!(refusal(&weights, r#"{"nhead": 3, "activation": "swish"}"#).contains("swish"));
    assert!(refusal(&weights, r#"{"nhead": 3, "eos": 11}"#).contains("begin and end"));
    let norm = weights.0.remove("transformer.decoder.norm.weight").unwrap();
    assert!(refusal(&weights, r#"{"nhead": 3}"#).contains("transformer.decoder.norm.weight"));
    weights.0.insert("transformer.decoder.norm.weight".into(), norm);
    weights.0.get_mut("positional_encoding.pos_embedding").unwrap().1[D] += 0.5;
    assert!(refusal(&weights, r#"{"nhead": 3}"#).contains("sines and cosines"));
    fs::remove_dir_all(folder).unwrap();
}
