//! The whole Transformer from caller-provided memory: SIMD kernels, no allocator, no
//! operating system, no panic.
//!
//! In reading order:
//!
//! | module | what it is |
//! |---|---|
//! | [`line`](Line) | sixteen floats: the unit of vectors, weight panels and arenas |
//! | [`simd`], [`cpu`](Cpu) | one vector trait, its backends, and the choice between them at run time |
//! | [`kernels`] | matmul, softmax, norms, activations, attention, embedding, positions |
//! | [`numerics`] | what each kernel guarantees |
//! | [`nn`] | the paper: attention, feed-forward, encoder, decoder, Transformer |
//! | [`config`], [`plan`] | what a model is, as numbers; what it needs, as arithmetic |
//! | [`arena`] | the buffers of a session, each with its shape |
//! | [`model`], [`image`] | a plan with its weights; the file that holds both |
//! | [`session`](Session) | sequences in progress, in an arena |
//! | [`tokenize`] | text to tokens and back |
//! | [`selftest`] | whether the kernels are right on this CPU |
//! | `ffi` | the same for C, as `include/picoformer.h` specifies it (feature `ffi`) |
//!
//! ```
//! use picoformer_core::{Config, Cpu, Line, Model, Plan};
//!
//! // A small model of the paper's kind, with room for its weights and its arena
//! // known before anything runs.
//! const PLAN: Plan = match Plan::new(Config {
//!     d_model: 32, heads: 2, d_ff: 64, encoder_layers: 1, decoder_layers: 1,
//!     source_vocab: 50, target_vocab: 50, source_context: 16, target_context: 16,
//!     ..Config::PAPER
//! }) { Ok(plan) => plan, Err(_) => panic!() };
//! static WEIGHTS: [Line; PLAN.weights()] = [Line::ZERO; PLAN.weights()];
//!
//! let model = Model::new(PLAN, &WEIGHTS)?;
//! let mut arena = [Line::ZERO; PLAN.arena()];
//! let mut session = model.session(&mut arena, Cpu::detect())?;
//! session.encode(&[&[7, 8, 9]])?;
//! let logits = session.decode(&[&[1]])?;
//! assert_eq!(logits.len(), 50);
//! # Ok::<(), picoformer_core::Error>(())
//! ```

#![no_std]
#![deny(unsafe_code)]

#[macro_use]
mod unroll;
pub mod arena;
mod buffers;
pub mod config;
#[allow(unsafe_code)]
pub mod cpu;
pub mod error;
#[cfg(feature = "ffi")]
#[allow(unsafe_code)]
pub mod ffi;
pub mod image;
pub mod kernels;
#[allow(unsafe_code)]
mod line;
pub mod model;
pub mod nn;
#[doc = include_str!("numerics.md")]
pub mod numerics {}
pub mod parts;
pub mod plan;
pub mod selftest;
pub mod session;
#[allow(unsafe_code)]
pub mod simd;
pub mod threads;
pub mod tokenize;

pub use config::Config;
pub use cpu::Cpu;
pub use error::Error;
pub use image::Image;
pub use line::{LANES, Line};
pub use model::Model;
pub use plan::{Capacity, Plan};
pub use session::Session;
pub use threads::{Threads, Workers};
