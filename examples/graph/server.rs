//! Runs the step in a captured scope, one graph for each batch size. The tokens that a step returns are the input of the next step of the
//! same size.

use gpucache::graph::{CapturedScope, GraphStats};
use gpucache::prelude::*;

use crate::common::Result;
use crate::model::{Machine, Model, Sizes, Tokens, step};

/// So many runs of one size give a graph and a launch: more than a scope needs to learn a plan.
const RUNS_TO_A_LAUNCH: usize = 20;

pub(crate) struct Server<'m, M: Machine> {
    machine: &'m M,
    model: &'m mut Model<M::Device>,
    scope: CapturedScope<usize, M::Device>,
    /// The last tokens of each batch size.
    tokens: Vec<Tokens<M::Device>>,
}

impl<'m, M: Machine> Server<'m, M> {
    pub(crate) fn new(
        machine: &'m M,
        model: &'m mut Model<M::Device>,
        name: &str,
        Sizes { batches, rows, width, .. }: Sizes,
    ) -> Result<Self> {
        let first = |batch: usize| {
            let tokens: Vec<u32> = (0..batch * rows).map(|row| (row % width) as u32).collect();
            Array::from_slice(machine.device(), tokens.len(), &tokens)
        };
        let tokens = (1..=batches).map(first).collect::<Result<_, _>>()?;
        Ok(Self { machine, model, scope: CapturedScope::new(machine.device(), name), tokens })
    }

    /// One step of so many sequences: by a call of the block while the scope learns, later by its graph.
    pub(crate) fn serve(&mut self, batch: usize) -> Result<()> {
        let Self { machine, model, scope, tokens } = self;
        let Model { table, weights, states } = &mut **model;
        let mut workspace = machine.workspace();
        let inputs = (&tokens[batch - 1], &*table, &**weights, &mut **states, workspace.as_deref_mut());
        tokens[batch - 1] = scope.run(batch, inputs, |(tokens, table, weights, states, _workspace)| {
            step(*machine, tokens, table, weights, states)
        })?;
        Ok(())
    }

    /// The same step without a graph, in an ordinary scope.
    pub(crate) fn serve_directly(&mut self, batch: usize) -> Result<()> {
        let Self { machine, model, tokens, .. } = self;
        let Model { table, weights, states } = &mut **model;
        let next = gpucache::cache_scope!(direct_step, { step(*machine, &tokens[batch - 1], table, weights, states) })?;
        tokens[batch - 1] = next;
        Ok(())
    }

    /// Serves this size until it has a graph that was launched. Returns the number of runs.
    pub(crate) fn warm(&mut self, batch: usize) -> Result<usize> {
        let launches = self.scope.stats().launches;
        for run in 1..=RUNS_TO_A_LAUNCH {
            self.serve(batch)?;
            if self.scope.stats().launches > launches {
                return Ok(run);
            }
        }
        Ok(RUNS_TO_A_LAUNCH)
    }

    /// Whether a step gives the same tokens and states, bit by bit, by the graph and without it.
    pub(crate) fn is_right(&mut self, batch: usize) -> Result<bool> {
        let before = self.contents(batch)?;
        self.serve(batch)?;
        let by_graph = self.contents(batch)?;
        self.restore(batch, &before)?;
        self.serve_directly(batch)?;
        Ok(by_graph == self.contents(batch)?)
    }

    /// The tokens of this batch size, then the bits of all states.
    fn contents(&self, batch: usize) -> Result<Vec<Vec<u32>>> {
        let mut contents = vec![self.tokens[batch - 1].to_vec()?];
        for state in &self.model.states {
            contents.push(state.to_vec()?.into_iter().map(f32::to_bits).collect());
        }
        Ok(contents)
    }

    fn restore(&mut self, batch: usize, contents: &[Vec<u32>]) -> Result<()> {
        let (tokens, states) = contents.split_first().ok_or("there are always tokens")?;
        self.tokens[batch - 1].copy_from_slice(tokens)?;
        for (state, bits) in self.model.states.iter_mut().zip(states) {
            let numbers: Vec<f32> = bits.iter().map(|&bits| f32::from_bits(bits)).collect();
            state.copy_from_slice(&numbers)?;
        }
        Ok(())
    }

    pub(crate) fn stats(&self) -> GraphStats {
        self.scope.stats()
    }
}
