//! `Line`: sixteen floats on one cache line, the unit of vectors, panels and arenas.

use crate::nn::Sequence;

/// Lanes of a vector on every backend, and floats in a [`Line`].
pub const LANES: usize = 16;

/// Sixteen floats, 64-byte aligned: one vector, one row of a weight panel, one
/// unit of arena.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Line(pub [f32; LANES]);

/// Sixty-four bytes of weights, as aligned as a [`Line`]: sixteen columns of a panel of
/// [`int8`](crate::kernels::int8), four steps of depth each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Codes(pub [u8; 4 * LANES]);

/// Two lines of weights in sixteen bits: of a panel, two steps of depth of sixteen columns; of a
/// table, thirty-two features. See [`half`](crate::kernels::half).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Halves(pub [[u16; LANES]; 2]);

impl Line {
    /// Sixteen zeros.
    pub const ZERO: Self = Line([0.0; LANES]);

    /// The lines that hold `floats` floats.
    pub const fn count(floats: usize) -> usize {
        floats.div_ceil(LANES)
    }

    /// The floats of `lines`, in order.
    pub const fn floats(lines: &[Line]) -> &[f32] {
        // SAFETY: `Line` is `repr(C)` over sixteen floats and exactly as large, so
        // `lines` is that many contiguous floats, and floats align to less.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
    }

    /// The floats of `lines`, in order, to write.
    pub fn floats_mut(lines: &mut [Line]) -> &mut [f32] {
        // SAFETY: as in `floats`; the borrow of `lines` is passed on.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
    }

    /// The lines as whole numbers.
    pub(crate) fn words_mut(lines: &mut [Line]) -> &mut [u32] {
        // SAFETY: as in `floats_mut`; `u32` has the size and alignment of `f32`, and
        // every bit pattern is both.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * LANES) }
    }

    /// The lines as whole numbers, to read.
    pub(crate) fn words(lines: &[Line]) -> &[u32] {
        // SAFETY: as in `words_mut`.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), lines.len() * LANES) }
    }

    /// The lines as bytes of weights.
    pub fn codes(lines: &[Line]) -> &[Codes] {
        const { assert!(size_of::<Codes>() == size_of::<Line>() && align_of::<Codes>() == align_of::<Line>()) };
        // SAFETY: `Codes` has the size and alignment of `Line`, and any bytes are codes.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), lines.len()) }
    }

    /// [`Line::codes`], to write.
    pub fn codes_mut(lines: &mut [Line]) -> &mut [Codes] {
        // SAFETY: as in `codes`; any bytes are floats, and the borrow is passed on.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len()) }
    }

    /// The lines as weights in sixteen bits.
    pub fn halves(lines: &[Line]) -> &[Halves] {
        const { assert!(size_of::<Halves>() == size_of::<Line>() && align_of::<Halves>() == align_of::<Line>()) };
        // SAFETY: as in `codes`.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), lines.len()) }
    }

    /// [`Line::halves`], to write.
    pub fn halves_mut(lines: &mut [Line]) -> &mut [Halves] {
        // SAFETY: as in `codes_mut`.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len()) }
    }

    /// The lines as descriptions of sequences.
    pub(crate) fn sequences_mut(lines: &mut [Line]) -> &mut [Sequence] {
        const { assert!(size_of::<Sequence>() * 4 == size_of::<Line>()) };
        // SAFETY: a `Sequence` is four `u32`, `repr(C)`, without padding: every bit
        // pattern is one, it aligns to less, and four of them fill a line.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), lines.len() * 4) }
    }

    /// The lines that `bytes` are, used in place.
    ///
    /// `None` unless the bytes start on a multiple of 64 and are a whole number
    /// of lines. The floats are little-endian, so a big-endian machine gets `None`.
    pub fn from_bytes(bytes: &[u8]) -> Option<&[Line]> {
        let start = bytes.as_ptr();
        if cfg!(target_endian = "big")
            || !bytes.len().is_multiple_of(size_of::<Line>())
            || !start.cast::<Line>().is_aligned()
        {
            return None;
        }
        // SAFETY: aligned and whole by the checks above, every bit pattern is a
        // float, and the lifetime is that of `bytes`.
        Some(unsafe { core::slice::from_raw_parts(start.cast(), bytes.len() / size_of::<Line>()) })
    }

    /// [`Line::from_bytes`], to write.
    pub fn from_bytes_mut(bytes: &mut [u8]) -> Option<&mut [Line]> {
        let lines = Line::from_bytes(bytes)?.len();
        // SAFETY: `from_bytes` checked alignment and length; the borrow of `bytes` is passed
        // on, and any floats are bytes.
        Some(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), lines) })
    }

    /// The bytes of `lines`, in memory order, to write.
    pub fn bytes_mut(lines: &mut [Line]) -> &mut [u8] {
        let length = size_of_val(lines);
        // SAFETY: as in `bytes`; any bytes are floats, and the borrow is passed on.
        unsafe { core::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), length) }
    }

    /// The bytes of `lines`, in memory order.
    pub fn bytes(lines: &[Line]) -> &[u8] {
        // SAFETY: any initialised memory is bytes; `Line` has no padding.
        unsafe { core::slice::from_raw_parts(lines.as_ptr().cast(), size_of_val(lines)) }
    }
}
