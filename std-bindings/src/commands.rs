//! The command line's commands, one a file.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod convert;
pub(crate) mod inspect;
pub(crate) mod plan;
pub(crate) mod run;
pub(crate) mod selftest;
pub(crate) mod similarity;
pub(crate) mod trace;

use anyhow::Result;
use picoformer::ModelFile;
use std::path::Path;

/// The model at `path`, or the embedded one.
fn open(path: Option<&Path>) -> Result<ModelFile> {
    path.map_or_else(|| Ok(ModelFile::embedded()), ModelFile::open)
}

/// Whether whoever read our output has closed it: then there is nothing left to say.
pub(crate) fn closed(error: &anyhow::Error) -> bool {
    let io = error.downcast_ref::<std::io::Error>();
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// A size as a person reads it.
fn bytes(n: usize) -> String {
    match n {
        0..10_000 => format!("{n} B"),
        10_000..10_000_000 => format!("{:.1} KiB", n as f64 / 1024.0),
        _ => format!("{:.1} MiB", n as f64 / 1048576.0),
    }
}
