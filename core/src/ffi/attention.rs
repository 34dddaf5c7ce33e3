//! Attention alone, over keys and values that C packs.

use super::kernels::floats;
use super::memory::{Out, apart, one, product, slice, slice_mut, span};
use super::{Code, PfCpu, cpu, run};
use crate::Line;
use crate::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use core::ffi::c_int;

/// The sizes of one attention: see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct PfAttentionShape {
    pub heads: usize,
    pub head_size: usize,
    pub queries: usize,
    pub query_stride: usize,
    pub keys: usize,
    pub capacity: usize,
    pub first: usize,
    pub mask: c_int,
    pub keep: *const u8,
}

/// What the sizes need, in elements.
struct Need {
    heads: Heads,
    /// Floats of a row.
    width: usize,
    key_lines: usize,
    value_lines: usize,
    score_lines: usize,
}

impl PfAttentionShape {
    fn need(&self) -> Result<Need, Code> {
        let heads = Heads { heads: self.heads, head_size: self.head_size };
        let need = Need {
            heads,
            width: heads.width(),
            key_lines: heads.key_lines(self.capacity),
            value_lines: heads.value_lines(self.capacity),
            score_lines: score_lines(self.keys),
        };
        // Sizes that overflow are saturated, and then no floats.
        for lines in [need.key_lines, need.value_lines, need.score_lines] {
            floats(lines)?;
        }
        if need.width == usize::MAX { Err(Code::Shape) } else { Ok(need) }
    }

    /// The flags of a mask.
    ///
    /// # Safety
    /// `keep` has as many as the mask needs.
    unsafe fn mask<'a>(&self) -> Result<Mask<'a>, Code> {
        let len = match self.mask {
            0 => return Ok(Mask::None),
            1 => return Ok(Mask::Causal),
            2 | 3 => self.keys,
            4 => product(self.queries, self.keys)?,
            _ => return Err(Code::Choice),
        };
        // SAFETY: promised.
        let flags = unsafe { slice(self.keep, len) }?;
        if flags.iter().any(|flag| *flag > 1) {
            return Err(Code::Choice);
        }
        // SAFETY: bytes of 0 and 1 are `bool`s.
        let keep = unsafe { slice(flags.as_ptr().cast::<bool>(), len) }?;
        Ok(match self.mask {
            2 => Mask::KeyPadding(keep),
            3 => Mask::CausalKeyPadding(keep),
            _ => Mask::Arbitrary(keep),
        })
    }
}

/// Floats of what an attention needs.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_attention_sizes(
    shape: *const PfAttentionShape,
    keys: *mut usize,
    values: *mut usize,
    scratch: *mut usize,
) -> c_int {
    run(|| {
        apart(&[span(keys, 1), span(values, 1), span(scratch, 1)], &[span(shape, 1)])?;
        // SAFETY: the caller's promise.
        let (shape, keys, values, scratch) =
            unsafe { (one(shape)?, Out::new(keys)?, Out::new(values)?, Out::new(scratch)?) };
        let need = shape.need()?;
        keys.set(floats(need.key_lines)?);
        values.set(floats(need.value_lines)?);
        scratch.set(floats(need.score_lines)?);
        Ok(())
    })
}

/// Floats of `count` rows, each `stride` after the last.
fn extent(count: usize, stride: usize, width: usize) -> Result<usize, Code> {
    if count == 0 {
        return Ok(0);
    }
    if stride < width {
        return Err(Code::Shape);
    }
    product(count - 1, stride)?.checked_add(width).ok_or(Code::Shape)
}

/// Packs keys and values.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_attention_append(
    shape: *const PfAttentionShape,
    at: usize,
    key: *const f32,
    value: *const f32,
    stride: usize,
    count: usize,
    packed_keys: *mut f32,
    packed_values: *mut f32,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let shape = *unsafe { one(shape) }?;
        let need = shape.need()?;
        if at.checked_add(count).is_none_or(|end| end > shape.capacity) {
            return Err(Code::Full);
        }
        let len = extent(count, stride, need.width)?;
        let (keys, values) = (packed_keys.cast::<Line>(), packed_values.cast::<Line>());
        apart(
            &[span(keys, need.key_lines), span(values, need.value_lines)],
            &[span(key, len), span(value, len)],
        )?;
        // SAFETY: the caller's promise; the packed memory is apart from the rows.
        let (key, value, keys, values) = unsafe {
            (
                slice(key, len)?,
                slice(value, len)?,
                slice_mut(keys, need.key_lines)?,
                slice_mut(values, need.value_lines)?,
            )
        };
        append_keys_values(need.heads, shape.capacity, at, key, value, stride, count, keys, values);
        Ok(())
    })
}

/// Attention.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_attention(
    cpu: *const PfCpu,
    shape: *const PfAttentionShape,
    query: *const f32,
    packed_keys: *const f32,
    packed_values: *const f32,
    scratch: *mut f32,
    weights: *mut f32,
    out: *mut f32,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let shape = *unsafe { one(shape) }?;
        let need = shape.need()?;
        let query_len = extent(shape.queries, shape.query_stride, need.width)?;
        let out_len = product(shape.queries, need.width)?;
        let weights_len = product(product(shape.heads, shape.queries)?, shape.keys)?;
        let (keys, values) = (packed_keys.cast::<Line>(), packed_values.cast::<Line>());
        let scores = scratch.cast::<Line>();
        apart(
            &[span(out, out_len), span(scores, need.score_lines), span(weights, weights_len)],
            &[span(query, query_len), span(keys, need.key_lines), span(values, need.value_lines)],
        )?;
        let cpu = cpu::cpu(cpu)?;
        // SAFETY: the caller's promise; the outputs are apart from the inputs and each other.
        let (mask, query, keys, values, scores, out) = unsafe {
            (
                shape.mask()?,
                slice(query, query_len)?,
                slice(keys, need.key_lines)?,
                slice(values, need.value_lines)?,
                slice_mut(scores, need.score_lines)?,
                slice_mut(out, out_len)?,
            )
        };
        let weights = match weights.is_null() {
            true => None,
            // SAFETY: as above.
            false => Some(unsafe { slice_mut(weights, weights_len) }?),
        };
        let shape = AttentionShape {
            heads: need.heads,
            queries: shape.queries,
            query_stride: shape.query_stride,
            keys: shape.keys,
            capacity: shape.capacity,
            first: shape.first,
            mask,
        };
        Ok(cpu.attention(&shape, query, keys, values, scores, out, weights)?)
    })
}
