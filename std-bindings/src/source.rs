//! Reads trained weights by name from the files they are published in: safetensors, npz and torch.
//!
//! The format is told by the content, never by the file's extension. A file is mapped rather than
//! read, and a tensor is handed out as a view of the mapping wherever its bytes already are aligned
//! little-endian `f32`. Nothing in a file is trusted: a damaged one ends in an error, not a panic, and
//! takes no more memory than a fixed multiple of its length (`tests/tests/hostile.rs`).
//!
//! A mapped file must not change while its [`Source`] lives; whoever rewrites or shortens it meanwhile
//! gets other weights, or has the process stopped by the system.

mod npz;
mod safetensors;
mod torch;

use anyhow::{Context, Result, anyhow, bail, ensure};
use half::{bf16, f16};
use memmap2::Mmap;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::path::Path;

/// One tensor of a [`Source`]: row-major, borrowed from the file where that is possible.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor<'a> {
    /// The length of every dimension, outermost first; empty for a scalar.
    pub shape: Vec<usize>,
    /// The values, as many as the product of `shape`.
    pub data: Cow<'a, [f32]>,
}

/// An open weight file: an index of its tensors over a mapping of its bytes.
#[derive(Debug)]
pub struct Source {
    file: String,
    map: Mmap,
    index: Index,
}

/// Maps a file to read it in place.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    let file = path.display();
    let handle = File::open(path).with_context(|| format!("{file} cannot be opened"))?;
    ensure!(handle.metadata()?.is_file(), "{file} is not a regular file");
    // SAFETY: the mapping is only ever read, and plain bytes have no invalid value. That nobody
    // changes the file underneath is asked of the caller, in the documentation of `Source::open`.
    unsafe { Mmap::map(&handle) }.with_context(|| format!("{file} cannot be mapped"))
}

impl Source {
    /// Opens a safetensors, npz or torch file and reads the index of its tensors.
    ///
    /// The file must stay unchanged as long as the `Source` lives.
    pub fn open(path: &Path) -> Result<Source> {
        let (file, map) = (path.display().to_string(), map(path)?);
        let index = index(&map).map_err(|e| anyhow!("{file}: {e:#}"))?;
        Ok(Source { file, map, index })
    }

    /// The bytes of the file, and of what was unpacked from it.
    pub(crate) fn bytes(&self) -> usize {
        let unpacked = self.index.values().map(|entry| match &entry.bytes {
            Bytes::Unpacked(bytes) => bytes.len(),
            Bytes::Mapped(_) => 0,
        });
        self.map.len().saturating_add(unpacked.sum())
    }

    /// The names of all tensors, in alphabetical order, those that hold no floats included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.index.keys().map(String::as_str)
    }

    /// Whether the file has a tensor of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.index.contains_key(name)
    }

    /// The shape of a tensor, without touching its values.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.index.get(name).map(|entry| entry.shape.as_slice())
    }

    /// A tensor as `f32`: borrowed when the file holds just that, converted when it holds other floats.
    pub fn tensor(&self, name: &str) -> Result<Tensor<'_>> {
        let file = &self.file;
        let Some(entry) = self.index.get(name) else {
            bail!("{file}: no tensor is named `{name}`; it has {} under other names", self.index.len());
        };
        let bytes =
            entry.bytes.within(&self.map).with_context(|| format!("{file}: `{name}` is cut short"))?;
        let data = match &entry.dtype {
            Dtype::F32 => floats(bytes),
            Dtype::F64 => converted(bytes, |b| f64::from_le_bytes(b) as f32),
            Dtype::F16 => converted(bytes, |b| f16::from_le_bytes(b).to_f32()),
            Dtype::Bf16 => converted(bytes, |b| bf16::from_le_bytes(b).to_f32()),
            Dtype::Other(it) => {
                bail!(
                    "{file}: `{name}` holds {it}, not floats; weights are little-endian F16, BF16, F32 or F64"
                )
            }
        };
        Ok(Tensor { shape: entry.shape.clone(), data })
    }
}

/// What a format's reader finds in a file.
type Index = BTreeMap<String, Entry>;

fn index(file: &[u8]) -> Result<Index> {
    if !file.starts_with(b"PK\x03\x04") {
        return safetensors::index(file);
    }
    let archive = npz::Archive::open(file)?;
    if archive.names().any(|name| name.ends_with(".pkl")) {
        torch::index(archive)
    } else if archive.names().any(|name| name.ends_with(".npy")) {
        npz::index(archive)
    } else {
        bail!("a zip archive with neither the .npy arrays of an npz nor the data.pkl of a torch file")
    }
}

/// How the elements of a tensor are stored.
#[derive(Debug)]
enum Dtype {
    F32,
    F64,
    F16,
    Bf16,
    Other(String),
}

/// Where a tensor is and how to read it; its bytes are known to be as many as its shape needs.
#[derive(Debug)]
struct Entry {
    shape: Vec<usize>,
    dtype: Dtype,
    bytes: Bytes,
}

impl Entry {
    fn new(shape: Vec<usize>, dtype: Dtype, bytes: Bytes) -> Result<Entry> {
        let width = match dtype {
            Dtype::F64 => 8,
            Dtype::F32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::Other(_) => return Ok(Entry { shape, dtype, bytes }),
        };
        let (need, have) = (volume(&shape).and_then(|n| n.checked_mul(width)), bytes.len());
        ensure!(need == Some(have), "the shape {shape:?} does not fit the {have} bytes of its data");
        Ok(Entry { shape, dtype, bytes })
    }
}

/// The number of elements of a shape, unless it overflows.
fn volume(shape: &[usize]) -> Option<usize> {
    shape.iter().try_fold(1, |n: usize, &d| n.checked_mul(d))
}

/// Bytes of a file: a part of its mapping or, from a compressed archive, unpacked.
#[derive(Debug)]
enum Bytes {
    Mapped(Range<usize>),
    Unpacked(Vec<u8>),
}

impl Bytes {
    fn len(&self) -> usize {
        match self {
            Bytes::Mapped(range) => range.len(),
            Bytes::Unpacked(bytes) => bytes.len(),
        }
    }

    fn within<'a>(&'a self, file: &'a [u8]) -> Option<&'a [u8]> {
        match self {
            Bytes::Mapped(range) => file.get(range.clone()),
            Bytes::Unpacked(bytes) => Some(bytes),
        }
    }

    /// The `len` bytes from `start` on, if there are so many.
    fn part(&self, start: usize, len: usize) -> Option<Bytes> {
        let end = start.checked_add(len).filter(|&end| end <= self.len())?;
        Some(match self {
            Bytes::Mapped(range) => Bytes::Mapped(range.start + start..range.start + end),
            Bytes::Unpacked(bytes) => Bytes::Unpacked(bytes.get(start..end)?.to_vec()),
        })
    }
}

/// Reads a header from front to back and never past its end.
#[derive(Default)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n).context("it is cut short")?;
        self.0 = rest;
        Ok(bytes)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.bytes(N)?.try_into()?)
    }

    fn text(&mut self, n: usize) -> Result<&'a str> {
        std::str::from_utf8(self.bytes(n)?).context("a text is not UTF-8")
    }

    /// A little-endian number of four bytes or one.
    fn number(&mut self, long: bool) -> Result<u32> {
        if long { self.take().map(u32::from_le_bytes) } else { self.take().map(|[byte]| byte.into()) }
    }

    fn line(&mut self) -> Result<&'a str> {
        let end = self.0.iter().position(|&b| b == b'\n').context("it is cut short")?;
        Ok(self.text(end + 1)?.trim_end())
    }
}

/// Little-endian `f32`, in place if they are aligned.
fn floats(bytes: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(floats) if cfg!(target_endian = "little") => Cow::Borrowed(floats),
        _ => converted(bytes, f32::from_le_bytes),
    }
}

fn converted<'a, const N: usize>(bytes: &[u8], value: impl Fn([u8; N]) -> f32) -> Cow<'a, [f32]> {
    bytes.as_chunks().0.iter().map(|&chunk| value(chunk)).collect()
}
