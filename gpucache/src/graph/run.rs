//! A run that calls the block, directly or in a capture.

use std::panic::Location;

use super::check::checked;
use super::inputs::Inputs;
use super::kept::{Known, Launchable};
use super::outputs::Outputs;
use super::slots::Slots;
use super::stats::GraphStats;
use super::visitor::{Act, Seen, Visitor};
use crate::device::Device;
use crate::scope::ScopeGuard;
use gpucache_engine::cache::{Cache, Current, Place, Recycle, Terms};
use gpucache_engine::device::{Capture, Captured};
use gpucache_engine::{Error, Result};

/// The block of a run.
pub(super) struct Block<'b, F> {
    pub(super) run: &'b mut F,
    /// Whether the memory that it uses is checked.
    pub(super) is_checked: bool,
}

/// One run.
pub(super) struct Run<'r, D> {
    pub(super) device: &'r D,
    name: &'r str,
    outputs: &'r str,
    site: &'static Location<'static>,
    pub(super) stats: &'r mut GraphStats,
    /// The scope around the run.
    around: Option<Current>,
}

/// A number that identifies a cache.
#[inline]
pub(super) fn id(cache: &'static Cache) -> usize {
    std::ptr::from_ref(cache) as usize
}

impl<'r, D: Device> Run<'r, D> {
    #[inline]
    pub(super) fn of(
        device: &'r D,
        (name, outputs, site): (&'r str, &'r str, &'static Location<'static>),
        stats: &'r mut GraphStats,
    ) -> Run<'r, D> {
        Run { device, name, outputs, site, stats, around: ScopeGuard::innermost() }
    }

    /// Whether the run is a part of other work that is captured: of another captured scope, or by `Cuda::capture`, or by other code.
    #[inline]
    pub(super) fn is_part_of_another(device: &D) -> bool {
        ScopeGuard::is_in_block() || device.stream_handle().is_in_capture() || device.stream_handle().is_capturing()
    }

    #[inline]
    pub(super) fn enter(&self) -> (ScopeGuard, Option<&'static Cache>) {
        ScopeGuard::enter_captured(self.name, self.site, Terms::new())
    }

    /// Serves outputs from the scope around the run, or from one of their own.
    #[inline]
    pub(super) fn scope_of_outputs(&self) -> ScopeGuard {
        match self.around {
            Some(around) => ScopeGuard::back_in(Some(around)),
            None => ScopeGuard::enter_captured(self.outputs, self.site, Terms::new().with_recycle(Recycle::Range)).0,
        }
    }

    /// Runs the block, and copies its results to the outputs.
    pub(super) fn direct<I, R, E, F>(
        &mut self,
        known: &mut Known,
        inputs: &mut I,
        block: &mut Block<'_, F>,
    ) -> Result<R, E>
    where
        I: Inputs<D>,
        R: Outputs<D>,
        E: From<Error>,
        F: for<'a> FnMut(I::Lent<'a>) -> Result<R, E>,
    {
        self.stats.direct += 1;
        // As a graph does: the scope then leaves room for the outputs when it finds memory for its plans.
        let expected = self.expected::<R>(known);
        let (_inside, cache) = self.enter();
        let before = cache.and_then(Cache::progress);
        let results = ScopeGuard::run_block(|| (block.run)(inputs.lend()))?;
        let like = results.like();
        let outputs = match expected {
            Some((expected, mut outputs)) if expected == like => {
                outputs.copy_from(&results)?;
                outputs
            }
            other => {
                drop(other);
                self.copied(&results, &like)?
            }
        };
        drop(results);
        let is_planned = cache.zip(before).is_some_and(|(cache, before)| cache.has_served_all_since(before));
        known.tries.is_planned = is_planned;
        known.like = Some(Box::new(like));
        Ok(outputs)
    }

    /// Arrays for the outputs, if the shapes of the last run are known and there is memory for them.
    fn expected<R: Outputs<D>>(&self, known: &Known) -> Option<(R::Like, R)> {
        let like: R::Like = known.like.as_ref()?.downcast_ref::<R::Like>()?.clone();
        let _scope = self.scope_of_outputs();
        let outputs = R::allocate(self.device, &like).ok()?;
        Some((like, outputs))
    }

    fn copied<R: Outputs<D>>(&self, results: &R, like: &R::Like) -> Result<R> {
        let mut outputs = {
            let _scope = self.scope_of_outputs();
            R::allocate(self.device, like)?
        };
        outputs.copy_from(results)?;
        Ok(outputs)
    }

    /// Runs the block in a capture, and makes a graph of it. `None` if the work was not done.
    pub(super) fn capture<I, R, E, F>(
        &mut self,
        known: &mut Known,
        inputs: &mut I,
        block: &mut Block<'_, F>,
        seen: &mut Seen,
    ) -> Option<Result<R, E>>
    where
        I: Inputs<D>,
        R: Outputs<D>,
        E: From<Error>,
        F: for<'a> FnMut(I::Lent<'a>) -> Result<R, E>,
    {
        // Waits for other streams come before the capture, since a graph cannot have them.
        seen.clear();
        let mut visitor = Visitor::new(self.device, Act::Order(seen));
        inputs.visit(&mut visitor);
        visitor.end().ok().filter(|()| !seen.is_apart)?;
        let inputs_seen = seen.arrays.len();
        let (like, mut outputs): (R::Like, R) = self.expected(known)?;
        outputs.operands(&mut seen.arrays);
        let (_inside, cache) = self.enter();
        let cache = cache?;
        let taken = self.record(cache, &like, &mut outputs, || (block.run)(inputs.lend()));
        let Recorded { captured, is_done, failed } = taken;
        if let Some(failure) = failed {
            return Some(Err(failure));
        }
        let made =
            captured.and_then(|captured| self.keep(known, (cache, captured), inputs_seen, seen, block.is_checked));
        match made {
            Ok(()) => self.stats.captures += 1,
            Err(error) => self.refuse(known, &error),
        }
        if is_done {
            return Some(Ok(outputs));
        }
        let launchable = known.launchable.as_ref();
        let launched = launchable.map(|launchable| self.launch_in(cache, launchable, seen));
        // Skipped, since the block ran without effect if the graph was not launched.
        cache.launch_in(self.device.stream_handle(), None, || ());
        match launched {
            Some(Ok(Some(_))) => Some(Ok(outputs)),
            _ => {
                known.launchable = None;
                None
            }
        }
    }

    fn refuse(&mut self, known: &mut Known, error: &Error) {
        known.launchable = None;
        known.tries.note_failure();
        self.stats.refused += 1;
        self.stats.last_refusal = Some(error.to_string());
    }

    /// Captures the block and the copies of its results.
    fn record<R: Outputs<D>, E: From<Error>>(
        &mut self,
        cache: &'static Cache,
        like: &R::Like,
        outputs: &mut R,
        block: impl FnOnce() -> Result<R, E>,
    ) -> Recorded<E> {
        let stream = self.device.stream_handle();
        let place = cache.idle_place(stream);
        let before = cache.progress();
        let capture = match Capture::begin(stream) {
            Ok(capture) => capture,
            Err(error) => return Recorded { captured: Err(error), is_done: false, failed: None },
        };
        let runs_work = capture.runs_work();
        let results = match ScopeGuard::run_block(block) {
            Ok(results) => results,
            Err(failure) => {
                drop(capture);
                // Without effect on the device, so the block runs directly, and returns the error if it is its own.
                let captured =
                    Err(Error::unavailable("a graph", "the block returned an error in the capture", RUNS_DIRECTLY));
                return Recorded { captured, is_done: false, failed: runs_work.then_some(failure) };
            }
        };
        let is_like = results.like() == *like;
        let copied = if is_like { outputs.copy_from(&results) } else { Err(changed_shapes()) };
        let captured = capture.end();
        let late = if runs_work && !is_like {
            self.copied(&results, &results.like()).map(|late| *outputs = late)
        } else {
            Ok(())
        };
        drop(results);
        let is_planned = before.is_some_and(|before| cache.has_served_all_since(before));
        let captured = copied.and(captured).and_then(|captured| match is_planned {
            true => Ok((captured, place)),
            false => Err(unplanned()),
        });
        Recorded { captured, is_done: runs_work, failed: late.err().map(E::from) }
    }

    /// Makes a graph of captured work, and keeps it with all that it depends on.
    fn keep(
        &mut self,
        known: &mut Known,
        (cache, (captured, place)): (&'static Cache, (Captured, Option<Place>)),
        inputs: usize,
        seen: &Seen,
        is_checked: bool,
    ) -> Result<()> {
        let words = captured.words();
        if is_checked {
            checked(&captured, &words, place, &seen.arrays)?;
        }
        let previous = known.launchable.take();
        let slots = match &previous {
            Some(previous) => previous.slots.compared(&previous.operands, &words, &seen.arrays),
            None => Slots::of(&words, &seen.arrays),
        };
        let is_movable = captured.is_transparent();
        let graph = captured.into_graph(previous.map(|previous| previous.graph))?;
        let slots = if is_movable { slots } else { slots.unknown() };
        let operands = seen.arrays.clone();
        known.launchable = Some(Launchable { graph, slots, place, cache: id(cache), operands, inputs });
        known.tries.note_success();
        Ok(())
    }
}

/// The outcome of a capture.
struct Recorded<E> {
    captured: Result<(Captured, Option<Place>)>,
    /// Whether the work is done, and the outputs are those of the run.
    is_done: bool,
    /// The failure of the run, which did its work.
    failed: Option<E>,
}

const RUNS_DIRECTLY: &str = "nothing: the block runs directly; `CapturedScope::stats` counts it";

fn changed_shapes() -> Error {
    Error::unavailable(
        "a graph",
        "the block returned arrays of other shapes than before",
        "give each shape a key of its own",
    )
}

fn unplanned() -> Error {
    Error::unavailable(
        "a graph",
        "the scope's plan did not serve all arrays of the block, or some of them are still alive",
        "drop all arrays in the block except those that it returns",
    )
}
