//! `unroll!`: a loop whose indices are constants, whatever the opt-level.

/// Runs the body for every index below a bound, at most eight of them, each a
/// constant.
///
/// The bound is a constant too (often a const parameter), so what is beyond it (hence the `const` condition)
/// is never compiled in. An array that is indexed like this lives in registers
/// at opt-level `s` and `z` as well, where a `for` loop would keep it in memory.
macro_rules! unroll {
    ($i:ident < $n:ident $body:block) => {
        unroll!(@ $i $n $body 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident $n:ident $body:block $($k:literal)*) => {{
        const { assert!($n <= 8) };
        #[allow(
            clippy::out_of_bounds_indexing,
            unconditional_panic,
            reason = "what is beyond the bound is not compiled"
        )]
        {
            $( if const { $k < $n } { const $i: usize = $k; $body } )*
        }
    }};
}
