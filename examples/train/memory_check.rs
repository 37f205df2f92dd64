//! The memory of a training that allocates new parameters in each step: it reserves no more than is live, and once it is warm it takes none
//! from the device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use gpucache::device::MemoryUse;
use gpucache::prelude::*;

use crate::buffers::{Alloc, Storage};
use crate::compute::{Adam, Compute};
use crate::gradient_check::training_set;
use crate::host::HostCompute;
use crate::network::Network;
use crate::step::{Step, TrainingSet, evaluate, forward_shapes, train_step, training_shapes};

const ADAM: Adam = Adam { rate: 0.01, mean_decay: 0.9, square_decay: 0.999, epsilon: 1e-8 };
const ROWS: usize = 64;
/// The last batch of an epoch is smaller, as in `training.rs`.
const LAST_ROWS: usize = 29;
const BATCHES: usize = 5;
/// The unit in which a host maps memory. The network is small: one page more for the arena, one for the ring, and as much for their
/// growth are a considerable share of it.
const PAGE: u64 = 64 << 10;

/// A training on one machine.
struct Training<'c, C: Compute> {
    compute: &'c C,
    alloc: Alloc,
    network: Network<C::Device>,
    set: TrainingSet<C::Device>,
}

impl<'c, C: Compute> Training<'c, C> {
    fn new(compute: &'c C, alloc: Alloc) -> Self {
        let mut random = fastrand::Rng::with_seed(5);
        let set = training_set(compute.device(), ROWS * BATCHES + LAST_ROWS, &mut random);
        Self { compute, alloc, network: Network::new(compute.device(), &mut random).unwrap(), set }
    }

    /// Trains one epoch, and returns how often its steps took memory from the device.
    fn epoch(&mut self) -> u64 {
        let before = self.memory().times_taken();
        for batch in 0..=BATCHES {
            let (start, rows) = (batch * ROWS, if batch < BATCHES { ROWS } else { LAST_ROWS });
            let mut storage = Storage::new(self.alloc, self.compute.device(), &training_shapes(rows, true)).unwrap();
            let step = Step { compute: self.compute, buffers: storage.buffers(), functional: true, numbers: None };
            train_step(step, &mut self.network, &mut self.set, start..start + rows, ADAM).unwrap();
        }
        self.memory().times_taken() - before
    }

    /// Evaluates as `training.rs` does after each epoch.
    fn evaluate(&self) {
        let mut storage = Storage::new(self.alloc, self.compute.device(), &forward_shapes(ROWS)).unwrap();
        let step = Step { compute: self.compute, buffers: storage.buffers(), functional: false, numbers: None };
        evaluate(step, &self.network, &self.set.images).unwrap();
        gpucache::invalidate("eval");
    }

    fn memory(&self) -> MemoryUse {
        self.compute.device().memory()
    }
}

fn carried() -> u64 {
    gpucache::stats("train_step").map_or(0, |stats| stats.plan.carried)
}

/// Makes the tests with arrays run one after the other: all hosts of a process have one memory, whose peak this file looks at.
pub(crate) fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn what_is_replaced_takes_no_more_memory_than_is_alive() {
    let _turn = turn();
    let compute = HostCompute::at_once_on(Host::new_stream().unwrap());
    let mut plain = Training::new(&compute, Alloc::Plain);
    plain.epoch();
    let alive = plain.memory().peak_bytes;
    drop(plain);

    let (mut scoped, before) = (Training::new(&compute, Alloc::Scoped), carried());
    let _cold: u64 = (0..10).map(|_| scoped.epoch()).sum();
    let taken: u64 = (0..10).map(|_| scoped.epoch()).sum();
    assert_eq!(taken, 0, "by warm steps");
    let peak = scoped.memory().peak_bytes;
    assert!(peak <= alive + alive / 20 + 4 * PAGE, "{peak} bytes were held, {alive} were alive");
    // Other tests may add to the number, and the first steps learn.
    let replaced = 18 * 20 * (BATCHES as u64 + 1);
    assert!(carried() - before > replaced * 9 / 10, "{} of {replaced}", carried() - before);

    let taken: u64 = (0..10).map(|_| (scoped.evaluate(), scoped.epoch()).1).skip(2).sum();
    assert_eq!(taken, 0, "by steps between evaluations, whose memory goes back");
}
