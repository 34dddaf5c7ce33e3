//! Weight files and the converters that read them.

use picoformer::ModelFile;
use picoformer::families::Family;
use picoformer::source::Source;
use picoformer_core::config::{Element, Elements};
use std::fs;
use std::path::{Path, PathBuf};

/// Any bytes as a safetensors, npz or torch file: every tensor is read whole, or refused.
pub fn weights(bytes: &[u8]) {
    with_folder(|folder| {
        let path = folder.join("weights");
        fs::write(&path, bytes).unwrap();
        let Ok(source) = Source::open(&path) else { return };
        for name in source.names() {
            assert!(source.contains(name));
            let Ok(tensor) = source.tensor(name) else { continue };
            assert_eq!(source.shape(name), Some(&tensor.shape[..]));
            assert_eq!(tensor.data.len(), tensor.shape.iter().product::<usize>());
            // Touches what is mapped.
            let _ = tensor.data.iter().fold(0, |sum, x| sum ^ x.to_bits());
        }
    });
}

/// A family and how weights are stored, a byte each; the lengths of a `config.json` (which is
/// the `vocab.json` too) and of a `vocab.txt`, two bytes each; then those, then the weights.
pub fn converters(bytes: &[u8]) {
    let Some(([family, element, json @ .., v0, v1], rest)) = bytes.split_first_chunk::<6>() else { return };
    let cut = |rest: &mut &[u8], length: usize| {
        let (part, after) = rest.split_at(length.min(rest.len()));
        *rest = after;
        part.to_vec()
    };
    let mut rest = rest;
    let json = cut(&mut rest, u16::from_le_bytes(*json).into());
    let vocab = cut(&mut rest, u16::from_le_bytes([*v0, *v1]).into());
    let (_, family) = Family::ALL[usize::from(*family) % Family::ALL.len()];
    let element = [Element::F32, Element::Int8, Element::Int8By64][usize::from(*element) % 3];
    with_folder(|folder| {
        let path = folder.join("weights");
        fs::write(folder.join("config.json"), &json).unwrap();
        fs::write(folder.join("vocab.json"), &json).unwrap();
        fs::write(folder.join("vocab.txt"), &vocab).unwrap();
        fs::write(&path, rest).unwrap();
        let Ok(bytes) = family.convert(&path, Elements::all(element)) else { return };
        // What a converter writes is an image, unless its vocabulary cannot be a tokenizer.
        let Ok(file) = ModelFile::from_bytes(&bytes) else { return };
        super::image::run(file.image().unwrap().model());
    });
}

/// A folder that is gone with the value, in memory where that is possible: it is written for
/// every input.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let thread = std::thread::current().id();
        let folder = place.join(format!("picoformer-fuzz-{}-{thread:?}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `f` with this thread's folder.
fn with_folder(f: impl FnOnce(&Path)) {
    thread_local! {
        static FOLDER: Folder = Folder::new();
    }
    FOLDER.with(|folder| f(&folder.0));
}
