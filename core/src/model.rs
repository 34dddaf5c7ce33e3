//! A plan with its weights: immutable, shareable, `static`.

use crate::nn::Transformer;
use crate::parts::{Cut, Describe, Path};
use crate::plan::Capacity;
use crate::{Cpu, Error, Line, Plan, Session};

/// A plan with its weights, used where they lie.
#[derive(Clone, Copy, Debug)]
pub struct Model<'w> {
    plan: Plan,
    weights: &'w [Line],
}

impl<'w> Model<'w> {
    /// Binds the weights, in the order of [`describe`].
    ///
    /// Errors: [`Error::Weights`] if they are not exactly as long as the plan says.
    pub const fn new(plan: Plan, weights: &'w [Line]) -> Result<Self, Error> {
        if weights.len() != plan.weights() {
            return Err(Error::Weights { need: plan.weights() });
        }
        Ok(Model { plan, weights })
    }

    /// The plan.
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The same weights for sessions of another capacity; see [`Plan::with_capacity`].
    pub const fn with_capacity(self, capacity: Capacity) -> Result<Self, Error> {
        match self.plan.with_capacity(capacity) {
            Ok(plan) => Ok(Model { plan, weights: self.weights }),
            Err(error) => Err(error),
        }
    }

    /// The same weights for sessions on several threads; see [`Plan::with_threads`].
    pub const fn with_threads(self, threads: usize) -> Result<Self, Error> {
        match self.plan.with_threads(threads) {
            Ok(plan) => Ok(Model { plan, weights: self.weights }),
            Err(error) => Err(error),
        }
    }

    /// The weights as views: the paper's modules.
    pub fn transformer(&self) -> Transformer<'w> {
        Transformer::cut(&mut Cut(self.weights), self.plan.config())
    }

    /// Starts a session in the front of an arena; what the arena held does not matter.
    ///
    /// Errors: [`Error::Arena`] with the lines needed if it is too short.
    pub fn session<'a>(&self, arena: &'a mut [Line], cpu: Cpu) -> Result<Session<'w, 'a>, Error> {
        Session::new(*self, arena, cpu)
    }
}

/// Tells every tensor of a plan's blob, in order: its path, what it is, its lines.
pub fn describe(plan: &Plan, f: &mut Describe<'_>) {
    Transformer::describe(&Path::new(), f, plan.config());
}
