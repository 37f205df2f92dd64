//! Entries of a scope whose work is captured into a graph, or done by one.
//!
//! A graph uses the memory of the scope's plans. The memory stays idle memory of the scope: others may take it between two launches. So a
//! launch first looks whether the memory is still there, and holds it meanwhile.

use std::ops::Range;

use super::block::Block;
use super::current;
use super::owner::Cache;
use super::policy::Terms;
use crate::device::Stream;
use crate::home::Visit;
use crate::record::Record;

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

    /// Enters the scope to launch a graph of its work. Most of these entries need nothing of what an entry that allocates does at its
    /// beginning and end. Returns the entry's place, for [`end_launch`](Cache::end_launch).
    #[inline]
    pub fn begin_launch(&'static self) -> usize {
        self.enter_and(Terms::new(), Visit::Uncaptured, |owner| {
            if !owner.with(|local, shared| local.planner.begin_launch(shared)) {
                owner.begin(Visit::Uncaptured);
            }
        })
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
        let holds = owner.with(|local, shared| {
            local.planner.skip();
            let Some(place) = place else { return true };
            let is_there = local
                .planner
                .idle_place(shared, stream)
                .is_some_and(|now| now.start == place.start && now.end >= place.end);
            // One byte stands for all of them: a lease with anything alive is not revoked.
            is_there && shared.lease.insist(0, 1)
        });
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
