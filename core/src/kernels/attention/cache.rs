//! Keys and values packed as panels, which grow by positions.

use super::Heads;
use crate::line::{LANES, Line};

/// Packs `count` rows of keys and of values, each `stride` floats after the last and
/// `heads.width()` floats wide, at positions `at` on of buffers for `capacity` (see
/// [`Heads::key_lines`] and [`Heads::value_lines`]; nothing is packed into shorter ones).
/// What is beyond them, or missing in `key` and `value`, is left out.
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
    for row in 0..count.min(capacity.saturating_sub(at)) {
        let Some(from) = row.checked_mul(stride) else { return };
        let t = at + row;
        for head in 0..heads.heads {
            let from = from.saturating_add(head * head_lines * LANES);
            let panel = (head * capacity.div_ceil(LANES) + t / LANES) * head_size;
            let lines = keys.get_mut(panel..).unwrap_or_default();
            let features = key.get(from..).unwrap_or_default();
            for (line, x) in lines.iter_mut().zip(features).take(head_size) {
                if let Some(cell) = line.0.get_mut(t % LANES) {
                    *cell = *x;
                }
            }
            let features = value.get(from..).unwrap_or_default();
            for (j, x) in features.as_chunks::<LANES>().0.iter().take(head_lines).enumerate() {
                if let Some(line) = values.get_mut((head * head_lines + j) * capacity + t) {
                    line.0 = *x;
                }
            }
        }
    }
}
