//! The memory that a training keeps beside a pass: weights, gradients and the optimizer's moments.

use std::collections::BTreeMap;

use crate::network::{Layers, Op, forward};
use crate::tape::{Held, Tape};

/// The weights of a network, with their gradients and moments.
#[derive(Debug)]
pub(crate) struct Trainer {
    tape: Tape,
    pub(crate) weights: BTreeMap<usize, Held>,
    gradients: BTreeMap<usize, Held>,
    moments: BTreeMap<usize, [Held; 2]>,
}

/// The temporary arrays of the optimizer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Temporaries {
    /// Those of one weight at a time.
    OneByOne,
    /// Those of all weights at once, as with PyTorch's `foreach`.
    Together,
}

impl Trainer {
    /// Allocates the weights of these layers.
    pub(crate) fn new(tape: &Tape, layers: &Layers) -> Self {
        let (gradients, moments) = Default::default();
        let mut trainer = Self { tape: tape.clone(), weights: BTreeMap::new(), gradients, moments };
        trainer.add(layers);
        trainer
    }

    /// Allocates the weights that are not there yet.
    pub(crate) fn add(&mut self, layers: &Layers) {
        for op in layers.iter().flatten().filter(|op| op.weight > 0) {
            self.weights.entry(op.number).or_insert_with(|| self.tape.array(op.weight));
        }
    }

    /// A forward and a backward pass. The gradients stay.
    pub(crate) fn learn(&mut self, ops: &[Op]) {
        let waiting = forward(&self.tape, ops);
        self.backward(ops, waiting);
    }

    /// A backward pass. The results of the forward pass go one by one.
    pub(crate) fn backward(&mut self, ops: &[Op], waiting: Vec<Held>) {
        let gradient = self.tape.array(ops.last().map_or(0, |op| op.out));
        drop(self.backward_from(ops, waiting, gradient));
    }

    /// A backward pass that begins with a gradient. Returns the gradient of the first operation's input.
    pub(crate) fn backward_from(&mut self, ops: &[Op], mut waiting: Vec<Held>, mut gradient: Held) -> Held {
        for (index, op) in ops.iter().enumerate().rev() {
            let temporary = (op.temporary > 0).then(|| self.tape.array(op.temporary));
            if op.weight > 0 {
                self.add_gradient(op);
            }
            let before = if index > 0 { ops[index - 1].out } else { op.out };
            gradient = self.tape.array(before);
            drop(temporary);
            if op.is_saved || index + 1 == ops.len() {
                drop(waiting.pop());
            }
        }
        gradient
    }

    /// The first gradient of a weight stays. Later ones are added to it, and dropped.
    fn add_gradient(&mut self, op: &Op) {
        let gradient = self.tape.array(op.weight);
        self.gradients.entry(op.number).or_insert(gradient);
    }

    /// The optimizer: moments, which the first step makes, and temporary arrays. Gradients are dropped.
    pub(crate) fn optimize(&mut self, temporaries: Temporaries) {
        for (number, gradient) in &self.gradients {
            let pair = || [0; 2].map(|_| self.tape.array(gradient.bytes()));
            self.moments.entry(*number).or_insert_with(pair);
        }
        let roots = self.gradients.values().map(|gradient| self.tape.array(gradient.bytes()));
        match temporaries {
            Temporaries::OneByOne => roots.for_each(drop),
            Temporaries::Together => drop(roots.collect::<Vec<_>>()),
        }
        self.skip();
    }

    /// Drops the gradients without a change of the weights.
    pub(crate) fn skip(&mut self) {
        self.gradients.clear();
    }

    /// A whole step.
    pub(crate) fn step(&mut self, layers: &Layers) {
        self.learn(&layers.concat());
        self.optimize(Temporaries::Together);
    }
}
