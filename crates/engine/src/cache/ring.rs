//! The memory of a scope's ring: how it grows where a request finds no room, and how its end goes back.
//!
//! A ring grows in place, in addresses that the range keeps free for it. Where there are none, it grows by another block. Idle
//! pages move under the ring first. So memory that carried arrays used elsewhere before becomes the ring's, and no more is
//! reserved.

use smallvec::SmallVec;

use super::owner::Owner;
use crate::device::{Stream, softly};
use crate::home::Fact;
use crate::planner::{Planner, Resolved, RingGrowth};
use crate::pressure::lease::{Leased, Piece};
use crate::pressure::transit::{Transit, are_blocks_taken};
use crate::range::{Cut, DeviceRange, GatherLimit, Obtained, RangeState};
use crate::record::{Record, Request};

impl Owner {
    /// Serves a request for which the ring has no room: from the ring once it has grown, or else from the lists.
    #[cold]
    pub(super) fn grow_and_carry(&self, stream: &Stream, request: &Request<'_>) -> Option<Box<Record>> {
        if let Some(record) = self.carry_after_turn(stream, request) {
            return Some(record);
        }
        let has_grown = self.grow_for(request);
        // If the ring was given up, the range gets its memory and serves the request.
        let carried = self.change(|planner, shared| {
            if has_grown && let Resolved::Record(record) = planner.carry(shared, request, stream) {
                return Some(record);
            }
            planner.carry_aside(shared, request.bytes as u64);
            None
        });
        let served = carried.or_else(|| self.with(|local, shared| local.hit(shared, request, stream.id())));
        #[cfg(feature = "tracing")]
        if has_grown {
            self.tell_ring(stream.memory_id());
        }
        served
    }

    /// Lets the ring grow for a request that it could not serve. Returns whether it has grown.
    fn grow_for(&self, request: &Request<'_>) -> bool {
        let growth = self.with(|local, shared| local.planner.wanted_growth(shared, request.bytes as u64));
        let has_grown = growth.is_some_and(|growth| self.grow_ring(&growth, Planner::refuse_growth));
        if has_grown {
            self.note_sample(Fact::RingGrew, request);
            self.with(|local, _| local.planner.watch_while_young());
        }
        self.note_holding();
        has_grown
    }

    /// At the end of a turn: serves a request once the ring has grown for its next turn, or as it is, if it has room in this one.
    fn carry_after_turn(&self, stream: &Stream, request: &Request<'_>) -> Option<Box<Record>> {
        let growth = self.with(|local, shared| local.planner.growth_for_turn(shared, request.bytes as u64))?;
        // A refusal says nothing about later needs, which may be smaller.
        if growth.is_some_and(|growth| self.grow_ring(&growth, |_| ())) {
            self.note_sample(Fact::RingGrew, request);
            #[cfg(feature = "tracing")]
            self.tell_ring(stream.memory_id());
        }
        self.note_holding();
        match self.with(|local, shared| local.planner.carry(shared, request, stream)) {
            Resolved::Record(record) => Some(record),
            _ => None,
        }
    }

    /// Lets the ring grow. Returns whether it has grown. `refuse` notes that there is no memory for it.
    fn grow_ring(&self, growth: &RingGrowth, refuse: impl FnOnce(&mut Planner)) -> bool {
        let Some(range) = DeviceRange::of(&growth.stream) else { return false };
        // The ring's lease has no blocks for a moment.
        let _transit = Transit::begin();
        let mut leased = self.shared.ring.take();
        let is_lost = leased.is_none() && self.with(|local, _| local.planner.has_ring());
        let grown =
            if is_lost || !self.may_grow(range, growth) { None } else { softly(|| grow(range, growth, &mut leased)) };
        if let Some(leased) = leased {
            self.shared.ring.begin(leased);
        }
        self.with(|local, shared| match grown {
            Some((Some(address), bytes, taken)) => {
                local.planner.add_to_ring(shared, address, bytes, taken);
            }
            Some((None, bytes, taken)) => local.planner.ring_grew(shared, bytes, taken),
            None if is_lost => local.planner.lose_ring(shared),
            None => refuse(&mut local.planner),
        });
        grown.is_some()
    }

    fn may_grow(&self, range: &DeviceRange, growth: &RingGrowth) -> bool {
        let may = !are_blocks_taken(growth.stream.memory_id()) && !growth.stream.is_capturing();
        may && self.allows_whole(range, growth.bytes.unwrap_or(0).max(growth.more))
    }

    /// Gives back the end of the ring's only block, behind its first `bytes`.
    pub(super) fn shorten_ring(&self, bytes: u64) {
        let _transit = Transit::begin();
        let Some(mut leased) = self.shared.ring.take() else { return };
        if let (Some(range), Some(Piece { block, room })) = (DeviceRange::of(&leased.stream), leased.pieces.pop()) {
            let kept = range.split(&leased.stream, block, &[(0, bytes)]).pop();
            leased.pieces.extend(kept.map(|block| Piece { block, room }));
            leased.bytes = bytes;
        }
        self.shared.ring.begin(leased);
    }
}

/// Lengthens the ring's last block, or adds a block, and returns its address, the bytes and the device calls that they took. After a failure
/// everything stays as it was: the request goes beside the ring, and meets a failure of the device there.
fn grow(range: &DeviceRange, growth: &RingGrowth, leased: &mut Option<Leased>) -> Option<(Option<u64>, u64, Obtained)> {
    let RingGrowth { stream, more, least, bytes, whole, held, room } = growth;
    let RangeState { reserved, granule, .. } = range.occupancy();
    let limit = GatherLimit { cut: Cut::IfIdle, ..GatherLimit::aiming_at(reserved) };
    let last = leased.as_ref().and_then(|leased| leased.pieces.last());
    if let Some(Piece { block, room: Some(room) }) = last {
        let grow = |more: &u64| range.grow_in(stream, room, Some(block), *more, limit).ok().flatten();
        if let Some((carved, bytes)) = grow(more).or_else(|| grow(least)) {
            leased.iter_mut().for_each(|leased| leased.bytes += bytes);
            return Some((None, bytes, carved.taken));
        }
    }
    let bytes = (*bytes)?;
    // A room has whole pages of its own. A ring that fits into one page lies among other blocks. Otherwise, a number that outlives
    // its entry would hold a whole page.
    let is_small = held.saturating_add(*whole) <= granule;
    let roomy = if is_small { None } else { range.allocate_in_room(stream, bytes, *room, limit).ok().flatten() };
    let (carved, bytes, room) = match roomy {
        Some((carved, bytes, room)) => (carved, bytes, Some(room)),
        None => {
            let bytes = if is_small { *whole } else { bytes };
            (range.gather(stream, bytes, limit).ok().flatten()?, bytes, None)
        }
    };
    let leased = leased.get_or_insert_with(|| Leased { pieces: SmallVec::new(), stream: stream.clone(), bytes: 0 });
    leased.bytes += bytes;
    leased.pieces.push(Piece { block: carved.block, room });
    Some((Some(carved.address), bytes, carved.taken))
}
