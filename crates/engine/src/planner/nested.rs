//! An arena inside the arena of the scope around, for the time of an entry. The cache asks that scope for it ([`nested`](crate::cache)).

use super::arena::Arena;
use super::backoff::{Backoff, Pace};
use super::{NO_STREAM, Planner};
use crate::device::Stream;
use crate::home::Shared;
use crate::record::{ArenaId, Door, DropPath, OuterBlock, Record, Request};
use gpucache_plan::entries::Served;

/// The planner's side of an entry inside another scope, and of scopes inside its own entries.
#[derive(Default)]
pub(super) struct Nested {
    /// How the entry began in the scope around.
    begun: Begun,
    /// The bytes in use when the entry began.
    used: u64,
    /// The number of the arena in the last blocks of the scope around, while nothing of it is alive. All records have it.
    pub(super) arena: Option<ArenaId>,
    /// How many blocks were served to scopes inside.
    pub(super) served: u64,
    /// The entry in which the arena came.
    pub(super) since: u64,
    cleared: Cleared,
    /// Waits before an entry is recorded for scopes inside that the plan does not know.
    waits: Backoff,
}

impl Nested {
    /// Forgets what was learned of scopes inside.
    pub(super) fn forget(&mut self) {
        (self.cleared, self.waits) = (Cleared::default(), Backoff::default());
    }
}

/// An arena that went for a scope inside.
#[derive(Default)]
struct Cleared {
    /// The number of that scope.
    scope: u32,
    /// How often it went again in the entry in which it had come back.
    times: u32,
    /// Waits before the arena comes back.
    waits: Backoff,
}

/// How an entry began.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Begun {
    /// In no scope, or in the first entry of one.
    #[default]
    Outside,
    /// In a block of the scope around.
    Inside,
    /// The entry has ended. Something in a block of the scope around may be alive.
    Left,
    /// With memory of its own. The scope around has perhaps logged it.
    Beside(Option<LoggedInner>),
}

/// An entry of a scope inside in the log of the scope around.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoggedInner {
    /// The number of the scope around, and its entry.
    around: u32,
    entry: u64,
    /// The number of the allocation in the log.
    number: u32,
}

/// If a plan has a block for a scope inside, but so often in a row not where the scope is entered, the arena comes back only after waits. With 4, two of
/// fourteen recorded mixtures were planned for 0.33 instead of 0.64 and for 0.67 instead of 0.69.
const OFTEN: u32 = 32;

/// The scope around.
impl Planner {
    /// A block of at least `bytes` bytes for the arena of a scope inside this one, if the plan has one now or soon. The entry goes on behind it.
    pub(crate) fn serve_inner(
        &mut self,
        shared: &Shared,
        stream: &Stream,
        (scope, bytes): (u32, u64),
    ) -> Option<Box<Record>> {
        let (served, bytes) = self.serve_position_of(shared, stream, (scope, bytes))?;
        let dims = [usize::try_from(bytes).ok()?];
        shared.lent.add(bytes);
        let Some(record) = self.place(served, shared, stream, &Request::of_bytes(&dims)) else {
            shared.lent.remove(bytes);
            return None;
        };
        if self.learning.is_recording && record.recorded.0 > 0 {
            self.learning.learner.log.note_inner(record.recorded.1, scope);
        }
        self.nested.served += 1;
        Some(record)
    }

    /// Serves the next position of a scope inside, and returns its bytes. A position that is too small will be larger in later entries.
    fn serve_position_of(
        &mut self,
        shared: &Shared,
        stream: &Stream,
        (scope, bytes): (u32, u64),
    ) -> Option<(Served, u64)> {
        let may_serve = self.entry.is_planned && self.is_serving(stream.id()) && !self.is_captured;
        let (position, most) = may_serve.then(|| self.next_inner(shared, (scope, bytes))).flatten()?;
        if most < bytes {
            self.plans.widen_soon(position, bytes);
            return None;
        }
        let cursor = &mut self.hot.cursor;
        cursor.skip_to(position);
        // The plan may not know so few bytes.
        [bytes, most].into_iter().find_map(|bytes| Some((cursor.serve(bytes)?, bytes)))
    }

    /// The next position that the plan has for a scope inside, and its most bytes. If it has none, another plan that begins alike may have one.
    fn next_inner(&mut self, shared: &Shared, (scope, bytes): (u32, u64)) -> Option<(usize, u64)> {
        if self.plans.envelope()?.begins_with_inner(scope) {
            self.choose_plan(shared, bytes, false);
        }
        let next = |planner: &Planner| planner.plans.envelope()?.next_inner(planner.hot.cursor.next(), scope);
        next(self).or_else(|| {
            self.plans.branch_off(&mut self.hot.cursor, bytes);
            next(self)
        })
    }

    /// Gives the arena up for a scope inside.
    pub(crate) fn clear_for_inner(&mut self, shared: &Shared, scope: u32) {
        let times = if self.nested.since == self.entry.number { self.nested.cleared.times + 1 } else { 0 };
        let waits = if times > 0 { self.nested.cleared.waits } else { Backoff::default() };
        self.nested.cleared = Cleared { scope, times, waits };
        self.give_way(shared);
        self.nested.cleared.waits.tried(self.entry.number, Pace::DOUBLING);
    }

    /// Whether an arena may come back that went for a scope inside: after a wait, or at once if the plan has learned a block for that scope.
    pub(super) fn may_come_back(&self) -> bool {
        let Cleared { scope, times, waits } = &self.nested.cleared;
        let has_block = || self.plans.envelope().is_some_and(|envelope| envelope.has_inner(*scope));
        self.is_captured || waits.is_over(self.entry.number) || *times < OFTEN && has_block()
    }

    /// The bytes of an arena on this stream's queue in which nothing is alive now.
    pub(crate) fn idle_arena(&self, shared: &Shared, stream: &Stream) -> u64 {
        let place = |stream: &Stream| (stream.memory_id(), stream.queue());
        let may = |arena: &&Arena| !self.is_captured && place(&arena.stream) == place(stream);
        self.arena.as_ref().filter(may).map_or(0, |arena| arena.bytes.saturating_sub(shared.lease.live()))
    }

    /// Logs that a scope inside is entered, if this entry is recorded, with as many bytes as the scope may need.
    /// `own` is the number of this scope.
    pub(crate) fn note_inner(&mut self, stream: &Stream, own: u32, (scope, bytes): (u32, u64)) -> Option<LoggedInner> {
        let is_logged = self.learning.is_recording && self.may_record(stream.id());
        let number = is_logged.then(|| self.log(stream, bytes)).flatten()?;
        self.learning.learner.log.note_inner(number, scope);
        Some(LoggedInner { around: own, entry: self.entry.number, number })
    }

    /// Notes the end of a scope inside that had its own memory, and that needs so many bytes for its plans. If that is not known yet, or if something in it
    /// is alive, it is no allocation.
    pub(crate) fn note_inner_end(&mut self, shared: &Shared, own: u32, noted: Option<LoggedInner>, bytes: Option<u64>) {
        match (noted, bytes) {
            (Some(noted), bytes) if self.is_logged_here(own, noted) => {
                bytes.into_iter().for_each(|bytes| shared.note_use_inside(bytes));
                if !self.learning.learner.log.end_last(noted.number, bytes) {
                    self.learning.stop();
                } else if bytes.is_some() {
                    // A search looks at each allocation once, so this one has to be final.
                    self.search();
                }
            }
            (None, Some(_))
                if self.entry.is_planned && self.nested.waits.try_now(self.entry.number, Pace::DOUBLING) =>
            {
                self.learning.curiosity.record_next();
            }
            _ => {}
        }
    }

    /// Whether this entry is recorded, and has this one of a scope inside in its log.
    fn is_logged_here(&self, own: u32, noted: LoggedInner) -> bool {
        self.learning.is_recording && (noted.around, noted.entry) == (own, self.entry.number)
    }
}

/// The scope inside.
impl Planner {
    /// The bytes and the stream of the arena, if it may be in the memory of the scope around: if there are plans, and nothing in their arena is alive.
    pub(crate) fn movable_arena(&self, shared: &Shared) -> Option<(u64, &Stream)> {
        let is_idle = shared.lease.live() == 0 && !self.is_captured && self.may_come_back();
        let bytes = self.plans.bytes();
        (is_idle && self.plans.are_laid_out() && bytes > 0).then_some((bytes, self.plans.stream()?))
    }

    /// The stream of the plans, or of the recorded entries.
    pub(crate) fn known_stream(&self) -> Option<&Stream> {
        self.plans.stream().or(self.learning.stream.as_ref())
    }

    /// Serves the entry that begins from a block of the scope around. An arena of its own goes.
    pub(crate) fn install_inside(
        &mut self,
        door: &'static Door,
        shared: &Shared,
        (block, bytes, stream): (OuterBlock, u64, Stream),
    ) {
        self.vacate(shared);
        let (hot, nested) = (&mut self.hot, &mut self.nested);
        let arena = *nested.arena.get_or_insert_with(|| {
            let arena = ArenaId::next();
            hot.records.join(arena);
            arena
        });
        (hot.base, hot.stream, hot.arena, hot.door) = (block.address(), stream.id(), Some(arena), Some(door));
        let positions = self.plans.positions();
        self.arena = Some(Arena { stream, bytes, positions, launches: 0, outer: Some(block) });
        (self.refused, self.footprint.has_planned) = (None, true);
        // The entry begins after this.
        (self.nested.begun, self.nested.since) = (Begun::Inside, self.entry.number + 1);
        shared.counters.installed_inside(bytes, positions);
    }

    /// Notes that the entry begins with memory of its own.
    pub(crate) fn begin_beside(&mut self, shared: &Shared, noted: Option<LoggedInner>) {
        (self.nested.begun, self.nested.used) = (Begun::Beside(noted), shared.in_use());
    }

    /// Whether the entry that begins goes on in a block of the scope around, since something in it is alive.
    pub(crate) fn begins_in_block(&mut self) -> bool {
        self.nested.begun = if self.is_in_block() { Begun::Inside } else { Begun::Outside };
        self.is_in_block()
    }

    /// Ends an entry in another scope. Returns how it began, and the bytes that the next one needs there: if these are known, and if the entry left no
    /// more behind.
    pub(crate) fn end_inside(&mut self, shared: &Shared) -> (Begun, Option<u64>) {
        let left = shared.in_use().saturating_sub(self.nested.used);
        let bytes = self.movable_arena(shared).map(|(bytes, _)| bytes).filter(|bytes| left <= *bytes);
        (std::mem::replace(&mut self.nested.begun, Begun::Left), bytes)
    }

    /// Whether the entry in a block of the scope around has ended.
    pub(crate) fn has_left(&self) -> bool {
        self.nested.begun == Begun::Left
    }

    /// Whether the arena lies in a block of the scope around.
    pub(crate) fn is_in_block(&self) -> bool {
        self.arena.as_ref().is_some_and(|arena| arena.outer.is_some())
    }

    /// Whether the arena lies in a block of a scope around that another thread works in. Only that thread can take the memory out.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        let outer = self.arena.as_ref().and_then(|arena| arena.outer.as_ref());
        outer.is_some_and(|outer| !outer.is_reachable())
    }

    /// Whether the arena lies in a block of the scope around, and nothing in it is alive.
    pub(crate) fn is_idle_in_block(&self, shared: &Shared) -> bool {
        self.is_in_block() && shared.lease.live() == 0
    }

    /// Whether a record is a position of the arena.
    pub(crate) fn is_in_arena(&self, record: &Record) -> bool {
        self.hot.arena.is_some() && record.arena() == self.hot.arena
    }

    /// The block of the scope around, if the arena lies in one and nothing in it is alive. The arena goes.
    pub(crate) fn leave_block(&mut self, shared: &Shared) -> Option<OuterBlock> {
        if !self.is_idle_in_block(shared) {
            return None;
        }
        let Arena { positions, outer, .. } = self.arena.take()?;
        shared.counters.left_inside(positions);
        (self.hot.stream, self.hot.arena) = (NO_STREAM, None);
        (self.hot.fast_stream, self.hot.fast_path) = (NO_STREAM, DropPath::NOBODYS);
        outer
    }
}
