//! The shapes of matmul that models have, and its check against plain loops.

use crate::{assert_near, plain, some};
use picoformer::measure::cases::Matmul;
use picoformer_core::Cpu;

/// `(rows, cols, depth)`: MiniLM's layers and a large one, few rows, one, and small ones.
pub const SHAPES: [(usize, usize, usize); 11] = [
    (128, 384, 384),
    (32, 384, 384),
    (128, 1536, 384),
    (32, 384, 1536),
    (256, 2048, 512),
    (8, 384, 384),
    (4, 384, 384),
    (1, 384, 384),
    (1, 1536, 384),
    (16, 16, 16),
    (64, 64, 64),
];

/// Every shape's numbers.
pub fn cases() -> Vec<Matmul> {
    SHAPES.map(|(rows, cols, depth)| Matmul::new(rows, cols, depth)).into()
}

/// Runs it and checks entries of a few rows and columns.
pub fn check(case: &mut Matmul, cpu: Cpu) {
    case.out.fill(f32::NAN);
    case.run(cpu);
    let (rows, cols, depth) = case.shape;
    let what = format!("matmul {} on {}", case.name(), cpu.name());
    for r in some(rows) {
        for c in some(cols) {
            let x = &case.x[r * depth..][..depth];
            let expected = plain::dot(x, &case.weights[c * depth..][..depth]) + f64::from(case.bias[c]);
            assert_near(&format!("{what} at {r}, {c}"), case.out[r * cols + c], expected, 2e-5);
        }
    }
    assert!(case.out.iter().all(|x| x.is_finite()), "{what}");
}
