//! The moves of an entry of a known order, and the figures that they were computed from. They become better as more is known.

use gpucache_plan::offload::{Link, Move, Offsets, Order, Schedule};

/// The link between a GPU of today and its host, in each direction. 55 GB/s were measured on an H100 behind PCIe 5. The plan assumes a
/// tenth less until copies were timed, since both directions share the host's memory. A copy of 2 KiB takes 3 to 5 microseconds there.
pub(super) const LINK: Link = Link { bytes_per_second: 50e9, latency: 5e-6 };
/// The room is spared in such shares, so that arrays find contiguous memory.
const SHARES: u64 = 64;
/// As many shares more are spared at once: after entries in which arrays had to leave without a move, and from one attempt to find places for
/// all arrays to the next.
const STEP: u64 = 2;
/// The most shares that are spared: a quarter of the room.
const MOST_SPARED: u64 = 16;
/// If arrays would leave less than this share of the room, moves are computed.
pub(super) const LEAST_FREE: u64 = 32;
/// New moves are taken if an entry with them takes less than this share of an entry with the old ones, both on the simulated machine. A
/// change costs the time of some entries, in which all arrays leave and come back.
const BETTER: f64 = 0.995;

pub(super) struct Timetable {
    order: Order,
    room: u64,
    /// The bytes that each array needs, and the contiguous bytes that there may be for them.
    needed: (Vec<u64>, u64),
    /// How many [`SHARES`] have to be left alone.
    least_spared: u64,
    /// The moves, if any were computed.
    found: Option<Found>,
    /// The least seconds that the work between uses took so far.
    least: Option<Vec<f64>>,
}

/// Moves, and what they were computed for.
struct Found {
    /// How many [`SHARES`] are left alone.
    spared: u64,
    schedule: Schedule,
    /// Where the arrays lie, if they all find a place.
    offsets: Option<Offsets>,
}

impl Timetable {
    /// Without moves. `needed` has the bytes that each array needs, and the contiguous bytes that there may be for them.
    pub(super) fn new(order: Order, room: u64, needed: (Vec<u64>, u64)) -> Timetable {
        Timetable { order, room, needed, least_spared: STEP, found: None, least: None }
    }

    pub(super) fn offsets(&self) -> Option<&Offsets> {
        self.found.as_ref()?.offsets.as_ref()
    }

    /// The array of a use.
    pub(super) fn array(&self, place: usize) -> usize {
        self.order.uses[place].array as usize
    }

    pub(super) fn moves(&self) -> &[Move] {
        self.found.as_ref().map_or(&[], |found| &found.schedule.moves)
    }

    /// Whether the room was found to suffice without a move.
    pub(super) fn fits(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.schedule.moves.is_empty())
    }

    fn budget(&self, spared: u64) -> u64 {
        self.room - self.room / SHARES * spared
    }

    fn spared(&self) -> u64 {
        self.found.as_ref().map_or(0, |found| found.spared)
    }

    /// Computes moves.
    pub(super) fn begin(&mut self, measured: Option<f64>) {
        self.found = self.search(link(measured));
    }

    /// The schedule that spares the fewest shares of the room, of those whose arrays all find places, or else of all.
    fn search(&self, link: Link) -> Option<Found> {
        self.search_by(|spared| self.spare(spared, link))
    }

    fn search_by(&self, mut spare: impl FnMut(u64) -> Option<Found>) -> Option<Found> {
        let may_have_places = self.order.may_have_offsets(&self.needed.0);
        let mut without_places = None;
        for spared in (self.least_spared..=MOST_SPARED).step_by(STEP as usize) {
            let Some(found) = spare(spared) else { break };
            if found.offsets.is_some() {
                let half = spared.checked_sub(STEP / 2).filter(|&half| half > self.least_spared);
                let closer = half.and_then(spare).filter(|closer| closer.offsets.is_some());
                return Some(closer.unwrap_or(found));
            }
            // A schedule may take seconds. The others would have no places either.
            if found.schedule.moves.is_empty() || !may_have_places {
                return Some(found);
            }
            without_places.get_or_insert(found);
        }
        without_places
    }

    /// The schedule that spares so many shares of the room.
    fn spare(&self, spared: u64, link: Link) -> Option<Found> {
        let schedule = self.order.schedule(self.budget(spared), link)?;
        let (needed, room) = &self.needed;
        let offsets = if schedule.moves.is_empty() { None } else { schedule.offsets(&self.order, needed, *room) };
        let offsets = offsets.filter(|offsets| offsets.height() <= *room);
        Some(Found { spared, schedule, offsets })
    }

    /// Whether more of the room may be spared.
    pub(super) fn may_spare_more(&self) -> bool {
        self.least_spared.max(self.spared()) + STEP <= MOST_SPARED
    }

    /// Computes moves that spare more of the room. If less room does not suffice, the moves stay as they were. Returns whether there are
    /// other moves.
    pub(super) fn spare_more(&mut self, measured: Option<f64>) -> bool {
        self.least_spared = self.least_spared.max(self.spared()) + STEP;
        let found = self.search(link(measured));
        let is_other = found.is_some();
        self.found = found.or(self.found.take());
        is_other
    }

    /// Learns that as many bytes are contiguous. If the arrays do not fit there, it computes moves that spare more of the room. Returns
    /// whether they fit.
    pub(super) fn fit(&mut self, contiguous: u64, measured: Option<f64>) -> bool {
        let fits = |table: &Timetable| table.offsets().is_some_and(|offsets| offsets.height() <= contiguous);
        if !fits(self) {
            self.needed.1 = self.needed.1.min(contiguous);
            self.found = self.search(link(measured)).or(self.found.take());
        }
        fits(self)
    }

    /// Learns that the work takes `seconds[i]` between `places[i]` and `places[i + 1]`. Returns whether better moves were found.
    pub(super) fn pace(&mut self, places: &[u32], seconds: &[f64], measured: Option<f64>) -> bool {
        let link = link(measured);
        // A late thread, or a device that others use, only adds to the time of the work.
        let least = |known: &Vec<f64>| known.iter().zip(seconds).map(|(known, now)| known.min(*now)).collect();
        let seconds: Vec<f64> =
            self.least.as_ref().filter(|known| known.len() == seconds.len()).map_or_else(|| seconds.to_vec(), least);
        self.order = self.order.paced(places, &seconds);
        self.least = Some(seconds);
        let before = |before: &Found| before.schedule.simulate(&self.order, self.budget(before.spared), link);
        let before = self.found.as_ref().map_or(f64::INFINITY, before);
        let Some(found) = self.search(link) else { return false };
        // Memory that is not contiguous costs more than better times save.
        let loses_places = self.offsets().is_some() && found.offsets.is_none() && !found.schedule.moves.is_empty();
        let is_better = found.schedule.seconds < before * BETTER && !loses_places;
        if is_better {
            self.found = Some(found);
        }
        is_better
    }
}

/// A link of so many bytes a second, if that is known.
fn link(measured: Option<f64>) -> Link {
    Link { bytes_per_second: measured.unwrap_or(LINK.bytes_per_second), ..LINK }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpucache_plan::offload::{Access, Use, What};

    /// Numbers that are always the same.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % limit
        }
    }

    /// Some uses of eight arrays of a MiB, each thought to take as long as a copy.
    fn order(numbers: &mut Numbers) -> Order {
        let access = |number| if number == 0 { Access::Write } else { Access::Read };
        let mut each =
            |place: u32| Use { array: numbers.below(8) as u32, access: access(numbers.below(3)), until: place + 1 };
        let uses: Vec<Use> = (0..24).map(&mut each).collect();
        Order {
            bytes: vec![1 << 20; 8],
            uses,
            at: (0..24).map(f64::from).collect(),
            length: 24.0,
            dies: vec![false; 8],
            rests: Vec::new(),
        }
    }

    /// The shares that are spared in a search of an order of `count` arrays, if no schedule has places for them.
    fn tried(count: u32) -> Vec<u64> {
        let each = |array| Use { array, access: Access::Read, until: array + 1 };
        let (all, length) = (count as usize, f64::from(count));
        let order = Order {
            bytes: vec![1; all],
            uses: (0..count).map(each).collect(),
            at: (0..count).map(f64::from).collect(),
            length,
            dies: vec![false; all],
            rests: Vec::new(),
        };
        let table = Timetable::new(order, 1 << 20, (vec![1; all], 1 << 20));
        let moves = vec![Move { before: 0, array: 0, what: What::Evict }];
        let mut tried = Vec::new();
        let found = table.search_by(|spared| {
            tried.push(spared);
            let schedule = Schedule { moves: moves.clone(), resident_at_begin: vec![true; all], seconds: length };
            Some(Found { spared, schedule, offsets: None })
        });
        assert_eq!(found.map(|found| found.spared), Some(STEP));
        tried
    }

    #[test]
    fn one_schedule_suffices_if_none_has_places() {
        assert_eq!(tried(4096), [2, 4, 6, 8, 10, 12, 14, 16]);
        assert_eq!(tried(4097), [2]);
    }

    #[test]
    fn moves_are_replaced_by_better_ones_alone() {
        let (mut numbers, room, link) = (Numbers(1), 5 << 20, Some(f64::from(1 << 20)));
        let places: Vec<u32> = (0..=24).collect();
        let mut replaced = 0;
        for _ in 0..100 {
            let mut table = Timetable::new(order(&mut numbers), room, (Vec::new(), 0));
            table.begin(link);
            let Some(before) = table.found.as_ref().map(|found| found.schedule.clone()) else { continue };
            // Few uses take nearly all of the time.
            let seconds: Vec<f64> = (0..24).map(|_| if numbers.below(4) == 0 { 5.0 } else { 0.01 }).collect();
            let is_replaced = table.pace(&places, &seconds, link);
            let takes = |schedule: &Schedule| schedule.simulate(&table.order, table.room, super::link(link));
            let new = table.found.as_ref().map_or(f64::INFINITY, |found| takes(&found.schedule));
            let old = takes(&before);
            assert_eq!(is_replaced, new < old * BETTER, "{old} and then {new}");
            replaced += u32::from(is_replaced);
        }
        assert!(replaced > 10, "{replaced} of 100 were timed by what uses take");
    }
}
