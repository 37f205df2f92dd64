//! The log of one entry of a scope: which sizes were allocated, in order, and how long each array lived.
//!
//! Time counts allocations: an array that is dropped before allocation `n` of its entry lives until `n`. The order of drops
//! between two allocations changes no load, and so no layout. If an array outlives its entry, the log of the entry in which it
//! is dropped records the end.

/// The longest entry that is logged, in allocations. A log takes at most 2 MiB; longer entries get no plan.
const LONGEST_ENTRY: usize = 1 << 17;

/// One entry. The size of its log is bounded, however long the entry is.
#[derive(Clone, Debug, Default)]
pub struct Log {
    stream: u64,
    allocations: Vec<Logged>,
    is_cut: bool,
    /// The bytes of its allocations that are alive.
    alive: u64,
    /// The number of allocations of the entry before, if that entry was recorded too.
    before: Option<u32>,
    /// For each allocation of the entry before: when this entry dropped it, or [`OUTLIVES`].
    ends: Vec<u32>,
    /// No drop came behind more allocations than these.
    latest_drop: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Logged {
    pub(super) bytes: u64,
    /// The number of allocations before its drop.
    pub(super) upper: u32,
    /// The number of the scope inside this one whose arena it is; 0 for any other allocation.
    pub(super) inner: u32,
}

/// The end of an array that outlived its entry: later than any other end, because an entry has at most [`LONGEST_ENTRY`] allocations.
pub(super) const OUTLIVES: u32 = u32::MAX;

impl Log {
    /// The log of an entry whose allocations are known.
    pub(super) fn of(stream: u64, allocations: Vec<Logged>) -> Log {
        Log { stream, latest_drop: allocations.len() as u32, allocations, ..Log::default() }
    }

    /// Begins anew and keeps the allocated memory. `before` is the length of the entry before, if that entry was recorded.
    pub fn begin_entry(&mut self, before: Option<u32>) {
        self.clear();
        self.before = before;
    }

    /// Begins anew and keeps the allocated memory.
    pub fn clear(&mut self) {
        let Log { mut allocations, mut ends, .. } = std::mem::take(self);
        allocations.clear();
        ends.clear();
        *self = Log { allocations, ends, ..Log::default() };
    }

    /// Takes the last `count` allocations out: they begin another entry.
    pub fn split_off(&mut self, count: u32) -> Log {
        let from = self.len().saturating_sub(count);
        let tail = self.part(from, self.len() - from);
        self.allocations.truncate(from as usize);
        let uppers = self.allocations.iter_mut().map(|logged| &mut logged.upper);
        uppers.chain(&mut self.ends).filter(|upper| **upper > from).for_each(|upper| *upper = OUTLIVES);
        tail
    }

    /// Begins with allocations that were [`split_off`](Log::split_off) from the entry before.
    pub fn resume(&mut self, tail: &Log) {
        self.stream = tail.stream;
        self.allocations.extend_from_slice(&tail.allocations);
        self.latest_drop = self.len();
        let alive = tail.allocations.iter().filter(|logged| logged.upper == OUTLIVES);
        self.alive = alive.fold(self.alive, |sum, logged| sum.saturating_add(logged.bytes));
    }

    /// Logs allocations on this stream, and no others.
    pub fn begin(&mut self, stream: u64) {
        self.stream = stream;
    }

    /// Notes an allocation. Returns its number in the log, if the log has room for it.
    #[inline]
    pub fn allocated(&mut self, stream: u64, bytes: u64) -> Option<u32> {
        if stream != self.stream || bytes == 0 {
            return None;
        }
        let number = self.allocations.len();
        self.is_cut |= number == LONGEST_ENTRY;
        if self.is_cut {
            return None;
        }
        self.allocations.push(Logged { bytes, upper: OUTLIVES, inner: 0 });
        self.alive = self.alive.saturating_add(bytes);
        Some(number as u32)
    }

    /// Notes the drop of an allocation of this entry.
    #[inline]
    pub fn dropped(&mut self, number: u32) {
        let now = self.allocations.len() as u32;
        if let Some(logged) = self.allocations.get_mut(number as usize) {
            logged.upper = now;
            self.latest_drop = now;
            self.alive = self.alive.saturating_sub(logged.bytes);
        }
    }

    /// Notes that an allocation is the arena of a scope inside this one. The scope has a number above 0.
    pub fn note_inner(&mut self, number: u32, scope: u32) {
        if let Some(logged) = self.allocations.get_mut(number as usize) {
            logged.inner = scope;
        }
    }

    /// Gives the last allocation as many bytes, and notes its drop. Without bytes, it never was. Returns false if it is not the last one.
    pub fn end_last(&mut self, number: u32, bytes: Option<u64>) -> bool {
        if number.checked_add(1) != Some(self.len()) {
            return false;
        }
        let was_quiet = self.latest_drop <= number;
        self.dropped(number);
        if let Some(bytes) = bytes {
            self.allocations[number as usize].bytes = bytes;
            return true;
        }
        self.allocations.pop();
        self.latest_drop = number;
        if was_quiet {
            return true; // Nothing was dropped behind it, so no drop has to come earlier.
        }
        let uppers = self.allocations.iter_mut().map(|logged| &mut logged.upper).chain(&mut self.ends);
        uppers.filter(|upper| **upper != OUTLIVES).for_each(|upper| *upper = number.min(*upper));
        true
    }

    /// The same entry without the arenas of scopes inside, if there are any.
    pub fn without_inner(&self) -> Option<Log> {
        let inner: Vec<u32> =
            (0..).zip(&self.allocations).filter(|(_, logged)| logged.inner > 0).map(|(number, _)| number).collect();
        if inner.is_empty() {
            return None;
        }
        let upper = |upper: u32| match upper {
            OUTLIVES => OUTLIVES,
            upper => upper - inner.partition_point(|&number| number < upper) as u32,
        };
        let own = self.allocations.iter().filter(|logged| logged.inner == 0);
        let allocations = own.map(|logged| Logged { upper: upper(logged.upper), ..*logged }).collect();
        Some(Log::of(self.stream, allocations))
    }

    /// Notes the drop of an allocation of the entry before. An allocation behind the end of that one began this one
    /// ([`resume`](Log::resume)).
    #[inline]
    pub fn dropped_of_before(&mut self, number: u32) {
        let Some(before) = self.before else { return };
        if number >= before {
            return self.dropped(number - before);
        }
        self.ends.resize(before as usize, OUTLIVES);
        self.latest_drop = self.len();
        self.ends[number as usize] = self.latest_drop;
    }

    /// When this entry dropped the allocation of this number of the entry before: [`OUTLIVES`] if it did not. `None`
    /// if that is not known, or if the entry before had another length.
    pub(super) fn end_of_before(&self, number: usize) -> Option<u32> {
        self.is_behind_one_as_long().then(|| self.ends.get(number).copied().unwrap_or(OUTLIVES))
    }

    /// Whether the entry before was recorded and had as many allocations.
    pub(super) fn is_behind_one_as_long(&self) -> bool {
        self.before == Some(self.allocations.len() as u32)
    }

    /// How many allocations it has.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks whether a log is empty")]
    pub fn len(&self) -> u32 {
        self.allocations.len() as u32
    }

    /// Whether it covers a whole entry that allocated something.
    pub fn is_whole(&self) -> bool {
        !self.is_cut && !self.allocations.is_empty()
    }

    /// Whether the entry had more allocations than the log has room for.
    pub fn is_too_long(&self) -> bool {
        self.is_cut
    }

    /// The bytes of an allocation.
    pub fn bytes_at(&self, number: u32) -> Option<u64> {
        self.allocations.get(number as usize).map(|logged| logged.bytes)
    }

    /// The bytes of its allocations that are alive. Not known of a log that was taken from another one.
    pub(crate) fn alive(&self) -> u64 {
        self.alive
    }

    /// The bytes of all allocations together.
    pub fn bytes(&self) -> u64 {
        self.allocations.iter().fold(0, |sum, logged| sum.saturating_add(logged.bytes))
    }

    /// Whether the same allocations outlived both entries; `other` has as many allocations.
    pub fn outlived_as(&self, other: &Log) -> bool {
        let mut pairs = self.allocations.iter().zip(&other.allocations);
        pairs.all(|(one, other)| (one.upper == OUTLIVES) == (other.upper == OUTLIVES))
    }

    /// How many allocations outlived the entry, and their bytes.
    pub fn outliving(&self) -> (u64, u64) {
        let outliving = self.allocations.iter().filter(|logged| logged.upper == OUTLIVES);
        outliving.fold((0, 0), |(count, bytes), logged| (count + 1, bytes.saturating_add(logged.bytes)))
    }

    /// A stretch of this entry as an entry of its own, of `length` allocations from number `from` on, or as many as there are.
    pub fn part(&self, from: u32, length: u32) -> Log {
        let end = from.saturating_add(length).min(self.len());
        let from = from.min(end);
        let inside = |logged: &Logged| {
            let upper = if logged.upper <= end { logged.upper - from } else { OUTLIVES };
            Logged { upper, ..*logged }
        };
        let allocations = self.allocations[from as usize..end as usize].iter().map(inside).collect();
        Log::of(self.stream, allocations)
    }

    /// As [`part`](Log::part), for the stretch right behind one that is as long. It knows when the arrays of that one were dropped.
    pub fn part_after(&self, from: u32, length: u32) -> Log {
        let from = from.min(self.len());
        let (end, length) = (from.saturating_add(length), length.min(from));
        let end_of = |logged: &Logged| match logged.upper {
            upper if upper <= from || upper > end => OUTLIVES,
            upper => upper - from,
        };
        let before = &self.allocations[(from - length) as usize..from as usize];
        Log { before: Some(length), ends: before.iter().map(end_of).collect(), ..self.part(from, length) }
    }

    /// The number, the bytes, and the number of allocations before the drop, of each allocation; [`u32::MAX`] if it is alive.
    pub(crate) fn lives(&self) -> impl Iterator<Item = (u32, u64, u32)> + '_ {
        self.allocations.iter().enumerate().map(|(number, logged)| (number as u32, logged.bytes, logged.upper))
    }

    /// How many times the entry repeats the same round of allocations, from the first to the last one. The last round may be
    /// cut short.
    pub fn rounds(&self) -> u64 {
        // The longest proper prefix of the entry that is also its suffix yields the shortest round.
        let mut borders = vec![0usize; self.allocations.len()];
        for end in 1..self.allocations.len() {
            let mut border = borders[end - 1];
            while border > 0 && self.allocations[border].bytes != self.allocations[end].bytes {
                border = borders[border - 1];
            }
            borders[end] = border + usize::from(self.allocations[border].bytes == self.allocations[end].bytes);
        }
        let round = self.allocations.len() - borders.last().copied().unwrap_or(0);
        (self.allocations.len() / round.max(1)) as u64
    }

    /// The stream whose allocations are recorded.
    pub fn stream(&self) -> u64 {
        self.stream
    }

    pub(super) fn allocations(&self) -> &[Logged] {
        &self.allocations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_allocations_begin_the_next_entry() {
        let mut log = Log::default();
        log.begin_entry(Some(9));
        (0..5).for_each(|number| assert_eq!(log.allocated(0, 100 + number), Some(number as u32)));
        // Dropped in the first part, behind it, and behind it again.
        log.allocations[1].upper = 2;
        log.dropped(0);
        log.dropped(4);
        log.dropped_of_before(3);
        let tail = log.split_off(2);
        let uppers = |log: &Log| log.lives().map(|(_, bytes, upper)| (bytes, upper)).collect::<Vec<_>>();
        assert_eq!(uppers(&log), [(100, OUTLIVES), (101, 2), (102, OUTLIVES)]);
        assert_eq!(log.ends[3], OUTLIVES);
        let mut next = Log::default();
        next.begin_entry(Some(log.len()));
        next.resume(&tail);
        assert_eq!(uppers(&next), [(103, OUTLIVES), (104, 2)]);
        next.dropped_of_before(0);
        next.dropped_of_before(3);
        assert_eq!(uppers(&next), [(103, 2), (104, 2)]);
        assert_eq!(next.ends[0], 2);
    }

    /// An entry of four allocations. The third one is the arena of a scope inside, in which the first one is dropped.
    fn with_inner(bytes: Option<u64>) -> Log {
        let mut log = Log::default();
        (0..3).for_each(|number| assert_eq!(log.allocated(0, 100 + number), Some(number as u32)));
        log.note_inner(2, 7);
        log.dropped(0);
        assert!(log.end_last(2, bytes) && !log.end_last(0, bytes));
        log.allocated(0, 103);
        log.dropped(1);
        log
    }

    #[test]
    fn the_arena_of_a_scope_inside_gets_its_bytes_at_its_end() {
        let lives = |log: &Log| log.lives().map(|(_, bytes, upper)| (bytes, upper)).collect::<Vec<_>>();
        let log = with_inner(Some(500));
        assert_eq!(lives(&log), [(100, 3), (101, 4), (500, 3), (103, OUTLIVES)]);
        assert_eq!(log.alive(), 103);
        let own = log.without_inner().unwrap();
        assert_eq!(lives(&own), [(100, 2), (101, 3), (103, OUTLIVES)]);
        assert!(own.without_inner().is_none());
        assert_eq!(lives(&with_inner(None)), [(100, 2), (101, 3), (103, OUTLIVES)]);
    }
}
