//! The beginning and the end of an entry, and what planning asks of the device's range then: a block for the plans, and
//! an end for it.

use super::local::Local;
use super::owner::Owner;
use super::supply;
use crate::device::{Stream, softly};
use crate::home::Fact;
use crate::planner::{Begin, Effects, Refused, Vacated};
use crate::pressure::demand;
use crate::pressure::lease::Piece;
use crate::pressure::reclaim::{self, Releaser};
use crate::pressure::transit::{InNeed, Transit};
use crate::range::{Carved, Cut, DeviceRange, Limit, Patience, RangeState};

/// Idle memory in this share of a range is given back: two of its handles. Less is not worth calls of the device that the next
/// entries may have to undo.
const WORTH_A_TRIM: u64 = 512;

/// For an arena that was not to be had otherwise, the range may reserve more than it ever did by this share, or by two pages: a scope
/// that goes without a plan for good costs more, since without one a range reserves a tenth more than is alive.
const ARENA_SLACK: u64 = 16;
/// It reserves more for an arena only up to this share more than the arena and what is in use: where small arrays lie on many pages,
/// waiting finds no more room, and each try would add a page.
const DENSE: u64 = 8;

impl Owner {
    /// Begins an entry of the scope. Its plans get their block if there is one to be had; without, it goes unplanned.
    pub(super) fn begin(&self) {
        if let Some(stream) = self.with(|local, _| local.watched())
            && stream.captures_unannounced()
        {
            stream.refuse_next(supply::unannounced());
        }
        let begin = self.with(|local, shared| local.begin(shared));
        match begin {
            Begin::Ready => {}
            Begin::Install { bytes, stream, refused, may_grow } => {
                self.install(bytes, &stream, refused, may_grow);
                self.perform(self.with(|local, shared| local.planner.leave_ring(shared)));
                #[cfg(feature = "tracing")]
                self.tell_arena(stream.memory_id());
            }
            Begin::Clear => self.perform(self.with(|local, _| local.planner.take_effects())),
        }
    }

    #[cold]
    fn install(&self, bytes: u64, stream: &Stream, refused: Option<Refused>, may_grow: bool) {
        let Some(range) = DeviceRange::of(stream) else { return };
        let RangeState { live, peak_reserved, granule, .. } = range.occupancy();
        if refused.is_some_and(|refused| refused.is_in_vain(live)) || InNeed::is_any(stream.memory_id()) {
            return;
        }
        let _transit = Transit::begin();
        let slack = if may_grow { (peak_reserved / ARENA_SLACK).max(2 * granule) } else { 0 };
        let needed = live.saturating_add(bytes);
        let dense = needed.saturating_add(needed / DENSE).saturating_add(granule.saturating_mul(2));
        let most = peak_reserved.saturating_add(slack).min(dense.max(peak_reserved));
        // Without bytes all of it is carried, and the arena needs no block.
        let found = (bytes > 0).then(|| {
            self.make_room(refused);
            self.find_arena(range, stream, bytes, most)
        });
        let unwanted = self.with(|local, shared| match found {
            Some(None) => {
                local.planner.refuse(live);
                None
            }
            found => local.planner.install(self.door(), shared, found.flatten(), bytes),
        });
        if let Some(block) = unwanted {
            range.free(stream, block);
        }
        self.note_holding();
    }

    /// A block for plans, if the scope may hold so much more, with what that says for a diagnosis.
    fn find_arena(&self, range: &DeviceRange, stream: &Stream, bytes: u64, most: u64) -> Option<Carved> {
        let is_allowed = self.allows(bytes);
        let found = if is_allowed { find_block(range, stream, bytes, most) } else { None };
        match &found {
            Some(Carved { taken, .. }) => self.note(Fact::Taken, u64::from(taken.is_any()), bytes),
            None => self.note(if is_allowed { Fact::NoStretch } else { Fact::BeyondLimit }, 1, bytes),
        }
        found
    }

    /// Gives back what an arena may need: what is idle in lists, and a ring that is mostly idle if it was in vain before.
    fn make_room(&self, refused: Option<Refused>) {
        self.release_lists();
        if refused.is_some() {
            self.perform(self.with(|local, shared| {
                local.planner.make_room(shared);
                local.planner.take_effects()
            }));
        }
    }

    /// Ends the epoch of the plan's stream if another thread asked for that: a scope that goes by its plan makes no call that
    /// would notice.
    pub(super) fn attend_stream(&self) {
        let wanted = self.with(|local, _| local.planner.wanted_stream());
        if let Some(stream) = wanted
            && let Some(range) = DeviceRange::of(&stream)
        {
            range.attend(&stream);
        }
    }

    /// Ends an entry that this thread is about to leave.
    pub(super) fn end(&self) {
        let effects = self.with(|local, shared| local.planner.end(shared));
        if self.with(|local, _| local.is_look_due()) && self.with(Local::look) {
            while let Some(record) = self.with(|local, _| local.take_unneeded()) {
                drop(record);
            }
        }
        if let Some(effects) = effects {
            self.perform(effects);
        }
    }

    /// Gives the plans' block up, unless an entry is under way that the range need not have it for: it is to grow by
    /// `need` bytes. What is carried keeps its ring, most of which is in use, but in a shortage, or where most is idle.
    pub(super) fn release_plans(&self, need: u64, is_short: bool) {
        let is_entered = self.is_entered();
        let effects = self.with(|local, shared| {
            if !is_entered || local.planner.is_in_the_way(shared, need) {
                local.planner.vacate(shared);
            }
            match is_short {
                true => local.planner.lose_ring(shared),
                false if !is_entered => local.planner.make_room(shared),
                false => {}
            }
            local.planner.take_effects()
        });
        self.perform(effects);
    }

    /// Does what planning wants done.
    pub(super) fn perform(&self, effects: Effects) {
        let Effects {
            vacated,
            shorten,
            records,
            streams,
            may_trim,
            #[cfg(feature = "tracing")]
            news,
        } = effects;
        vacated.into_iter().for_each(|vacated| self.give_up(vacated));
        shorten.into_iter().for_each(|bytes| self.shorten_ring(bytes));
        // To keep something for later takes memory of the host, and most entries have nothing.
        if !records.is_empty() || !streams.is_empty() {
            self.let_go((records, streams));
        }
        may_trim.into_iter().for_each(|(stream, last)| self.look_at_range(stream, last));
        // Last, as whoever hears it may come back.
        #[cfg(feature = "tracing")]
        news.iter().for_each(|news| self.tell(news));
    }

    /// Gives back what the lists and the range need not keep.
    fn look_at_range(&self, stream: Stream, last: Option<u64>) {
        let Some(range) = DeviceRange::of(&stream) else { return };
        self.with(|_, shared| shared.counters.renew_beside());
        while let Some(record) = self.with(Local::overflow) {
            self.release(record);
        }
        // What an entry before the plan left in a list is in the way of a page that could go back.
        while let Some(record) = self.with(Local::take_unused) {
            self.release(record);
        }
        self.tell_demand();
        let frees = trim(range, stream.memory_id(), last);
        self.with(|local, shared| local.planner.looked(shared, frees));
        self.let_go_of_stream(stream);
    }

    /// Gives blocks back to the range, all but what is live in them.
    fn give_up(&self, vacated: Vacated) {
        let Vacated { leased, arena, live, transit: _transit } = vacated;
        // So that none of what follows is the last to know the stream.
        self.let_go_of_stream(leased.stream.clone());
        if live.is_empty() {
            return leased.give_back();
        }
        let Some(range) = DeviceRange::of(&leased.stream) else { return };
        for (number, Piece { block, room }) in leased.pieces.into_iter().enumerate() {
            let live: Vec<_> = live.iter().filter(|live| live.piece == number).collect();
            let parts: Vec<(u64, u64)> = live.iter().map(|live| (live.offset, live.bytes)).collect();
            let blocks = range.split(&leased.stream, block, &parts);
            let places = live.iter().map(|live| live.position).zip(blocks).collect();
            self.with(|local, shared| local.planner.note_escaped(shared, arena, places));
            room.into_iter().for_each(|room| range.close_room(room));
        }
    }
}

/// A block for plans, from what is idle, in other scopes if need be; no more than `most` bytes are reserved then, nor than a soft
/// limit has. A
/// failure of the device is for those to return who can: no block, then.
fn find_block(range: &DeviceRange, stream: &Stream, bytes: u64, most: u64) -> Option<Carved> {
    // Pages that are idle move before any are added.
    let gather = || softly(|| range.gather(stream, bytes, Limit { aim: 0, most, cut: Cut::OrWait })).ok().flatten();
    let idle = || supply::idle_for(&range.occupancy(), stream, bytes);
    let release = || reclaim::release_idle(idle(), stream.memory_id(), 0, Releaser::Others);
    gather().or_else(|| if release() > 0 { gather() } else { None })
}

/// Gives back what the scopes are not likely to need again, if that is worth a call, and something was freed since the
/// last look. Returns how often something was freed.
fn trim(range: &DeviceRange, device: u64, last: Option<u64>) -> u64 {
    let RangeState { reserved, live, frees, .. } = range.occupancy();
    let keep = demand::of(device).max(live);
    if last != Some(frees) && reserved.saturating_sub(keep) > reserved / WORTH_A_TRIM {
        // A failure is the device's, which the next call meets as well.
        let _ = range.trim(keep, Patience::None);
    }
    frees
}
