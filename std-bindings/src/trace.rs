//! A recorder of a run's steps, for those who want to see the Transformer at work.

use picoformer_core::nn::{Site, Watch};

/// One step of the residual stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Which part of the model it follows.
    pub part: &'static str,
    /// The layer, from 0.
    pub layer: usize,
    /// Rows of the stream.
    pub rows: usize,
    /// Features of a row.
    pub d_model: usize,
    /// The last row's first features.
    pub first: Vec<f32>,
}

/// Attention weights of one layer and sequence, in one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Weights {
    /// Where they come from.
    pub site: Site,
    /// Heads.
    pub heads: usize,
    /// Rows of a head.
    pub queries: usize,
    /// Columns of a head.
    pub keys: usize,
    /// `[heads × queries × keys]`.
    pub data: Vec<f32>,
}

impl Weights {
    /// A head's weights, a row a query.
    pub fn head(&self, head: usize) -> impl Iterator<Item = &[f32]> {
        let size = self.queries * self.keys;
        self.data.get(head * size..(head + 1) * size).unwrap_or(&[]).chunks(self.keys.max(1))
    }
}

/// Everything that a run showed, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// The stream after each step.
    pub steps: Vec<Step>,
    /// All attention weights.
    pub weights: Vec<Weights>,
}

impl Watch for Trace {
    fn step(&mut self, part: &'static str, layer: usize, d_model: usize, x: &[f32]) {
        let rows = x.len().checked_div(d_model).unwrap_or(0);
        let last = x.chunks_exact(d_model.max(1)).next_back().unwrap_or(&[]);
        let first = last.iter().take(4).copied().collect();
        self.steps.push(Step { part, layer, rows, d_model, first });
    }

    fn weights(&mut self, site: Site, heads: usize, queries: usize, keys: usize) -> Option<&mut [f32]> {
        let data = vec![0.0; heads * queries * keys];
        self.weights.push(Weights { site, heads, queries, keys, data });
        self.weights.last_mut().map(|w| &mut w.data[..])
    }
}
