//! A run that captures the block, and makes a graph of it.

use std::ops::Range;

use super::check::checked;
use super::inputs::Inputs;
use super::kept::{KeyState, Launchable};
use super::outputs::Outputs;
use super::run::{Block, Run, unplanned};
use super::slots::Slots;
use super::visitor::{Act, RunArrays, Visitor};
use crate::device::Device;
use crate::scope::ScopeGuard;
use gpucache_engine::cache::Cache;
use gpucache_engine::device::{Capture, Captured};
use gpucache_engine::home::Visit;
use gpucache_engine::{Error, Result};

/// Captured work, and the addresses of the plans' memory that it uses.
type Work = (Captured, Option<Range<u64>>);

impl<D: Device> Run<'_, D> {
    /// Runs the block in a capture, and makes a graph of it. `None` if the work was not done.
    pub(super) fn capture<'b, I: Inputs<D> + 'b, R: Outputs<D>, E: From<Error>>(
        &mut self,
        known: &mut KeyState,
        inputs: &mut I,
        block: &mut Block<'b, D, I, R, E>,
        is_checked: bool,
    ) -> Option<Result<R, E>> {
        // Waits for other streams come before the capture, since a graph cannot have them.
        if !self.is_ordered(inputs) {
            return None;
        }
        self.seen.inputs = self.seen.arrays.len();
        let (like, mut outputs): (R::Like, R) = match self.expected(known) {
            Ok(expected) => expected?,
            Err(error) => return self.failed(error.into()),
        };
        outputs.visit(&mut Visitor::new(self.device, Act::Note(&mut self.seen.arrays)));
        let (_inside, cache) = self.enter(Visit::Uncaptured);
        let cache = cache?;
        let (captured, has_run) = match self.record(cache, &like, &mut outputs, || block(inputs.lend())) {
            Ok(recorded) => recorded,
            Err(failure) => return self.failed(failure),
        };
        let are_same = self.are_same(inputs);
        let is_made = self.make_or_refuse(known, (cache, captured), (are_same, is_checked));
        // A run that is not done now is done directly, and counts there.
        let is_done = match if has_run { Ok(true) } else { self.launch_first(known, cache) } {
            Ok(is_done) => is_done,
            Err(error) => return self.failed(error.into()),
        };
        self.stats.captures += u64::from(is_done && is_made);
        self.stats.direct += u64::from(is_done && !is_made);
        match is_done {
            // The block ran without effect. It cannot run again on the arrays that it left.
            false if !are_same => Some(Err(E::from(exchanged()))),
            is_done => is_done.then_some(Ok(outputs)),
        }
    }

    /// The answer of a run that failed. It counts as a direct one.
    fn failed<R, E>(&mut self, failure: E) -> Option<Result<R, E>> {
        self.stats.direct += 1;
        Some(Err(failure))
    }

    /// Makes a graph of the captured work, unless the block exchanged its inputs. Returns whether there is one.
    fn make_or_refuse(
        &mut self,
        known: &mut KeyState,
        (cache, captured): (&'static Cache, Result<Work>),
        (are_same, is_checked): (bool, bool),
    ) -> bool {
        let captured = captured.and_then(|captured| if are_same { Ok(captured) } else { Err(exchanged()) });
        let made = captured.and_then(|captured| self.make(known, (cache, captured), is_checked));
        if let Err(error) = &made {
            known.launchable = None;
            known.tries.note_failure();
            self.stats.refused += 1;
            self.stats.last_refusal = Some(error.to_string());
        }
        made.is_ok()
    }

    /// Launches a new graph. If there is none, or it fails, the entry counts as skipped: its block ran without effect.
    fn launch_first(&self, known: &mut KeyState, cache: &'static Cache) -> Result<bool> {
        let launched = known.launchable.as_ref().and_then(|launchable| self.launch_in(launchable, true));
        let is_launched = matches!(launched, Some(Ok(_)));
        if !is_launched {
            known.launchable = None;
            cache.launch_in(self.device.stream_handle(), None, || ());
        }
        match launched {
            Some(Err((error, true))) => Err(error),
            _ => Ok(is_launched),
        }
    }

    /// Whether the inputs are those that were seen. The block may have put other arrays in their place, which a launch would not do.
    fn are_same<I: Inputs<D>>(&self, inputs: &mut I) -> bool {
        let mut now = RunArrays::default();
        let mut visitor = Visitor::new(self.device, Act::Order(&mut now));
        inputs.visit(&mut visitor);
        visitor.end().is_ok() && now.arrays == self.seen.arrays[..self.seen.inputs]
    }

    /// Captures the block and the copies of its results. Returns the captured work, and whether that work also ran: then `outputs` are those of
    /// the run. The error is that of work that ran.
    fn record<R: Outputs<D>, E: From<Error>>(
        &self,
        cache: &'static Cache,
        like: &R::Like,
        outputs: &mut R,
        block: impl FnOnce() -> Result<R, E>,
    ) -> Result<(Result<Work>, bool), E> {
        let stream = self.device.stream_handle();
        let (place, serves_all) = (cache.idle_place(stream), cache.watch_served());
        let capture = match Capture::begin(stream) {
            Ok(capture) => capture,
            Err(error) if error.is_deferred() => return Err(error.into()),
            Err(error) => return Ok((Err(error), false)),
        };
        let runs_work = capture.runs_work();
        let results = match ScopeGuard::run_block(block) {
            Ok(results) => results,
            Err(failure) if runs_work => return Err(failure),
            // Without effect on the device. The block runs again directly, and returns the error if it is its own.
            Err(_) if capture.has_refused() => return Ok((Err(unplanned()), false)),
            Err(_) => return Ok((Err(failed_block()), false)),
        };
        let captured = self.copy_and_end(capture, results, like, outputs)?;
        let is_planned = serves_all();
        let captured = captured.and_then(|work| if is_planned { Ok((work, place)) } else { Err(unplanned()) });
        Ok((captured, runs_work))
    }

    /// Copies the results, and ends the capture. The outer error is that of work that ran, and whose results are lost. The inner one says why
    /// there is no graph.
    fn copy_and_end<R: Outputs<D>>(
        &self,
        capture: Capture,
        results: R,
        like: &R::Like,
        outputs: &mut R,
    ) -> Result<Result<Captured>> {
        let (runs_work, is_like) = (capture.runs_work(), results.like() == *like);
        let copied = if is_like { outputs.copy_from(&results) } else { Ok(()) };
        let captured = capture.end();
        if runs_work && !is_like {
            *outputs = self.copied(&results, &results.like())?;
        }
        let captured = if is_like { captured } else { Err(changed_shapes()) };
        if runs_work { copied.map(|()| captured) } else { Ok(copied.and(captured)) }
    }

    /// Makes a graph of captured work, and keeps it with all that it depends on.
    fn make(
        &self,
        known: &mut KeyState,
        (cache, (captured, place)): (&'static Cache, Work),
        is_checked: bool,
    ) -> Result<()> {
        let seen = &*self.seen;
        let words = captured.words();
        if is_checked {
            checked(&captured, &words, place.as_ref(), &seen.arrays)?;
        }
        let previous = known.launchable.take();
        let slots = match &previous {
            _ if !captured.is_transparent() => Slots::unknown(),
            Some(previous) => previous.slots.compared(&previous.operands, &words, &seen.arrays),
            None => Slots::of(&words, &seen.arrays),
        };
        let graph = captured.into_graph(previous.map(|previous| previous.graph))?;
        let (operands, inputs, lens) = (seen.arrays.clone(), seen.inputs, seen.lens.clone());
        known.launchable = Some(Launchable { graph, slots, place, cache, operands, inputs, lens, changes: Vec::new() });
        known.tries.note_success();
        Ok(())
    }
}

fn failed_block() -> Error {
    Error::unavailable(
        "a graph",
        "the block returned an error in the capture",
        "leave out of the block what a capture does not allow, such as waits and copies to the host",
    )
}

fn exchanged() -> Error {
    Error::unavailable(
        "a graph",
        "the block put other arrays in the place of its inputs, which a graph does not repeat",
        "write into the arrays that are there, and swap arrays between two runs",
    )
}

fn changed_shapes() -> Error {
    Error::unavailable(
        "a graph",
        "the block returned arrays of other shapes than before",
        "give each shape a key of its own",
    )
}
