//! A model's image and whoever owns its bytes.

use crate::Lines;
use anyhow::{Context, Result};
use picoformer_core::{Image, Line};
use std::path::Path;

/// The bytes of an image: embedded, or in memory.
#[derive(Debug)]
pub enum ModelFile {
    /// Compiled into the program.
    Embedded(&'static [u8]),
    /// In memory, aligned by its lines; the last is padded.
    Owned(Lines, usize),
}

/// The default model: English spelling to phonemes.
static DEFAULT: &[u8] = picoformer_core::include_image!("../models/g2p-en/g2p-en.pf");

impl ModelFile {
    /// The embedded default model.
    pub fn embedded() -> Self {
        ModelFile::Embedded(DEFAULT)
    }

    /// Reads an image file and checks that it is one, and undamaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let name = || format!("{}", path.display());
        // Copied from the file's pages to huge ones; nothing is kept of a file that is no image.
        let file = crate::source::map(path)?;
        Image::parse(&file).with_context(name)?;
        Self::from_bytes(&file).with_context(name)
    }

    /// An image made in memory, copied to where it is aligned.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut lines = Lines::zeroed(bytes.len().div_ceil(size_of::<Line>()));
        if let Some(to) = Line::bytes_mut(&mut lines).get_mut(..bytes.len()) {
            to.copy_from_slice(bytes);
        }
        let file = ModelFile::Owned(lines, bytes.len());
        file.image()?.verify()?;
        Ok(file)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            ModelFile::Embedded(bytes) => bytes,
            ModelFile::Owned(lines, length) => Line::bytes(lines).get(..*length).unwrap_or(&[]),
        }
    }

    /// The image, as views of the bytes.
    pub fn image(&self) -> Result<Image<'_>> {
        Ok(Image::parse(self.bytes())?)
    }
}
