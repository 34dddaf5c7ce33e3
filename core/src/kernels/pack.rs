//! Weights into panels: sixteen output columns side by side, one line a step of depth.

use super::half::Format;
use super::int8::groups;
use crate::config::Element;
use crate::line::{Codes, Halves, LANES, Line};

/// Lines of `cols` columns of `depth` weights: `ceil(cols / 16)` panels of `depth` lines.
pub const fn panel_lines(cols: usize, depth: usize) -> usize {
    cols.div_ceil(LANES).saturating_mul(depth)
}

/// Packs `weights[cols × depth]` (row-major) as they are to be stored, into the lines that a
/// [`Tensor`](crate::parts::Tensor) of that element has.
pub fn pack(element: Element, weights: &[f32], cols: usize, depth: usize, out: &mut [Line]) {
    match (element.half(), element.group()) {
        (Some(format), _) => pack_half(weights, cols, depth, format, Line::halves_mut(out)),
        (_, None) => pack_linear(weights, cols, depth, out),
        (_, Some(group)) => {
            let (codes, _) = int8_lines(cols, depth, group);
            let Some((codes, scales)) = out.split_at_mut_checked(codes) else { return };
            pack_int8(weights, cols, depth, group, Line::codes_mut(codes), scales);
        }
    }
}

/// Packs `table[rows × d_model]` (row-major) as it is to be stored, each vector from a line on.
pub fn pack_table(element: Element, table: &[f32], rows: usize, d_model: usize, out: &mut [Line]) {
    let vectors = table.chunks_exact(d_model.max(1)).take(rows);
    match (element.half(), element.group()) {
        (Some(format), _) => {
            let halves = Line::halves_mut(out);
            halves.fill(Halves([[0; LANES]; 2]));
            for (vector, halves) in vectors.zip(halves.chunks_exact_mut(d_model.div_ceil(2 * LANES).max(1))) {
                let cells = halves.iter_mut().flat_map(|halves| halves.0.as_flattened_mut());
                cells.zip(vector).for_each(|(cell, w)| *cell = format.narrow(*w));
            }
        }
        (_, None) => {
            let lines = Line::floats_mut(out).chunks_exact_mut((Line::count(d_model) * LANES).max(1));
            for (vector, line) in vectors.zip(lines) {
                line.fill(0.0);
                line.iter_mut().zip(vector).for_each(|(x, w)| *x = *w);
            }
        }
        (_, Some(_)) => pack_table_int8(table, rows, d_model, out),
    }
}

/// Packs `weights[cols × depth]` (row-major) into the [`half_lines`](super::half::half_lines) of
/// [`Half`](super::half::Half).
///
/// Columns beyond `cols` and steps beyond `depth` become zeros. What does not fit is left out.
pub fn pack_half(weights: &[f32], cols: usize, depth: usize, format: Format, out: &mut [Halves]) {
    let pairs = depth.div_ceil(2);
    out.fill(Halves([[0; LANES]; 2]));
    for (col, column) in weights.chunks_exact(depth.max(1)).take(cols).enumerate() {
        let panel = out.get_mut(col / LANES * pairs..).unwrap_or_default();
        let steps = panel.iter_mut().flat_map(|halves| &mut halves.0);
        for (step, w) in steps.zip(column) {
            if let Some(cell) = step.get_mut(col % LANES) {
                *cell = format.narrow(*w);
            }
        }
    }
}

/// Packs `weights[cols × depth]` (row-major, as a linear layer stores them) into `out`,
/// [`panel_lines`] lines: line `k` of panel `p` holds `weights[16p..16p + 16][k]`.
///
/// Columns beyond `cols` become zeros. What does not fit `out` is left out.
pub fn pack_linear(weights: &[f32], cols: usize, depth: usize, out: &mut [Line]) {
    if depth == 0 {
        return;
    }
    let columns = weights.chunks_exact(depth).take(cols);
    for (p, panel) in out.chunks_exact_mut(depth).take(cols.div_ceil(LANES)).enumerate() {
        panel.fill(Line::ZERO);
        for (lane, column) in columns.clone().skip(p * LANES).take(LANES).enumerate() {
            for (line, w) in panel.iter_mut().zip(column) {
                if let Some(cell) = line.0.get_mut(lane) {
                    *cell = *w;
                }
            }
        }
    }
}

/// Lines of `cols` columns of `depth` eight-bit weights: the codes, and the scales.
pub const fn int8_lines(cols: usize, depth: usize, group: usize) -> (usize, usize) {
    let panels = cols.div_ceil(LANES);
    (panels.saturating_mul(depth.div_ceil(4)), panels.saturating_mul(groups(depth, group)))
}

/// Quantizes and packs `weights[cols × depth]` (row-major) into the [`int8_lines`] of
/// [`Int8`](super::int8::Int8): codes of -127..=127, each group's scale its largest magnitude
/// over 127. (To cut off the largest for a smaller squared error of the others was tried: it
/// gains nothing in the result.)
///
/// Columns beyond `cols` and steps beyond `depth` become zeros. What does not fit is left out.
pub fn pack_int8(
    weights: &[f32],
    cols: usize,
    depth: usize,
    group: usize,
    codes: &mut [Codes],
    scales: &mut [Line],
) {
    if depth == 0 {
        return;
    }
    let (quads, groups) = (depth.div_ceil(4), groups(depth, group));
    codes.fill(Codes([128; 4 * LANES]));
    scales.fill(Line::ZERO);
    for (col, column) in weights.chunks_exact(depth).take(cols).enumerate() {
        let (panel, lane) = (col / LANES, col % LANES);
        let codes = codes.get_mut(panel * quads..).unwrap_or_default();
        let scales = scales.get_mut(panel * groups..).unwrap_or_default();
        let steps = if groups == 1 { depth } else { group.max(1) };
        for ((g, group), line) in column.chunks(steps).enumerate().zip(scales) {
            let scale = group.iter().fold(0.0_f32, |most, w| most.max(w.abs())) / 127.0;
            if let Some(cell) = line.0.get_mut(lane) {
                *cell = scale;
            }
            let first = g * steps;
            for (k, w) in group.iter().enumerate() {
                let k = first + k;
                let byte = codes.get_mut(k / 4).and_then(|line| line.0.get_mut(4 * lane + k % 4));
                if let Some(byte) = byte {
                    *byte = code(*w, scale);
                }
            }
        }
    }
}

/// Quantizes and packs `table[rows × d_model]` into the lines of
/// [`Int8Table`](super::embedding::Int8Table): `ceil(d_model / 64)` lines of codes a row, then the
/// scales of all rows.
pub fn pack_table_int8(table: &[f32], rows: usize, d_model: usize, out: &mut [Line]) {
    let width = d_model.div_ceil(4 * LANES);
    let Some((codes, scales)) = out.split_at_mut_checked(rows.saturating_mul(width)) else { return };
    let (codes, scales) = (Line::codes_mut(codes), Line::floats_mut(scales));
    codes.fill(Codes([128; 4 * LANES]));
    scales.fill(0.0);
    let vectors = table.chunks_exact(d_model.max(1)).take(rows);
    for ((vector, codes), cell) in vectors.zip(codes.chunks_exact_mut(width.max(1))).zip(scales) {
        let scale = vector.iter().fold(0.0_f32, |most, w| most.max(w.abs())) / 127.0;
        *cell = scale;
        let bytes = codes.iter_mut().flat_map(|line| &mut line.0);
        bytes.zip(vector).for_each(|(byte, w)| *byte = code(*w, scale));
    }
}

/// The code of a weight, plus 128.
fn code(w: f32, scale: f32) -> u8 {
    let code = if scale > 0.0 { libm::rintf(w / scale).clamp(-127.0, 127.0) } else { 0.0 };
    (code as i32 + 128) as u8
}
