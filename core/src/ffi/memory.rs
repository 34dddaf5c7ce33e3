//! C's pointers, checked once and then slices.

use super::Code;
use core::ptr::NonNull;

/// Refuses what cannot be an array of so many elements.
fn check<T>(x: *const T, len: usize) -> Result<(), Code> {
    if len == 0 {
        return Ok(());
    }
    if x.is_null() {
        return Err(Code::Null);
    }
    if !x.is_aligned() {
        return Err(Code::Align);
    }
    match len.checked_mul(size_of::<T>()) {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(()),
        _ => Err(Code::Shape),
    }
}

/// The array of `len` elements at `x`.
///
/// # Safety
/// If not null, `x` is that long, and nobody writes it during `'a`. Every bit pattern is a `T`.
pub(super) unsafe fn slice<'a, T>(x: *const T, len: usize) -> Result<&'a [T], Code> {
    check(x, len)?;
    match len {
        0 => Ok(&[]),
        // SAFETY: neither null, misaligned nor too large by the check above; the rest is promised.
        _ => Ok(unsafe { core::slice::from_raw_parts(x, len) }),
    }
}

/// The same, or nothing if `x` is null.
///
/// # Safety
/// As [`slice`].
pub(super) unsafe fn slice_or_none<'a, T>(x: *const T, len: usize) -> Result<Option<&'a [T]>, Code> {
    // SAFETY: passed on.
    if x.is_null() { Ok(None) } else { unsafe { slice(x, len) }.map(Some) }
}

/// The array of `len` elements at `x`, to write.
///
/// # Safety
/// As [`slice`], and nobody else reads it during `'a`.
pub(super) unsafe fn slice_mut<'a, T>(x: *mut T, len: usize) -> Result<&'a mut [T], Code> {
    check(x, len)?;
    match len {
        0 => Ok(&mut []),
        // SAFETY: as in `slice`.
        _ => Ok(unsafe { core::slice::from_raw_parts_mut(x, len) }),
    }
}

/// The struct at `x`.
///
/// # Safety
/// As [`slice`], of one element.
pub(super) unsafe fn one<'a, T>(x: *const T) -> Result<&'a T, Code> {
    check(x, 1)?;
    // SAFETY: neither null nor misaligned; the rest is promised.
    Ok(unsafe { &*x })
}

/// A place for a result.
pub(super) struct Out<T>(NonNull<T>);

impl<T> Out<T> {
    /// # Safety
    /// If not null, `x` may be written for as long as the place is used.
    pub(super) unsafe fn new(x: *mut T) -> Result<Self, Code> {
        check(x, 1)?;
        NonNull::new(x).map(Out).ok_or(Code::Null)
    }

    pub(super) fn set(self, value: T) {
        // SAFETY: aligned by the check in `new`, which promised the rest.
        unsafe { self.0.write(value) }
    }
}

/// Where an array lies, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Span {
    start: usize,
    bytes: usize,
}

/// The span of `len` elements; nobody reads it here.
pub(super) fn span<T>(x: *const T, len: usize) -> Span {
    let bytes = if x.is_null() { 0 } else { len.saturating_mul(size_of::<T>()) };
    Span { start: x.addr(), bytes }
}

/// Refuses outputs that overlap an input or each other, and what is too large for memory.
pub(super) fn apart(outputs: &[Span], inputs: &[Span]) -> Result<(), Code> {
    if outputs.iter().chain(inputs).any(|span| span.bytes > isize::MAX as usize) {
        return Err(Code::Shape);
    }
    let overlap = |a: &Span, b: &Span| {
        a.bytes > 0
            && b.bytes > 0
            && a.start < b.start.saturating_add(b.bytes)
            && b.start < a.start.saturating_add(a.bytes)
    };
    let mut rest = outputs;
    while let Some((out, others)) = rest.split_first() {
        if inputs.iter().chain(others).any(|other| overlap(out, other)) {
            return Err(Code::Overlap);
        }
        rest = others;
    }
    Ok(())
}

/// The product of sizes.
pub(super) fn product(a: usize, b: usize) -> Result<usize, Code> {
    a.checked_mul(b).ok_or(Code::Shape)
}
