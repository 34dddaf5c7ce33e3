//! The index of a safetensors file: its JSON header says where every tensor lies behind it.

use super::{Bytes, Dtype, Entry, Index};
use ::safetensors::{Dtype as Stored, SafeTensors};
use anyhow::{Context, Result};

/// The length of the header's length.
const PREFIX: usize = 8;

pub(super) fn index(file: &[u8]) -> Result<Index> {
    let (header, metadata) = SafeTensors::read_metadata(file)
        .context("neither a zip archive (npz, torch) nor a sound safetensors file")?;
    let shift = |offset: usize| PREFIX.checked_add(header)?.checked_add(offset);
    let mut index = Index::new();
    for (name, info) in metadata.tensors() {
        let range = shift(info.data_offsets.0).zip(shift(info.data_offsets.1));
        let (start, end) = range.with_context(|| format!("`{name}` lies outside of the file"))?;
        let dtype = match info.dtype {
            Stored::F32 => Dtype::F32,
            Stored::F64 => Dtype::F64,
            Stored::F16 => Dtype::F16,
            Stored::BF16 => Dtype::Bf16,
            other => Dtype::Other(other.to_string()),
        };
        let entry = Entry::new(info.shape.clone(), dtype, Bytes::Mapped(start..end));
        index.insert(name.clone(), entry.with_context(|| format!("`{name}`"))?);
    }
    Ok(index)
}
