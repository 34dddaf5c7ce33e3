//! Transformers for programs with an operating system: owned models and arenas over
//! [`picoformer_core`], readers of weight files, the converter to `.pf` images, and
//! what the command line shows.
//!
//! ```
//! let mut runner = picoformer::Runner::open_default()?;
//! let answer = runner.transform("transformer")?;
//! assert_eq!(answer.text, "T R AE0 N S F AO1 R M ER0");
//! # Ok::<(), anyhow::Error>(())
//! ```

#![deny(unsafe_code)]

pub mod convert;
pub mod families;
pub mod file;
pub mod lines;
pub mod measure;
pub mod pool;
pub mod runner;
#[allow(unsafe_code)]
pub mod source;
pub mod trace;
pub mod vocab;

pub use file::ModelFile;
pub use lines::Lines;
pub use picoformer_core as core;
pub use pool::Pool;
pub use runner::{Answer, Runner};

/// A zeroed arena of so many lines.
pub fn arena(lines: usize) -> Lines {
    Lines::zeroed(lines)
}

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
