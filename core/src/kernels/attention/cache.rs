//! Keys and values packed as panels, which grow by positions.

use super::Heads;
use crate::line::{LANES, Line};

/// Packs `count` rows of keys and of values, each `stride` floats after the last and
/// `heads.width()` floats wide, at positions `at` on of buffers for `capacity` (see
/// [`Heads::key_lines`] and [`Heads::value_lines`]; nothing is packed into shorter ones).
/// What is beyond them is left out; where `key` or `value` is short, nothing is packed.
pub fn append_keys_values(
    heads: Heads,
    capacity: usize,
    at: usize,
    key: &[f32],
    value: &[f32],
    stride: usize,
    count: usize,
    keys: &mut [Line],
    values: &mut [Line],
) {
    let (head_size, head_lines) = (heads.head_size, heads.head_lines());
    let small = keys.len() < heads.key_lines(capacity) || values.len() < heads.value_lines(capacity);
    if small || heads.width() == 0 {
        return;
    }
    // for each head, row, feature f:
    //     keys[panel of t][f][lane of t] = key[row][f]
    //     values[panel of f][t] = value[row][f...]
    //
    // The rows of a panel together, so that each of its lines is written once.
    let count = count.min(capacity.saturating_sub(at));
    let last = count.saturating_sub(1).saturating_mul(stride).saturating_add(heads.width());
    let (Some(key), Some(value)) = (key.get(..last), value.get(..last)) else { return };
    for head in 0..heads.heads {
        let from = head * head_lines * LANES;
        let mut row = 0;
        while row < count {
            let (t, lane) = (at + row, (at + row) % LANES);
            let together = (LANES - lane).min(count - row);
            let mut rows = [&[][..]; LANES];
            for (i, features) in rows.iter_mut().take(together).enumerate() {
                *features = key.get((row + i) * stride + from..).unwrap_or_default();
            }
            let panel = (head * capacity.div_ceil(LANES) + t / LANES) * head_size;
            let lines = keys.get_mut(panel..).unwrap_or_default();
            for (f, line) in lines.iter_mut().take(head_size).enumerate() {
                let cells = line.0.get_mut(lane..lane + together).unwrap_or_default();
                for (cell, features) in cells.iter_mut().zip(&rows) {
                    *cell = features.get(f).copied().unwrap_or(0.0);
                }
            }
            for i in 0..together {
                let features = value.get((row + i) * stride + from..).unwrap_or_default();
                for (j, x) in features.as_chunks().0.iter().take(head_lines).enumerate() {
                    if let Some(line) = values.get_mut((head * head_lines + j) * capacity + t + i) {
                        line.0 = *x;
                    }
                }
            }
            row += together;
        }
    }
}
