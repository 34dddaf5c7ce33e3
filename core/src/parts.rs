//! One table for each module's weights: the struct, its size and its views over
//! the blob come from the same lines, so they cannot disagree.

use crate::Line;
use crate::config::Element;
use heapless::String;

/// Where a tensor belongs: `encoder.0.self_attention.output`.
pub type Path = String<64>;

/// What a tensor of the blob is, for whoever fills or prints it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tensor {
    /// A linear layer in panels of sixteen columns, then its bias.
    Linear {
        /// Output features.
        cols: usize,
        /// Input features.
        depth: usize,
        /// Whether a bias follows.
        bias: bool,
        /// How heads lie in it.
        heads: HeadAxis,
        /// How its weights are stored: see [`crate::kernels::pack`].
        element: Element,
    },
    /// A table of `rows` vectors, each starting on a line; in panels if it is
    /// also the output projection.
    Table {
        /// Vectors.
        rows: usize,
        /// Features of each.
        d_model: usize,
        /// Whether it lies in panels.
        tied: bool,
        /// How its weights are stored: see [`crate::nn::Table`].
        element: Element,
    },
    /// A normalisation: gamma, then beta if there is one.
    Norm {
        /// Features.
        d_model: usize,
        /// Whether beta follows.
        beta: bool,
    },
    /// A bias on its own.
    Bias {
        /// Features.
        cols: usize,
    },
}

/// Which side of a linear layer is divided into heads; each head is padded with
/// zeros to whole lines there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadAxis {
    /// Neither.
    None,
    /// The columns, for so many projections side by side (query, key, value: 3).
    Columns(usize),
    /// The depth.
    Depth,
}

/// Receives each tensor's path, shape and size in lines, in the order of the blob.
pub type Describe<'f> = dyn FnMut(&Path, Tensor, usize) + 'f;

/// The rest of a blob from which views are cut, front to back.
///
/// A blob of the planned length always suffices; a shorter one would give empty
/// views, never a fault.
pub(crate) struct Cut<'w>(pub(crate) &'w [Line]);

impl<'w> Cut<'w> {
    pub(crate) fn take(&mut self, lines: u64) -> &'w [Line] {
        let at = usize::try_from(lines).unwrap_or(usize::MAX);
        let (head, rest) = self.0.split_at_checked(at).unwrap_or((&[], &[]));
        self.0 = rest;
        head
    }
}

/// The path of a part within its parent.
pub(crate) fn join(parent: &Path, part: &str) -> Path {
    let mut path = parent.clone();
    // A path too long for its buffer is cut: it is only read by people.
    let _ = if path.is_empty() { Ok(()) } else { path.push('.') };
    let _ = path.push_str(part);
    path
}

/// The path of a layer within its stack.
pub(crate) fn join_number(parent: &Path, number: usize) -> Path {
    let mut digits = [b'0'; 20];
    let (mut at, mut rest) = (digits.len(), number);
    while at > 0 {
        at -= 1;
        if let Some(digit) = digits.get_mut(at) {
            *digit = b'0' + (rest % 10) as u8;
        }
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    join(parent, core::str::from_utf8(digits.get(at..).unwrap_or(&[])).unwrap_or(""))
}

/// `parts! { c; Name { part: Kind(arguments), } }` gives the struct `Name<'w>` of
/// views, `Name::lines(c)`, `Name::cut(blob, c)` and `Name::describe(…)`.
macro_rules! parts {
    ($c:ident; $(#[$doc:meta])* $name:ident { $($(#[$part_doc:meta])* $part:ident: $kind:ident($($arg:expr),*),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<'w> { $($(#[$part_doc])* pub $part: $kind<'w>,)* }
        impl<'w> $name<'w> {
            /// Lines of weights.
            pub(crate) const fn lines($c: &$crate::Config) -> u64 {
                0u64 $(.saturating_add($kind::lines($($arg),*)))*
            }
            /// Views of the front of a blob.
            pub(crate) fn cut(blob: &mut $crate::parts::Cut<'w>, $c: &$crate::Config) -> Self {
                $name { $($part: $kind::cut(blob, $($arg),*),)* }
            }
            pub(crate) fn describe(path: &$crate::parts::Path, f: &mut $crate::parts::Describe<'_>, $c: &$crate::Config) {
                $($kind::describe(&$crate::parts::join(path, stringify!($part)), f, $($arg),*);)*
            }
        }
    };
}
pub(crate) use parts;
