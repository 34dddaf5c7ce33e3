//! The index of an npz file: a zip archive of `.npy` arrays, each behind a header that describes it;
//! and that [`Archive`], which torch files are as well.

use super::{Bytes, Dtype, Entry, Index, Reader};
use anyhow::{Context, Result, bail, ensure};
use std::io::{Cursor, Read};
use zip::{CompressionMethod, ZipArchive};

pub(super) fn index(mut archive: Archive<'_>) -> Result<Index> {
    let members: Vec<String> = archive.names().map(str::to_owned).collect();
    let mut index = Index::new();
    for member in members {
        let Some(name) = member.strip_suffix(".npy") else { continue };
        let bytes = archive.member(&member)?;
        let entry = array(archive.file, bytes).with_context(|| format!("`{name}`"))?;
        index.insert(name.to_owned(), entry);
    }
    Ok(index)
}

/// One `.npy`: magic, version, the header's length, the header, the values.
fn array(file: &[u8], npy: Bytes) -> Result<Entry> {
    let whole = npy.within(file).context("the array is cut short")?;
    let mut reader = Reader(whole);
    let header = header(&mut reader).context("the .npy header is damaged")?;
    ensure!(!header.fortran, "the array is in Fortran order; save it as numpy.ascontiguousarray(...)");
    let rest = reader.0.len();
    let data = npy.part(whole.len() - rest, rest).context("the array is cut short")?;
    Entry::new(header.shape, header.dtype, data)
}

fn header(reader: &mut Reader<'_>) -> Result<Header> {
    ensure!(reader.take()? == *b"\x93NUMPY", "it does not begin with the mark of an .npy array");
    let length = match reader.take()? {
        [1, _] => u16::from_le_bytes(reader.take()?).into(),
        [2 | 3, _] => u32::from_le_bytes(reader.take()?),
        [version, _] => bail!("its version is {version}, not 1, 2 or 3"),
    };
    Header::parse(reader.text(usize::try_from(length)?)?)
}

/// What the header, a Python dictionary, says under its three keys.
struct Header {
    dtype: Dtype,
    fortran: bool,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str) -> Result<Header> {
        let descr = value(text, "descr")?;
        let dtype = match quoted(descr) {
            Some("<f4") => Dtype::F32,
            Some("<f8") => Dtype::F64,
            Some("<f2") => Dtype::F16,
            Some(other) => Dtype::Other(other.to_owned()),
            None => Dtype::Other("records".to_owned()),
        };
        let order = value(text, "fortran_order")?;
        let fortran = order.starts_with("True");
        ensure!(fortran || order.starts_with("False"), "fortran_order must be True or False");
        let shape = value(text, "shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (shape, _) = shape.context("the shape must be a tuple in parentheses")?;
        let dims = shape.split(',').map(str::trim).filter(|d| !d.is_empty());
        let shape = dims.map(|d| d.parse().with_context(|| format!("`{d}` is no length of a dimension")));
        Ok(Header { dtype, fortran, shape: shape.collect::<Result<_>>()? })
    }
}

/// The text from the value of `key` on.
fn value<'a>(text: &'a str, key: &str) -> Result<&'a str> {
    let rest = ['\'', '"'].iter().find_map(|quote| Some(text.split_once(&format!("{quote}{key}{quote}"))?.1));
    let rest = rest.and_then(|rest| rest.trim_start().strip_prefix(':'));
    Ok(rest.with_context(|| format!("the .npy header has no `{key}`"))?.trim_start())
}

/// The string literal a text begins with.
fn quoted(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    text.strip_prefix(quote)?.split_once(quote).map(|(inside, _)| inside)
}

/// A zip archive may unpack to this many times its own length, no further.
const UNPACK_LIMIT: u64 = 64;

/// The zip archive around npz arrays or torch storages.
///
/// Members stored uncompressed are used where they lie, so their checksums are not computed.
pub(super) struct Archive<'a> {
    pub(super) file: &'a [u8],
    zip: ZipArchive<Cursor<&'a [u8]>>,
    budget: u64,
}

impl<'a> Archive<'a> {
    pub(super) fn open(file: &'a [u8]) -> Result<Self> {
        let zip = ZipArchive::new(Cursor::new(file)).context("a damaged zip archive")?;
        Ok(Archive { file, zip, budget: (file.len() as u64).saturating_mul(UNPACK_LIMIT) })
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.zip.file_names()
    }

    pub(super) fn member(&mut self, name: &str) -> Result<Bytes> {
        let damaged = || format!("the archive's member `{name}` is damaged");
        let mut member = self.zip.by_name(name).with_context(damaged)?;
        let size = member.size();
        if member.compression() == CompressionMethod::Stored {
            let (start, size) = (usize::try_from(member.data_start())?, usize::try_from(size)?);
            let range = start..start.checked_add(size).with_context(damaged)?;
            ensure!(range.end <= self.file.len(), "{} beyond the end of the file", damaged());
            return Ok(Bytes::Mapped(range));
        }
        self.budget = self.budget.checked_sub(size).with_context(|| {
            format!("unpacks to over {UNPACK_LIMIT} times its length; store it uncompressed")
        })?;
        let mut bytes = Vec::new(); // grows with what is really there, not with what the header promises
        member.by_ref().take(size).read_to_end(&mut bytes).with_context(damaged)?;
        ensure!(bytes.len() as u64 == size, "{}: it is cut short", damaged());
        Ok(Bytes::Unpacked(bytes))
    }
}
