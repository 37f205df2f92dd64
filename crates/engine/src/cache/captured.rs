//! Entries of a scope whose work is captured into a graph, or done by one.
//!
//! A graph uses the memory of the scope's plans. The memory stays idle memory of the scope: others may take it between two launches. So a
//! launch first looks whether the memory is still there, and holds it meanwhile.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use super::block::Block;
use super::current;
use super::owner::Cache;
use super::token::token;
use crate::base::finally::finally;
use crate::device::Stream;
use crate::home::Visit;
use crate::pressure::reclaim;
use crate::record::Record;
use crate::trace;

impl Cache {
    /// Begins to watch the entry that this thread is in. The returned function tells whether the plans have served all allocations since
    /// then, and all of these arrays were dropped.
    pub fn watch_served(&'static self) -> impl Fn() -> bool {
        let before = self.owner().map(|owner| owner.with(|local, shared| local.planner.progress(shared)));
        move || {
            let Some((before, owner)) = before.zip(self.owner()) else { return false };
            if self.shared.is_behind() {
                owner.settle();
            }
            owner.with(|local, shared| local.planner.has_served_all_since(before, shared))
        }
    }

    /// The addresses of the plans' memory on this stream, if nothing in it is alive. For the thread that is inside.
    #[inline]
    pub fn idle_place(&'static self, stream: &Stream) -> Option<Range<u64>> {
        let owner = self.owner()?;
        owner.with(|local, shared| local.planner.idle_place(shared, stream))
    }

    /// Runs `launch` as [`launch_in`](Cache::launch_in) does, but without an entry. `None` if this is not the thread's cache of the scope, if
    /// the thread is inside, or if planning has work to do that needs an entry.
    #[inline]
    pub fn launch_alone<R>(
        &'static self,
        stream: &Stream,
        place: Option<&Range<u64>>,
        launch: impl FnOnce() -> R,
    ) -> Option<R> {
        if !self.may_launch_alone() {
            return None;
        }
        self.local.enter(token());
        let owner = self.owner()?;
        let is_alone = owner.depth() == 1 && !self.shared.is_behind();
        let mut launched = None;
        owner.exit_untold_after(|owner| {
            if is_alone && owner.with(|local, shared| local.planner.hold_for_launch(shared, stream, place)) {
                let _held = place.map(|_| finally(|| self.shared.lease.lower(0)));
                self.shared.counters.visited(Visit::Uncaptured);
                self.shared.entered.store(reclaim::now(), Relaxed);
                launched = Some(launch());
            }
        });
        launched
    }

    /// Whether this is the thread's cache of the scope, and no trace needs its entries.
    #[inline]
    fn may_launch_alone(&self) -> bool {
        let me = token();
        me > 0 && self.serves.load(Relaxed) == me && !trace::is_on()
    }

    /// Runs `launch` while nobody can take the memory of the plans away, if it still is at `place`, or begins there and is longer. The
    /// entry that this thread is in teaches the plans nothing.
    ///
    /// Without a `place`, the launch needs no memory of the plans.
    #[inline]
    pub fn launch_in<R>(
        &'static self,
        stream: &Stream,
        place: Option<&Range<u64>>,
        launch: impl FnOnce() -> R,
    ) -> Option<R> {
        let owner = self.owner()?;
        let holds = owner.with(|local, shared| local.planner.hold_in_entry(shared, stream, place));
        let launched = holds.then(launch);
        if holds && place.is_some() {
            owner.with(|_, shared| shared.lease.lower(0));
        }
        launched
    }
}

impl Block {
    /// Keeps a dropped record until the capture of its stream ends, or of a stream that used it.
    #[inline]
    pub(super) fn keep_for_capture(record: Box<Record>) -> Option<Box<Record>> {
        if Stream::is_any_in_capture() { Block::keep_if_captured(record) } else { Some(record) }
    }

    /// A position of the innermost scope's arena returns at once: the plan serves it again, and its return calls no device.
    #[cold]
    fn keep_if_captured(mut record: Box<Record>) -> Option<Box<Record>> {
        let own = record.stream().clone();
        let captured = record.users().chain([&own]).find(|stream| stream.is_in_capture()).cloned();
        let Some(stream) = captured.filter(|_| !current::has_planned(&record)) else { return Some(record) };
        stream.keep_captured(Box::new(Block::of(record))).err().map(|block| block.into_record())
    }
}
