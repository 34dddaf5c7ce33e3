//! A model's image and whoever owns its bytes.

use anyhow::{Context, Result};
use picoformer_core::{Image, Line};
use std::path::Path;

/// The bytes of an image: embedded, mapped, or in memory.
#[derive(Debug)]
pub enum ModelFile {
    /// Compiled into the program.
    Embedded(&'static [u8]),
    /// A file, mapped: pages are read as they are used.
    Mapped(memmap2::Mmap),
    /// In memory, aligned by its lines; the last is padded.
    Owned(Vec<Line>, usize),
}

/// The default model: English spelling to phonemes.
static DEFAULT: &[u8] = picoformer_core::include_image!("../models/g2p-en/g2p-en.pf");

impl ModelFile {
    /// The embedded default model.
    pub fn embedded() -> Self {
        ModelFile::Embedded(DEFAULT)
    }

    /// Maps an image file and checks that it is one, and undamaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let file = crate::source::map(path)?;
        let file = ModelFile::Mapped(file);
        let image = file.image().with_context(|| format!("{}", path.display()))?;
        image.verify().with_context(|| format!("{}", path.display()))?;
        Ok(file)
    }

    /// An image made in memory, copied to where it is aligned.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let lines = bytes.chunks(size_of::<Line>()).map(|chunk| {
            let mut line = Line::ZERO;
            for (x, b) in line.0.iter_mut().zip(chunk.chunks(4)) {
                let mut word = [0; 4];
                word[..b.len()].copy_from_slice(b);
                *x = f32::from_le_bytes(word);
            }
            line
        });
        let file = ModelFile::Owned(lines.collect(), bytes.len());
        file.image()?.verify()?;
        Ok(file)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            ModelFile::Embedded(bytes) => bytes,
            ModelFile::Mapped(map) => map,
            ModelFile::Owned(lines, length) => Line::bytes(lines).get(..*length).unwrap_or(&[]),
        }
    }

    /// The image, as views of the bytes.
    pub fn image(&self) -> Result<Image<'_>> {
        Ok(Image::parse(self.bytes())?)
    }
}
