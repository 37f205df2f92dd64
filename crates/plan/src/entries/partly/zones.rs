//! Rooms for the irregular arrays of several entries: which gaps share one, how large it is, and how long it is in use.

use super::irregular::Irregular;
use crate::entries::cursor::Extents;
use crate::entries::envelope::ALIGN;
use crate::entries::log::OUTLIVES;

/// A gap has no room if more than this share of its bytes, 1/4, outlives the entry: the room would be in use then.
const OUTLIVING: u64 = 4;

/// The gaps from the first to the last one, which share a room.
#[derive(Clone, Copy)]
pub(super) struct Zone {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) bytes: u64,
}

impl Zone {
    /// Rooms for gaps that have at most `distance` regular allocations between them.
    pub(super) fn shared(irregular: &[Vec<Irregular>], distance: u32) -> Vec<Zone> {
        let mut gaps: Vec<u32> = irregular.iter().flatten().map(|one| one.gap).collect();
        gaps.sort_unstable();
        let mut zones: Vec<Zone> = Vec::new();
        for gap in gaps {
            match zones.last_mut().filter(|zone| gap - zone.last <= distance) {
                Some(zone) => zone.last = gap,
                None => zones.push(Zone { first: gap, last: gap, bytes: 0 }),
            }
        }
        for zone in &mut zones {
            let height = irregular.iter().map(|irregular| zone.height(irregular)).max().unwrap_or(0);
            // No array that was recorded is as large, or the cursor would give it the room itself.
            zone.bytes = height.saturating_add(ALIGN);
        }
        zones.retain(|zone| zone.bytes > ALIGN && zone.is_left(irregular));
        zones
    }

    pub(super) fn has(&self, one: &Irregular) -> bool {
        (self.first..=self.last).contains(&one.gap)
    }

    pub(super) fn of(self, irregular: &[Irregular]) -> impl Iterator<Item = &Irregular> {
        irregular.iter().filter(move |one| self.has(one))
    }

    /// The number of its first allocation.
    pub(super) fn begin(self, irregular: &[Irregular]) -> Option<u32> {
        self.of(irregular).map(|one| one.number).next()
    }

    /// The bytes that its arrays take if a room serves them.
    fn height(&self, irregular: &[Irregular]) -> u64 {
        let mut extents = Extents::default();
        let mut ends: Vec<(u32, u64, u64)> = Vec::new();
        for one in self.of(irregular).filter(|one| one.logged.upper != OUTLIVES) {
            ends.retain(|&(upper, offset, bytes)| {
                let is_alive = upper > one.number;
                if !is_alive {
                    extents.free(offset, bytes);
                }
                is_alive
            });
            if let Some(offset) = extents.take(one.logged.bytes) {
                ends.push((one.logged.upper, offset, one.logged.bytes));
            }
        }
        extents.high()
    }

    /// Whether most of its bytes are dropped before their entry ends.
    fn is_left(&self, irregular: &[Vec<Irregular>]) -> bool {
        let (mut all, mut outliving) = (0u64, 0u64);
        for one in irregular.iter().flat_map(|irregular| self.of(irregular)) {
            all = all.saturating_add(one.logged.bytes);
            outliving = outliving.saturating_add(if one.logged.upper == OUTLIVES { one.logged.bytes } else { 0 });
        }
        outliving <= all / OUTLIVING
    }
}
