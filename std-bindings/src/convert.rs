//! From a trained model's own tensors to a packed blob and a `.pf` image.
//!
//! A family is a table of names: our path of a tensor, and where its numbers come
//! from. `*` is the layer, `?` is `weight` or `bias`; several names are stacked by
//! rows; `#a-b` takes the rows from `a` to `b`, in units of d_model; `+` adds the
//! first row to every row.

use crate::source::Source;
use anyhow::{Context, Result, bail, ensure};
use picoformer_core::kernels::pack::{pack, pack_table};
use picoformer_core::parts::{HeadAxis, Tensor};
use picoformer_core::{Config, Line, Plan, image, model};

/// A family's table: our path of a tensor and its sources.
pub type Names = [(&'static str, &'static [&'static str])];

/// Bytes of weights that a byte of their file may become. Packing rounds up to sixteen columns and
/// sixteen features a head, twice the size where a model has both in earnest, and half floats
/// double; tiny models, of which all is rounding, have [`ALWAYS`].
const GROWTH: usize = 16;
/// Bytes of weights that any file may become.
const ALWAYS: usize = 1 << 20;

/// The blob of a plan's weights, filled from `source` by a family's names.
pub fn weights(plan: &Plan, source: &Source, names: &Names) -> Result<Vec<Line>> {
    // Configurations come from files too: memory is taken only for what can be there.
    let (need, have) = (plan.weights().saturating_mul(size_of::<Line>()), source.bytes());
    ensure!(
        need <= have.saturating_mul(GROWTH).saturating_add(ALWAYS),
        "the configuration is of a model of {need} bytes, of which the weights, {have} bytes, cannot be"
    );
    let mut blob = vec![Line::ZERO; plan.weights()];
    let (mut at, mut done) = (0, Ok(()));
    model::describe(plan, &mut |path, tensor, lines| {
        if done.is_ok() {
            let mut fill = || {
                let theirs = find(names, path).context("this family has no such tensor")?;
                fill_tensor(plan.config(), source, &theirs, tensor, &mut blob[at..at + lines])
            };
            done = fill().with_context(|| format!("tensor {path}"));
        }
        at += lines;
    });
    done.map(|()| blob)
}

/// A finished image of a model and its tokenizers (empty where there is none).
pub fn image(config: &Config, name: &str, weights: &[Line], source: &[u8], target: &[u8]) -> Vec<u8> {
    let weights = Line::bytes(weights);
    let lengths = (weights.len() as u64, source.len() as u64, target.len() as u64);
    let mut bytes = image::header(config, name, lengths.0, lengths.1, lengths.2).to_vec();
    bytes.extend_from_slice(weights);
    bytes.extend_from_slice(source);
    if !target.is_empty() {
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        bytes.extend_from_slice(target);
    }
    image::seal(&mut bytes);
    bytes
}

/// The sources of a path, with the layer put in for `*`.
fn find(names: &Names, path: &str) -> Option<Vec<String>> {
    names.iter().find_map(|(ours, theirs)| {
        let layer = match ours.split_once('*') {
            None => (path == *ours).then_some(""),
            Some((before, after)) => path
                .strip_prefix(before)?
                .strip_suffix(after)
                .filter(|layer| layer.chars().all(|c| c.is_ascii_digit())),
        }?;
        Some(theirs.iter().map(|t| t.replace('*', layer)).collect())
    })
}

fn fill_tensor(
    config: &Config,
    source: &Source,
    theirs: &[String],
    tensor: Tensor,
    out: &mut [Line],
) -> Result<()> {
    match tensor {
        Tensor::Linear { cols, depth, bias, heads, element } => {
            let (weights, shift) = out.split_at_mut(out.len() - if bias { cols.div_ceil(16) } else { 0 });
            let (rows_in, depth_in) =
                (narrow(config, heads, cols, true), narrow(config, heads, depth, false));
            let weight = stack(config, source, theirs, "weight", rows_in, depth_in)?;
            let weight = pad_heads(config, heads, weight, rows_in, depth_in);
            pack(element, &weight, cols, depth, weights);
            if bias {
                let bias = stack(config, source, theirs, "bias", rows_in, 1)?;
                let bias = match heads {
                    HeadAxis::Columns(_) => pad_heads(config, heads, bias, rows_in, 1),
                    _ => bias,
                };
                Line::floats_mut(shift)[..cols].copy_from_slice(&bias);
            }
        }
        Tensor::Table { rows, d_model, tied, element } => {
            let table = stack(config, source, theirs, "weight", rows, d_model)?;
            match tied {
                true => pack(element, &table, rows, d_model, out),
                false => pack_table(element, &table, rows, d_model, out),
            }
        }
        Tensor::Norm { d_model, beta } => {
            let (gamma, shift) = out.split_at_mut(Line::count(d_model));
            let weight = stack(config, source, theirs, "weight", d_model, 1)?;
            Line::floats_mut(gamma)[..d_model].copy_from_slice(&weight);
            if beta {
                let bias = stack(config, source, theirs, "bias", d_model, 1)?;
                Line::floats_mut(shift)[..d_model].copy_from_slice(&bias);
            }
        }
        Tensor::Bias { cols } => {
            let bias = stack(config, source, theirs, "bias", cols, 1)?;
            Line::floats_mut(out)[..cols].copy_from_slice(&bias);
        }
    }
    Ok(())
}

/// A padded axis as long as the model's own file has it.
fn narrow(config: &Config, heads: HeadAxis, length: usize, columns: bool) -> usize {
    match (heads, columns) {
        (HeadAxis::Columns(n), true) => n * config.d_model as usize,
        (HeadAxis::Depth, false) => config.d_model as usize,
        _ => length,
    }
}

/// Inserts the zeros that let every head start on a line.
fn pad_heads(config: &Config, axis: HeadAxis, matrix: Vec<f32>, rows: usize, cols: usize) -> Vec<f32> {
    let size = (config.d_model / config.heads) as usize;
    let padded = size.next_multiple_of(16);
    match axis {
        _ if size == padded => matrix,
        HeadAxis::None => matrix,
        HeadAxis::Columns(_) => matrix
            .chunks(size * cols)
            .flat_map(|head| head.iter().copied().chain(std::iter::repeat_n(0.0, (padded - size) * cols)))
            .collect(),
        HeadAxis::Depth => matrix
            .chunks(size)
            .take(rows * (cols / size))
            .flat_map(|head| head.iter().copied().chain(std::iter::repeat_n(0.0, padded - size)))
            .collect(),
    }
}

/// The rows of all sources, stacked, checked to be `[rows, cols]`.
fn stack(
    config: &Config,
    source: &Source,
    theirs: &[String],
    kind: &str,
    rows: usize,
    cols: usize,
) -> Result<Vec<f32>> {
    let mut stacked = Vec::new(); // grows with what is there, not with what the configuration says
    for name in theirs {
        let name = name.replace('?', kind);
        if let Some(name) = name.strip_prefix('+') {
            let row = source.tensor(name)?;
            ensure!(row.data.len() >= cols, "{name}: a row must have {cols} numbers, it has {:?}", row.shape);
            for x in stacked.chunks_mut(cols) {
                x.iter_mut().zip(&row.data[..cols]).for_each(|(x, y)| *x += y);
            }
            continue;
        }
        let (name, range) = match name.split_once('#') {
            Some((name, range)) => (name, range.split_once('-')),
            None => (name.as_str(), None),
        };
        let tensor = source.tensor(name)?;
        let data = match range {
            None => &tensor.data[..],
            Some((from, to)) => {
                let unit = config.d_model as usize * cols;
                let (from, to) = (from.parse::<usize>()? * unit, to.parse::<usize>()? * unit);
                match tensor.data.get(from..to) {
                    Some(data) => data,
                    None => bail!("{name}: its shape {:?} has no rows {range:?}", tensor.shape),
                }
            }
        };
        stacked.extend_from_slice(data);
    }
    let have = stacked.len();
    ensure!(
        have == rows * cols,
        "{}: it should be {rows} × {cols} = {} numbers, it is {have}",
        theirs.join(" and ").replace('?', kind),
        rows * cols,
    );
    Ok(stacked)
}
