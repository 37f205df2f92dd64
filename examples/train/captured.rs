//! The training step as a graph. The graph repeats the kernels of a step, and no host code: so the numbers that differ from step to step
//! are on the device, and each length of a batch has a graph of its own.

use std::ops::Range;

use gpucache::graph::{CapturedScope, GraphStats, Inputs, Scalar, Visitor};
use gpucache::prelude::*;

use crate::buffers::Buffers;
use crate::common::Result;
use crate::compute::{Adam, Compute};
use crate::network::Network;
use crate::step::{Numbers, Step, TrainingSet, learn};

pub(crate) struct Captured<D: Device> {
    /// One graph for each number of rows.
    scope: CapturedScope<usize, D>,
    start: Scalar<u32, D>,
    rate: Scalar<f32, D>,
}

impl<D: Device> Captured<D> {
    pub(crate) fn new(device: &D) -> Result<Self> {
        let scope = CapturedScope::new(device, "train_step");
        Ok(Self { scope, start: Scalar::new(device, 0)?, rate: Scalar::new(device, 0.0)? })
    }

    /// As [`train_step`](crate::step::train_step): by a call of `learn` while the scope learns, later by the graph of that call.
    pub(crate) fn train_step<C: Compute<Device = D>>(
        &mut self,
        compute: &C,
        network: &mut Network<D>,
        set: &mut TrainingSet<D>,
        batch: Range<usize>,
        adam: Adam,
    ) -> Result<()> {
        let Self { scope, start, rate } = self;
        start.set(u32::try_from(batch.start)?)?;
        rate.set(adam.rate)?;
        let mut workspace = compute.workspace();
        let inputs = (network, set, &**start, &**rate, workspace.as_deref_mut());
        scope.run(batch.len(), inputs, |(network, set, start, rate, _workspace)| {
            let numbers = Some(Numbers { start, rate });
            let step = Step { compute, buffers: Buffers::Scoped(compute.device()), functional: false, numbers };
            learn(step, network, set, batch.clone(), adam)
        })
    }

    pub(crate) fn stats(&self) -> GraphStats {
        self.scope.stats()
    }
}

impl<D: Device> Inputs<D> for &mut Network<D> {
    type Lent<'a> = &'a mut Network<D>;

    fn lend(&mut self) -> &mut Network<D> {
        self
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        for parameter in self.parameters_mut() {
            visitor.write(&mut parameter.value);
            visitor.write(&mut parameter.mean);
            visitor.write(&mut parameter.square);
        }
    }
}

impl<D: Device> Inputs<D> for &mut TrainingSet<D> {
    type Lent<'a> = &'a mut TrainingSet<D>;

    fn lend(&mut self) -> &mut TrainingSet<D> {
        self
    }

    fn visit<'a>(&'a mut self, visitor: &mut Visitor<'a, D>) {
        visitor.read(&self.images);
        visitor.read(&self.targets);
        visitor.read(&self.order);
        visitor.write(&mut self.losses);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::{Alloc, Storage};
    use crate::gradient_check::training_set;
    use crate::host::HostCompute;
    use crate::memory_check::turn;
    use crate::step::{train_step, training_shapes};

    const ROWS: usize = 16;
    /// The last batch of an epoch is smaller.
    const LAST: usize = 5;
    const EPOCHS: usize = 8;

    /// The losses of all epochs, and what the captured scope did.
    fn trained(captures: bool) -> (Vec<f32>, Option<GraphStats>) {
        let compute = HostCompute::on(Host::new_stream().unwrap());
        let mut random = fastrand::Rng::with_seed(3);
        let mut set = training_set(compute.device(), 2 * ROWS + LAST, &mut random);
        let mut network = Network::new(compute.device(), &mut random).unwrap();
        let mut captured = captures.then(|| Captured::new(compute.device()).unwrap());
        let mut losses = Vec::new();
        for epoch in 0..EPOCHS {
            for batch in [0..ROWS, ROWS..2 * ROWS, 2 * ROWS..2 * ROWS + LAST] {
                let rate = 0.01 / (epoch + batch.start + 1) as f32;
                let adam = Adam { rate, mean_decay: 0.9, square_decay: 0.999, epsilon: 1e-8 };
                if let Some(captured) = &mut captured {
                    captured.train_step(&compute, &mut network, &mut set, batch, adam).unwrap();
                    continue;
                }
                let mut storage =
                    Storage::new(Alloc::Hand, compute.device(), &training_shapes(batch.len(), false)).unwrap();
                let buffers = storage.buffers();
                let step = Step { compute: &compute, buffers, functional: false, numbers: None };
                train_step(step, &mut network, &mut set, batch, adam).unwrap();
            }
            losses.extend(set.losses.to_vec().unwrap());
        }
        (losses, captured.map(|captured| captured.stats()))
    }

    #[test]
    fn graphs_train_as_single_launches_do() {
        let _turn = turn();
        let (losses, stats) = trained(true);
        assert_eq!(losses, trained(false).0, "bit by bit");
        let stats = stats.unwrap();
        assert!(stats.launches >= EPOCHS as u64 && stats.graphs == 2, "{stats}");
    }
}
