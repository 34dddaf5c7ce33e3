//! The kernels: the formulas of the Transformer, each written once over [`Simd`](crate::simd::Simd).
//!
//! | module | formula |
//! |---|---|
//! | [`matmul`] | `act(x Wᵀ + b)` in register tiles |
//! | [`int8`] | the same of eight-bit weights, in whole numbers |
//! | [`half`] | the same of weights stored in sixteen bits |
//! | [`activation`] | relu, gelu, silu, tanh, sigmoid, exp |
//! | [`softmax`] | `exp(x) / Σ exp(x)` |
//! | [`norm`] | LayerNorm and RMSNorm, with the residual addition |
//! | [`attention`] | `softmax(Q Kᵀ / √d + mask) V` over packed keys and values |
//! | [`embedding`] | a token's vector, and the token nearest to a vector |
//! | [`position`] | sinusoidal positions |
//! | [`pack`] | weights into panels |
//!
//! They are safe code, called through [`Cpu`](crate::Cpu), which compiles them for each
//! backend and checks the shapes: a kernel that is given a short buffer leaves the rest
//! undone rather than panic.

pub mod activation;
pub mod attention;
pub mod embedding;
pub mod half;
pub mod int8;
pub mod matmul;
pub mod norm;
pub mod pack;
pub mod position;
pub mod softmax;
mod tile;
