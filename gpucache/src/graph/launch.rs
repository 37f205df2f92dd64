//! A run by a graph: nothing of the block runs.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::inputs::Inputs;
use super::kept::{KeyState, Launchable};
use super::outputs::Outputs;
use super::run::Run;
use super::visitor::{Act, Operand, RunArrays, Visitor};
use crate::array::uses::check_inputs;
use crate::device::Device;
use crate::scope::ScopeGuard;
use gpucache_engine::record::Outcome;
use gpucache_engine::{Error, Result};

/// The outcome of a launch, if it is on a stream of the host: only such work has outcomes.
type LaunchOutcome = Option<Arc<Outcome>>;

impl<D: Device> Run<'_, D> {
    /// Launches the graph, if the arrays and the memory are as it needs them. A graph that failed is dropped. The error is a deferred one, or that
    /// of a launch that did a part of the work: the block would begin with what that part left.
    pub(super) fn launch<I: Inputs<D>, R: Outputs<D>>(
        &mut self,
        known: &mut KeyState,
        inputs: &mut I,
    ) -> Option<Result<R>> {
        let KeyState { launchable: place, like, .. } = &mut *known;
        let launchable = place.as_mut()?;
        let like: &R::Like = like.as_ref()?.downcast_ref()?;
        if !self.is_ordered(inputs) {
            return None;
        }
        let are_same = launchable.has_inputs(self.seen);
        if !are_same && !launchable.takes_inputs(self.seen) {
            self.stats.last_refusal = Some(other_inputs().to_string());
            return None;
        }
        let mut outputs: R = match self.allocate(like) {
            Ok(outputs) => outputs,
            Err(error) => return error.is_deferred().then_some(Err(error)),
        };
        outputs.visit(&mut Visitor::new(self.device, Act::Note(&mut self.seen.arrays)));
        let is_moved = !are_same || !launchable.has_outputs(self.seen);
        match self.launch_on(launchable, is_moved) {
            Ok(launched) => self.expect(launched?, inputs, &mut outputs),
            Err((error, is_partly_done)) => {
                *place = None;
                known.tries.note_loss();
                self.stats.lost += 1;
                self.stats.last_refusal = Some(error.to_string());
                return is_partly_done.then_some(Err(error));
            }
        }
        known.tries.note_launch();
        self.stats.moved += u64::from(is_moved);
        Some(Ok(outputs))
    }

    /// Lists the inputs, and orders the launch with their other uses. Returns false if that is impossible.
    #[inline]
    pub(super) fn is_ordered<I: Inputs<D>>(&mut self, inputs: &mut I) -> bool {
        self.seen.clear();
        let mut visitor = Visitor::new(self.device, Act::Order(self.seen));
        inputs.visit(&mut visitor);
        visitor.end().is_ok() && !self.seen.is_apart
    }

    /// Launches the graph on these arrays, while the memory of the plans cannot be taken away. `None` if the graph cannot use the arrays, or
    /// if that memory was taken away or moved.
    #[inline]
    fn launch_on(&self, launchable: &mut Launchable, is_moved: bool) -> Result<Option<LaunchOutcome>, (Error, bool)> {
        if is_moved && !launchable.follow(&self.seen.arrays).map_err(|error| (error, false))? {
            return Ok(None);
        }
        let launchable = &*launchable;
        // A launch takes less time without an entry of the scope, and needs one in some cases only.
        let alone = || self.launch_in(launchable, false);
        let inside =
            |cache: &_| if std::ptr::eq(cache, launchable.cache) { self.launch_in(launchable, true) } else { None };
        ScopeGuard::launch_captured(self.name, self.site, alone, inside).transpose()
    }

    /// Launches the graph in an entry of the scope, or without one. With an error comes whether a part of the work was done.
    pub(super) fn launch_in(
        &self,
        launchable: &Launchable,
        has_entry: bool,
    ) -> Option<Result<LaunchOutcome, (Error, bool)>> {
        let stream = self.device.stream_handle();
        let outcome = (!stream.can_capture()).then(Arc::<Outcome>::default);
        let context: &dyn std::any::Any = match &outcome {
            Some(outcome) => outcome,
            None => &(),
        };
        let launch = || {
            outcome.iter().for_each(|outcome| check_inputs(&self.seen.outcomes, outcome, self.device));
            // SAFETY: the addresses of the work lie in three kinds of memory. (1) The inputs: they are borrowed, at the addresses that the
            // graph has, and their other uses are ordered with this stream. The graph writes only those that are borrowed exclusively;
            // `check` looked for that, or the caller of `run_unchecked` promises it. (2) The outputs: they are new, on this stream. (3) The
            // memory of the scope's plans: the cache runs this while the memory is there, nothing in it is alive, and nobody can take it;
            // afterwards the range hands it on behind this work. Other memory was refused by `check`, or the caller of
            // `run_unchecked` promises that it stays.
            unsafe { launchable.graph.launch(context) }
        };
        let place = launchable.place.as_ref();
        let done = match has_entry {
            true => launchable.cache.launch_in(stream, place, launch),
            false => launchable.cache.launch_alone(stream, place, launch),
        }?;
        Some(done.map(|()| outcome))
    }

    /// Stores the outcome of the launch in the arrays that it writes, on a stream of the host.
    pub(super) fn expect<I: Inputs<D>, R: Outputs<D>>(&self, outcome: LaunchOutcome, inputs: &mut I, outputs: &mut R) {
        if let Some(outcome) = outcome {
            let mut visitor = Visitor::new(self.device, Act::Expect(&outcome));
            inputs.visit(&mut visitor);
            outputs.visit(&mut visitor);
        }
    }
}

impl Launchable {
    /// Whether these are the inputs of the last launch, at the same addresses.
    #[inline]
    fn has_inputs(&self, seen: &RunArrays) -> bool {
        self.has_lens(seen) && self.operands[..self.inputs] == *seen.arrays
    }

    /// Whether the inputs are arranged in the same lists. Most blocks have no lists. Then nothing is compared: `memcmp` of two empty vectors
    /// took 90 of the 180 ns of a run (glibc 2.36, AMD EPYC).
    #[inline]
    fn has_lens(&self, seen: &RunArrays) -> bool {
        self.lens.len() == seen.lens.len() && (seen.lens.is_empty() || self.lens == seen.lens)
    }

    /// Whether the graph can use these inputs, perhaps at other addresses.
    fn takes_inputs(&self, seen: &RunArrays) -> bool {
        self.has_lens(seen) && are_alike(&self.operands[..self.inputs], &seen.arrays)
    }

    /// Whether the outputs, which follow the inputs, are at the addresses of the last launch.
    #[inline]
    fn has_outputs(&self, seen: &RunArrays) -> bool {
        self.operands[self.inputs..] == seen.arrays[self.inputs..]
    }

    /// Replaces the addresses of operands that moved. Returns false if it is not known where they are, or if the outputs are of other types.
    fn follow(&mut self, now: &[Operand]) -> Result<bool> {
        self.changes.clear();
        if !are_alike(&self.operands, now) || !self.slots.changes(&self.operands, now, &mut self.changes) {
            return Ok(false);
        }
        self.graph.set(&self.changes)?;
        self.slots.changed(&self.changes);
        self.operands.copy_from_slice(now);
        Ok(true)
    }
}

/// The reason for another capture of a key whose inputs differ from those of its graph.
#[cold]
fn other_inputs() -> Error {
    Error::unavailable(
        "the graph of this key",
        "its inputs differ from those of this run in number, type or size",
        "use another key for other inputs, for example their shapes; the block is captured again",
    )
}

/// Whether these are the same arrays, perhaps at other addresses.
#[inline]
fn are_alike(one: &[Operand], other: &[Operand]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.is_like(other))
}
