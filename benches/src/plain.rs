//! Kernels as plain loops in `f64`, for the few entries that are checked.

use picoformer_core::kernels::activation::Activation;

/// `x · y`.
pub fn dot(x: &[f32], y: &[f32]) -> f64 {
    x.iter().zip(y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum()
}

/// `softmax(x)`.
pub fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let e: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = e.iter().sum();
    e.iter().map(|e| e / sum).collect()
}

/// `(x + y - mean) / √(variance + eps)`, or without the mean for RMSNorm.
pub fn norm(x: &[f32], y: Option<&[f32]>, centred: bool, eps: f64) -> Vec<f64> {
    let x: Vec<f64> =
        x.iter().enumerate().map(|(i, x)| f64::from(*x) + y.map_or(0.0, |y| f64::from(y[i]))).collect();
    let n = x.len() as f64;
    let mean = if centred { x.iter().sum::<f64>() / n } else { 0.0 };
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    x.iter().map(|x| (x - mean) / (variance + eps).sqrt()).collect()
}

/// One head's attention of one query to `keys` and `values`, rows of `width` floats.
pub fn attention(query: &[f32], keys: &[f32], values: &[f32], width: usize, visible: usize) -> Vec<f64> {
    let size = query.len();
    let scores: Vec<f64> =
        (0..visible).map(|t| dot(query, &keys[t * width..][..size]) / (size as f64).sqrt()).collect();
    let weights = softmax(&scores);
    (0..size)
        .map(|j| weights.iter().enumerate().map(|(t, w)| w * f64::from(values[t * width + j])).sum())
        .collect()
}

/// `erf(x)`, by Simpson's rule: off by less than 1e-9 for |x| < 4.
fn erf(x: f64) -> f64 {
    let (steps, f) = (400, |t: f64| (-t * t).exp());
    let h = x / f64::from(steps);
    let inner: f64 = (1..steps).map(|i| f(f64::from(i) * h) * if i % 2 == 1 { 4.0 } else { 2.0 }).sum();
    (f(0.0) + inner + f(x)) * h / 3.0 * std::f64::consts::FRAC_2_SQRT_PI
}

/// `activation(x)`.
pub fn activate(activation: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    match activation {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluErf => x * 0.5 * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
        Activation::GeluTanh => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            0.5 * x * (1.0 + inner.tanh())
        }
        Activation::Silu => x * sigmoid(x),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
        Activation::Exp => x.exp(),
    }
}
