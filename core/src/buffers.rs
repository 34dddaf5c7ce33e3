//! One table for each group of buffers: the struct, its size, its carving and its
//! map come from the same lines, so they cannot disagree.

/// The element type of a kind of buffer.
macro_rules! buffer_type {
    (floats) => {
        [f32]
    };
    (lines) => {
        [$crate::Line]
    };
    (sequences) => {
        [$crate::nn::Sequence]
    };
    (words) => {
        [u32]
    };
}

/// Elements of a kind in one line.
macro_rules! buffer_per_line {
    (floats) => {
        16u64
    };
    (lines) => {
        1u64
    };
    (sequences) => {
        4u64
    };
    (words) => {
        16u64
    };
}

/// The lines as elements of a kind.
macro_rules! buffer_view {
    (floats, $lines:expr) => {
        $crate::Line::floats_mut($lines)
    };
    (lines, $lines:expr) => {
        $lines
    };
    (sequences, $lines:expr) => {
        $crate::Line::sequences_mut($lines)
    };
    (words, $lines:expr) => {
        $crate::Line::words_mut($lines)
    };
}

/// `buffers! { plan; Name { buffer: kind(elements), } }` gives the struct `Name<'a>`
/// of slices, `Name::size(plan)` in lines, `Name::carve(plan, lines)` and
/// `Name::regions(plan, offset, f)`.
macro_rules! buffers {
    ($plan:ident; $(#[$doc:meta])* $name:ident {
        $($(#[$field_doc:meta])* $field:ident: $kind:ident($elements:expr),)*
    }) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'a> { $($(#[$field_doc])* pub $field: &'a mut $crate::buffers::buffer_type!($kind),)* }
        impl<'a> $name<'a> {
            /// Lines of all buffers together.
            pub(crate) const fn size($plan: &Plan) -> u64 {
                0u64 $(.saturating_add(($elements as u64).div_ceil($crate::buffers::buffer_per_line!($kind))))*
            }
            /// The buffers, cut from the front of `lines`; `None` if it is too short.
            pub(crate) fn carve($plan: &Plan, lines: &'a mut [$crate::Line]) -> Option<Self> {
                $(
                    let elements = usize::try_from($elements as u64).ok()?;
                    let take = elements.div_ceil($crate::buffers::buffer_per_line!($kind) as usize);
                    let ($field, lines) = lines.split_at_mut_checked(take)?;
                    let $field = $crate::buffers::buffer_view!($kind, $field).get_mut(..elements)?;
                )*
                let _ = lines;
                Some($name { $($field,)* })
            }
            /// Each buffer's name, offset and length in lines.
            pub(crate) fn regions($plan: &Plan, mut offset: usize, f: &mut dyn FnMut(&'static str, usize, usize)) {
                $(
                    let lines = ($elements as u64).div_ceil($crate::buffers::buffer_per_line!($kind)) as usize;
                    f(stringify!($field), offset, lines);
                    offset += lines;
                )*
                let _ = offset;
            }
        }
    };
}

pub(crate) use {buffer_per_line, buffer_type, buffer_view, buffers};
