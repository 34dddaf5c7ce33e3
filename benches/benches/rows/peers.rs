//! The peers' products, as fast as their interfaces allow: `out = x · Wᵀ + bias`.

use rten_gemm::{BiasVector, GemmExecutor, GemmInputA, GemmInputB, GemmOptions, PackedBMatrix};
use rten_tensor::{Matrix, NdTensorView};

/// A linear layer as peers take it: `Wᵀ[depth × cols]`, row-major.
pub(crate) struct Layer {
    cols: usize,
    depth: usize,
    transposed: Vec<f32>,
    bias: Vec<f32>,
}

impl Layer {
    pub(crate) fn new(weights: &[f32], cols: usize, depth: usize, bias: &[f32]) -> Self {
        let transposed = (0..depth * cols).map(|i| weights[i % cols * depth + i / cols]).collect();
        Layer { cols, depth, transposed, bias: bias.to_vec() }
    }

    /// The rows that `x` has; checks what the raw pointers below rely on, and starts the
    /// sums with the bias, which neither crate adds.
    fn start(&self, x: &[f32], out: &mut [f32]) -> usize {
        let rows = x.len() / self.depth;
        assert!(x.len() == rows * self.depth && out.len() == rows * self.cols);
        assert!(self.transposed.len() == self.depth * self.cols);
        out.chunks_exact_mut(self.cols).for_each(|row| row.copy_from_slice(&self.bias));
        rows
    }

    pub(crate) fn gemm(&self, x: &[f32], out: &mut [f32]) {
        let rows = self.start(x, out);
        let (cols, depth) = (self.cols as isize, self.depth as isize);
        let (out, w) = (out.as_mut_ptr(), self.transposed.as_ptr());
        let (x, one) = (x.as_ptr(), gemm::Parallelism::None);
        // SAFETY: `start` has checked that the three matrices are dense and have these sizes.
        unsafe {
            gemm::gemm(
                rows, self.cols, self.depth, out, 1, cols, true, x, 1, depth, w, 1, cols, 1.0, 1.0, false,
                false, false, one,
            )
        }
    }

    pub(crate) fn matrixmultiply(&self, x: &[f32], out: &mut [f32]) {
        let rows = self.start(x, out);
        let (cols, depth) = (self.cols as isize, self.depth as isize);
        let (out, w) = (out.as_mut_ptr(), self.transposed.as_ptr());
        // SAFETY: as in `gemm`.
        unsafe {
            matrixmultiply::sgemm(
                rows,
                self.depth,
                self.cols,
                1.0,
                x.as_ptr(),
                depth,
                1,
                w,
                cols,
                1,
                1.0,
                out,
                cols,
                1,
            )
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        NdTensorView::from_data([self.depth, self.cols], &self.transposed[..])
    }
}

/// `rten-gemm`, with its weights packed once, as ours are, or not at all: its product of
/// one row has a path for each.
pub(crate) struct Rten {
    executor: GemmExecutor,
    packed: Option<PackedBMatrix<f32>>,
    layer: Layer,
}

impl Rten {
    pub(crate) fn new(layer: Layer, packed: bool) -> Self {
        let executor = GemmExecutor::default();
        let packed = packed.then(|| executor.prepack_b(layer.matrix()));
        Rten { executor, packed, layer }
    }

    pub(crate) fn run(&self, x: &[f32], out: &mut [f32]) {
        let a = NdTensorView::from_data([x.len() / self.layer.depth, self.layer.depth], x);
        let b = self.packed.as_ref().map_or(GemmInputB::Unpacked(self.layer.matrix()), GemmInputB::Packed);
        let options = GemmOptions { bias: Some(BiasVector::Row(&self.layer.bias)), ..Default::default() };
        self.executor.gemm(out, GemmInputA::Unpacked(a), b, options).expect("the shapes are right");
    }
}
