//! One pass over a history. Its loop has only the calls of the engine and those of a watch.

use std::time::{Duration, Instant};

use gpucache::ScopeGuard;
use gpucache::prelude::*;

use super::history::{History, Op};
use super::policy::Policy;
use crate::error::{Error, Result};

/// The outcome of one operation. It is as large as a pointer and stays in a register; [`Error`] itself would go through memory for each
/// operation, since it has paths and texts.
pub(super) type Outcome = std::result::Result<(), Box<Error>>;

/// Watches a pass. Its work at an allocation or a free counts as time of the pass. Its work at the beginning and the end of the steady
/// state does not.
pub(super) trait Watch<D: Device> {
    #[inline]
    fn allocated(&mut self, _slot: u32, _array: &mut Array<u8, D>) -> Outcome {
        Ok(())
    }

    #[inline]
    fn freeing(&mut self, _slot: u32, _array: &Array<u8, D>) -> Outcome {
        Ok(())
    }

    fn steady_state_begins(&mut self) {}

    fn steady_state_ended(&mut self) {}
}

/// Watches nothing.
impl<D: Device> Watch<D> for () {}

/// A history and its device.
#[derive(Debug)]
pub(super) struct Replay<'t, D: Device> {
    device: &'t D,
    history: &'t History,
    policy: Policy,
    /// The names of the history's scopes, or one name for all steps.
    scopes: &'t [String],
    entered: Vec<(Option<u32>, ScopeGuard)>,
    slots: Vec<Option<Array<u8, D>>>,
    failed: u64,
    /// The entry of all steps, if they have one in common.
    whole: Option<ScopeGuard>,
}

impl<'t, D: Device> Replay<'t, D> {
    /// `scopes` are names for the history's scopes, or one name if it has none.
    pub(super) fn new(device: &'t D, history: &'t History, policy: Policy, scopes: &'t [String]) -> Self {
        let slots = (0..history.slots).map(|_| None).collect();
        let whole = history.is_one_entry.then(|| policy.enter(&scopes[0]));
        Self { device, history, policy, scopes, entered: Vec::new(), slots, failed: 0, whole }
    }

    /// The number of allocations that found no memory. They and their frees were skipped.
    pub(super) fn failed(&self) -> u64 {
        self.failed
    }

    /// Replays all steps, then frees the arrays that are left. Returns the time of the steady state.
    ///
    /// # Errors
    /// Any failure except a lack of memory, and errors of the watch.
    pub(super) fn pass(&mut self, watch: &mut impl Watch<D>) -> Result<Duration> {
        let (first, steady) = self.history.split_steady();
        first.iter().try_for_each(|step| self.step(step, watch)).map_err(|error| *error)?;
        watch.steady_state_begins();
        let start = Instant::now();
        let outcome = steady.iter().try_for_each(|step| self.step(step, watch));
        let time = start.elapsed();
        outcome.map_err(|error| *error)?;
        watch.steady_state_ended();
        self.entered.clear();
        (0..self.history.slots as u32).try_for_each(|slot| self.free(slot, watch)).map_err(|error| *error)?;
        self.device.synchronize()?;
        Ok(time)
    }

    fn step(&mut self, ops: &[Op], watch: &mut impl Watch<D>) -> Outcome {
        let is_entry = self.history.scopes.is_empty() && self.whole.is_none();
        let _scope = is_entry.then(|| self.policy.enter(&self.scopes[0]));
        for &op in ops {
            match op {
                Op::Allocate { slot, bytes } => self.allocate(slot, bytes, watch)?,
                Op::Free { slot } => self.free(slot, watch)?,
                Op::Enter { .. } | Op::Leave { .. } if self.whole.is_some() => {}
                Op::Enter { .. } | Op::Leave { .. } => self.turn(op),
            }
        }
        Ok(())
    }

    /// Enters or leaves a scope. Not inlined, so that the loop stays small.
    #[inline(never)]
    fn turn(&mut self, op: Op) {
        match op {
            Op::Enter { scope } => {
                let named = |scope: u32| self.policy.enter(&self.scopes[scope as usize]);
                self.entered.push((scope, scope.map_or_else(ScopeGuard::outside, named)));
            }
            Op::Leave { scope } => {
                let place = self.entered.iter().rposition(|entered| entered.0 == scope);
                place.into_iter().for_each(|place| drop(self.entered.remove(place)));
            }
            Op::Allocate { .. } | Op::Free { .. } => {}
        }
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    fn allocate(&mut self, slot: u32, bytes: usize, watch: &mut impl Watch<D>) -> Outcome {
        // SAFETY: nothing reads the array but a watch, and that only the bytes that it wrote before.
        match unsafe { Array::uninit(self.device, bytes) } {
            Ok(mut array) => {
                watch.allocated(slot, &mut array)?;
                self.slots[slot as usize] = Some(array);
            }
            // A deferred failure of an earlier drop ends the replay.
            Err(error) if error.is_out_of_memory() && !error.is_deferred() => self.failed += 1,
            Err(error) => return Err(Box::new(Error::Device(error))),
        }
        Ok(())
    }

    #[inline(always)]
    fn free(&mut self, slot: u32, watch: &mut impl Watch<D>) -> Outcome {
        match self.slots[slot as usize].take() {
            Some(array) => watch.freeing(slot, &array),
            None => Ok(()),
        }
    }
}
