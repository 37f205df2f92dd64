//! The moves of an entry of a known order, and the figures that they were computed from. They become better as more is known.

use gpucache_plan::offload::{Link, Move, Order, Schedule, schedule, simulate};

/// The link between a GPU of today and its host, in each direction. 55 GB/s were measured on an H100 behind PCIe 5. The plan assumes a
/// tenth less until copies were timed, since both directions share the host's memory. A copy of 2 KiB takes 3 to 5 microseconds there.
pub(super) const LINK: Link = Link { bytes_per_second: 50e9, latency: 5e-6 };
/// The share of the room that is spared for fragmentation. As much again is spared after each entry in which arrays had to leave without a
/// move.
pub(super) const SPARE_SHARE: u64 = 32;
/// How often that is done at most. A quarter of the room is spared then.
const MOST_SPARED: u64 = 8;
/// New moves are taken if an entry with them takes less than this share of an entry with the old ones, both on the simulated machine. A
/// change costs an entry, in which arrays are where the old moves left them.
const BETTER: f64 = 0.99;

pub(super) struct Timetable {
    order: Order,
    room: u64,
    /// How many times a [`SPARE_SHARE`] is left alone.
    spared: u64,
    found: Option<Schedule>,
    /// The least seconds that the work between uses took so far.
    least: Option<Vec<f64>>,
}

impl Timetable {
    /// Without moves.
    pub(super) fn new(order: Order, room: u64) -> Timetable {
        Timetable { order, room, spared: 0, found: None, least: None }
    }

    /// The array of a use.
    pub(super) fn array(&self, place: usize) -> usize {
        self.order.uses[place].array as usize
    }

    pub(super) fn moves(&self) -> &[Move] {
        self.found.as_ref().map_or(&[], |found| &found.moves)
    }

    /// Whether the room was found to suffice without a move.
    pub(super) fn fits(&self) -> bool {
        self.found.as_ref().is_some_and(|found| found.moves.is_empty())
    }

    fn budget(&self) -> u64 {
        self.room - self.room / SPARE_SHARE * self.spared
    }

    /// Computes moves that spare more of the room, unless much is spared already. If less room does not suffice, the moves stay as they
    /// were.
    pub(super) fn spare_more(&mut self, measured: Option<f64>) {
        if self.spared == MOST_SPARED {
            return;
        }
        self.spared += 1;
        if let Some(found) = schedule(&self.order, self.budget(), link(measured)) {
            self.found = Some(found);
        }
    }

    /// Learns that the work takes `seconds[i]` between `places[i]` and `places[i + 1]`. Returns whether better moves were found.
    pub(super) fn pace(&mut self, places: &[u32], seconds: &[f64], measured: Option<f64>) -> bool {
        let (budget, link) = (self.budget(), link(measured));
        // A late thread, or a device that others use, only adds to the time of the work.
        let least = |known: &Vec<f64>| known.iter().zip(seconds).map(|(known, now)| known.min(*now)).collect();
        let seconds: Vec<f64> =
            self.least.as_ref().filter(|known| known.len() == seconds.len()).map_or_else(|| seconds.to_vec(), least);
        self.order = self.order.paced(places, &seconds);
        self.least = Some(seconds);
        let Some(found) = schedule(&self.order, budget, link) else { return false };
        let before = self.found.as_ref().map_or(f64::INFINITY, |before| simulate(&self.order, budget, link, before));
        let is_better = found.seconds < before * BETTER;
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
    use gpucache_plan::offload::{Access, Use};

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
        }
    }

    #[test]
    fn moves_are_replaced_by_better_ones_alone() {
        let (mut numbers, room, link) = (Numbers(1), 5 << 20, Some(f64::from(1 << 20)));
        let places: Vec<u32> = (0..=24).collect();
        let mut replaced = 0;
        for _ in 0..100 {
            let mut table = Timetable::new(order(&mut numbers), room);
            table.spare_more(link);
            let Some(before) = table.found.clone() else { continue };
            // Few uses take nearly all of the time.
            let seconds: Vec<f64> = (0..24).map(|_| if numbers.below(4) == 0 { 5.0 } else { 0.01 }).collect();
            let is_replaced = table.pace(&places, &seconds, link);
            let takes = |schedule: &Schedule| simulate(&table.order, table.budget(), super::link(link), schedule);
            let (old, new) = (takes(&before), table.found.as_ref().map_or(f64::INFINITY, takes));
            assert_eq!(is_replaced, new < old * BETTER, "{old} and then {new}");
            replaced += u32::from(is_replaced);
        }
        assert!(replaced > 10, "{replaced} of 100 were timed by what uses take");
    }
}
