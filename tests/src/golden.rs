//! Reference tensors from PyTorch, made by `fixtures/golden/make_golden.py`.

use safetensors::{Dtype, SafeTensors};
use std::path::PathBuf;

/// One case: named tensors.
pub struct Golden {
    /// The file.
    pub path: PathBuf,
    bytes: Vec<u8>,
}

impl Golden {
    /// The case `name`.
    pub fn open(name: &str) -> Self {
        let path = crate::fixture("golden").join(format!("{name}.safetensors"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Golden { path, bytes }
    }

    /// A tensor of floats and its shape.
    pub fn floats(&self, name: &str) -> (Vec<f32>, Vec<usize>) {
        let all = SafeTensors::deserialize(&self.bytes).expect("a safetensors file");
        let tensor = all.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
        let (words, _) = tensor.data().as_chunks::<4>();
        (words.iter().map(|w| f32::from_le_bytes(*w)).collect(), tensor.shape().to_vec())
    }

    /// A tensor of token ids and its shape.
    pub fn tokens(&self, name: &str) -> (Vec<u32>, Vec<usize>) {
        let all = SafeTensors::deserialize(&self.bytes).expect("a safetensors file");
        let tensor = all.tensor(name).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(tensor.dtype(), Dtype::I64, "{name}");
        let (words, _) = tensor.data().as_chunks::<8>();
        (words.iter().map(|w| i64::from_le_bytes(*w) as u32).collect(), tensor.shape().to_vec())
    }

    /// A mask, true where a key is kept, and its shape; `None` where the case has none.
    pub fn mask(&self, name: &str) -> Option<(Vec<bool>, Vec<usize>)> {
        let all = SafeTensors::deserialize(&self.bytes).expect("a safetensors file");
        let tensor = all.tensor(name).ok()?;
        Some((tensor.data().iter().map(|b| *b != 0).collect(), tensor.shape().to_vec()))
    }
}
