//! Weights into panels: sixteen output columns side by side, one line a step of depth.

use crate::line::{LANES, Line};

/// Lines of `cols` columns of `depth` weights: `ceil(cols / 16)` panels of `depth` lines.
pub const fn panel_lines(cols: usize, depth: usize) -> usize {
    cols.div_ceil(LANES).saturating_mul(depth)
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
