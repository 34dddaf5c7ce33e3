//! What is done to hostile bytes, one function a target. A panic is a finding, and so is any
//! wrong answer that a function here asserts not to be given.
//!
//! The fuzzer calls them (`fuzz_targets`), and so does `tests/tests/hostile.rs`, which includes
//! this file: with the corpus, with damaged seeds, and with random bytes.

mod calls;
mod converters;
mod image;
mod plan;
pub mod seeds;
mod tokenizers;

pub use calls::c_calls;
pub use converters::{converters, weights};
pub use image::image;
pub use plan::plan;
pub use tokenizers::tokenizers;

/// A function of bytes that asserts what must hold of any.
pub type Target = fn(&[u8]);

/// Every target, by the name of its program and its corpus.
pub const TARGETS: [(&str, Target); 6] = [
    ("image", image),
    ("tokenizers", tokenizers),
    ("weights", weights),
    ("converters", converters),
    ("plan", plan),
    ("c_calls", c_calls),
];
