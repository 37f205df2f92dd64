//! A run that calls the block, and does its work directly.

use std::panic::Location;

use super::inputs::Inputs;
use super::kept::KeyState;
use super::outputs::Outputs;
use super::stats::GraphStats;
use super::visitor::RunArrays;
use crate::device::Device;
use crate::scope::ScopeGuard;
use gpucache_engine::cache::{Cache, Current, Recycle, Terms};
use gpucache_engine::home::Visit;
use gpucache_engine::{Error, Result};

/// The block of a run.
pub(super) type Block<'b, D, I, R, E> = dyn for<'a> FnMut(<I as Inputs<D>>::Lent<'a>) -> Result<R, E> + 'b;

/// One run.
pub(super) struct Run<'r, D> {
    pub(super) device: &'r D,
    pub(super) name: &'r str,
    pub(super) outputs: &'r str,
    pub(super) site: &'static Location<'static>,
    pub(super) stats: &'r mut GraphStats,
    /// The arrays of the run.
    pub(super) seen: &'r mut RunArrays,
    /// The scope around the run.
    pub(super) around: Option<Current>,
}

impl<D: Device> Run<'_, D> {
    /// Whether the run is a part of other work that is captured: of another captured scope, or by `Cuda::capture`, or by other code.
    #[inline]
    pub(super) fn is_part_of_another(device: &D) -> bool {
        ScopeGuard::is_in_block() || device.stream_handle().is_in_capture() || device.stream_handle().is_capturing()
    }

    #[inline]
    pub(super) fn enter(&self, visit: Visit) -> (ScopeGuard, Option<&'static Cache>) {
        ScopeGuard::enter_captured(self.name, self.site, (Terms::new(), visit))
    }

    /// Arrays for outputs of these shapes, from the scope around the run, or else from a scope of their own.
    #[inline]
    pub(super) fn allocate<R: Outputs<D>>(&self, like: &R::Like) -> Result<R> {
        let is_own = !R::IS_NOTHING && self.around.is_none();
        let _own = is_own.then(|| {
            let terms = Terms::new().with_recycle(Recycle::Range);
            ScopeGuard::enter_captured(self.outputs, self.site, (terms, Visit::Uncaptured))
        });
        R::allocate(self.device, like, self.site)
    }

    /// Runs the block, and copies its results to the outputs.
    pub(super) fn direct<'b, I: Inputs<D> + 'b, R: Outputs<D>, E: From<Error>>(
        &mut self,
        known: &mut KeyState,
        inputs: &mut I,
        block: &mut Block<'b, D, I, R, E>,
    ) -> Result<R, E> {
        self.stats.direct += 1;
        // As a graph does: the scope then leaves room for the outputs when it finds memory for its plans.
        let expected = self.expected::<R>(known)?;
        let visit = if known.tries.is_planned { Visit::Uncaptured } else { Visit::Learning };
        let (_inside, cache) = self.enter(visit);
        let serves_all = cache.map(Cache::watch_served);
        let results = ScopeGuard::run_block(|| block(inputs.lend()))?;
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
        let is_planned = serves_all.is_some_and(|serves_all| serves_all());
        if known.tries.note_direct(is_planned) {
            self.stats.last_refusal = Some(unplanned().to_string());
        }
        known.like = Some(Box::new(like));
        Ok(outputs)
    }

    /// Arrays for the outputs, if the shapes of the last run are known and there is memory for them.
    ///
    /// # Errors
    /// A deferred failure of earlier work, which the program has to learn.
    pub(super) fn expected<R: Outputs<D>>(&self, known: &KeyState) -> Result<Option<(R::Like, R)>> {
        let like = known.like.as_ref().and_then(|like| like.downcast_ref::<R::Like>());
        let Some(like) = like.cloned() else { return Ok(None) };
        match self.allocate(&like) {
            Ok(outputs) => Ok(Some((like, outputs))),
            Err(error) if error.is_deferred() => Err(error),
            Err(_) => Ok(None),
        }
    }

    /// Copies of results. For a thread inside the captured scope.
    pub(super) fn copied<R: Outputs<D>>(&self, results: &R, like: &R::Like) -> Result<R> {
        let mut outputs: R = {
            let _around = self.around.map(|around| ScopeGuard::back_in(Some(around)));
            self.allocate(like)?
        };
        outputs.copy_from(results)?;
        Ok(outputs)
    }
}

/// The error for keys that are too many to be remembered, so that none of them comes to a graph.
pub(super) fn too_many_keys() -> Error {
    Error::unavailable(
        "a graph",
        "the captured scope has had more than 4096 keys without a graph, and forgot half of them",
        "use fewer keys, such as lengths rounded up to some sizes",
    )
}

/// The error for a block that the scope's plan does not serve.
pub(super) fn unplanned() -> Error {
    Error::unavailable(
        "a graph",
        "the scope's plan did not serve all arrays of the block, or some of them are still alive",
        "drop all arrays in the block except those that it returns, allocate on the scope's own stream only, and use another captured \
         scope for another kind of work; after an invalidation, some runs follow without a graph",
    )
}
