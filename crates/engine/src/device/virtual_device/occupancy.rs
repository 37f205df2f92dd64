//! The addresses of a virtual device that are taken: pages, plain allocations, and blocks in use.
//!
//! As long as possible, a plain allocation gets addresses that no allocation had before. A program that uses an array after its drop then
//! fails sooner. After that, the shortest free stretch that fits is used. So an allocation fails for lack of addresses only if they are
//! really used up, and a dry run of huge arrays may last any time.

use std::collections::BTreeMap;
use std::ops::Range;

use super::ALIGNMENT;

/// The first address of pages. It is far above the first addresses of plain allocations.
const FIRST_ADDRESS: u64 = 1 << 48;
/// The length of the addresses for pages: 256 TiB, as a processor with 48-bit addresses has. This is far more than any capacity worth a dry
/// run.
const ADDRESSES: u64 = 1 << 48;

/// The addresses for pages. A plain allocation lies there only if all other addresses are taken.
pub(super) const SPAN: Range<u64> = FIRST_ADDRESS..FIRST_ADDRESS + ADDRESSES;
/// The first address of plain allocations, which is not 0.
const BEGIN: u64 = ALIGNMENT;
/// Behind all addresses that an aligned end can have.
const END: u64 = u64::MAX - (ALIGNMENT - 1);

/// The mapped and used addresses. Invariant: pieces in `mapped` and `plain` do not overlap.
#[derive(Debug)]
pub(super) struct Occupancy {
    /// Mapped pages: address to bytes.
    pub(super) mapped: BTreeMap<u64, u64>,
    pub(super) mapped_bytes: u64,
    /// Blocks in use: address to bytes.
    pub(super) busy: BTreeMap<u64, u64>,
    /// Plain allocations: address to bytes.
    plain: BTreeMap<u64, u64>,
    pub(super) plain_bytes: u64,
    /// A free stretch. The next plain allocation lies at its end if it fits.
    fresh: Range<u64>,
}

impl Default for Occupancy {
    fn default() -> Occupancy {
        let (mapped, busy, plain) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Occupancy { mapped, mapped_bytes: 0, busy, plain, plain_bytes: 0, fresh: BEGIN..SPAN.start }
    }
}

impl Occupancy {
    /// How many bytes are taken.
    pub(super) fn taken(&self) -> u64 {
        self.mapped_bytes.saturating_add(self.plain_bytes)
    }

    /// The address of a new plain allocation; `None` if no free stretch is long enough.
    pub(super) fn allocate(&mut self, bytes: u64) -> Option<u64> {
        let length = bytes.max(1).checked_next_multiple_of(ALIGNMENT)?;
        if length_of(&self.fresh) < length {
            let beside_pages = self.shortest(length, std::iter::once(SPAN));
            self.fresh = beside_pages.or_else(|| {
                let found = self.shortest(length, self.mapped.iter().map(stretch_of))?;
                // No longer than needed, since pages may be mapped into the rest.
                Some(found.start..found.start + length)
            })?;
        }
        self.fresh.end -= length;
        self.plain.insert(self.fresh.end, bytes);
        self.plain_bytes += bytes;
        Some(self.fresh.end)
    }

    /// Frees a plain allocation. Returns whether it existed.
    pub(super) fn free(&mut self, address: u64, bytes: u64) -> bool {
        let is_there = self.plain.get(&address) == Some(&bytes);
        if is_there {
            self.plain.remove(&address);
            self.plain_bytes -= bytes;
        }
        is_there
    }

    /// Whether a plain allocation overlaps `[address, address + bytes)`.
    pub(super) fn is_plain(&self, address: u64, bytes: u64) -> bool {
        overlaps(&self.plain, address, bytes)
    }

    /// Whether all of `[address, address + bytes)` has memory behind it.
    pub(super) fn is_backed(&self, address: u64, bytes: u64) -> bool {
        covers(&self.mapped, address, bytes) || covers(&self.plain, address, bytes)
    }

    /// The shortest free stretch of at least `length`, between plain allocations and `others`.
    fn shortest(&self, length: u64, others: impl Iterator<Item = Range<u64>>) -> Option<Range<u64>> {
        let mut taken: Vec<Range<u64>> = self.plain.iter().map(stretch_of).chain(others).collect();
        taken.sort_unstable_by_key(|stretch| stretch.start);
        taken.push(END..END);
        let mut end = BEGIN;
        let free = taken.into_iter().map(|stretch| {
            let behind = stretch.end.next_multiple_of(ALIGNMENT).max(end);
            std::mem::replace(&mut end, behind)..stretch.start
        });
        free.filter(|stretch| length_of(stretch) >= length).min_by_key(length_of)
    }
}

/// A piece ends within the addresses, so the sum does not overflow.
fn stretch_of((&address, &bytes): (&u64, &u64)) -> Range<u64> {
    address..address + bytes.max(1)
}

fn length_of(stretch: &Range<u64>) -> u64 {
    stretch.end.saturating_sub(stretch.start)
}

/// Whether a piece of `pieces` overlaps `[address, address + bytes)`.
pub(super) fn overlaps(pieces: &BTreeMap<u64, u64>, address: u64, bytes: u64) -> bool {
    let end = address.saturating_add(bytes);
    pieces.range(..end).next_back().is_some_and(|(start, length)| start.saturating_add(*length) > address)
}

/// Whether `pieces` cover all of `[address, address + bytes)`. They may touch each other.
fn covers(pieces: &BTreeMap<u64, u64>, address: u64, bytes: u64) -> bool {
    let (mut at, end) = (address, address.saturating_add(bytes));
    while at < end {
        match pieces.range(..=at).next_back().map(|(start, length)| start.saturating_add(*length)) {
            Some(end) if end > at => at = end,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_new_as_long_as_there_are_such() {
        let mut occupancy = Occupancy::default();
        let mut last = u64::MAX;
        for _ in 0..1000 {
            let address = occupancy.allocate(1000).unwrap();
            assert!(address < last && occupancy.free(address, 1000));
            last = address;
        }
    }

    #[test]
    fn huge_allocations_find_addresses_for_ever() {
        let mut occupancy = Occupancy::default();
        let small = occupancy.allocate(10).unwrap();
        for number in 0..10_000 {
            let bytes = (1 << 62) - 1000 * (number % 7);
            let three = [(); 3].map(|()| occupancy.allocate(bytes).unwrap());
            assert!(
                three.iter().all(|address| address % ALIGNMENT == 0 && !overlaps(&occupancy.mapped, *address, bytes))
            );
            assert!(three.windows(2).all(|two| two[0].abs_diff(two[1]) >= bytes));
            assert!(three.iter().all(|address| occupancy.free(*address, bytes)));
        }
        assert!(occupancy.free(small, 10) && occupancy.plain_bytes == 0);
    }

    #[test]
    fn a_freed_stretch_serves_again_beside_what_is_alive() {
        let mut occupancy = Occupancy::default();
        let all = [(); 7].map(|()| occupancy.allocate(1 << 61).unwrap());
        assert_eq!(occupancy.allocate(1 << 61), None);
        assert!(occupancy.free(all[3], 1 << 61));
        assert_eq!(occupancy.allocate(1 << 61), Some(all[3]));
    }

    #[test]
    fn the_addresses_of_pages_serve_last_and_where_no_pages_are() {
        let mut occupancy = Occupancy::default();
        occupancy.mapped.insert(SPAN.start, 1 << 21);
        let rest = [1 << 48, (1 << 62) + (1 << 48), 1 << 62, 1 << 62, 1 << 61].map(|bytes| occupancy.allocate(bytes));
        assert!(rest.iter().flatten().all(|address| !SPAN.contains(address)));
        let mut within = 0;
        while let Some(address) = occupancy.allocate(1 << 47) {
            within += u32::from(SPAN.contains(&address));
            assert!(!overlaps(&occupancy.mapped, address, 1 << 47));
        }
        assert!(within > 0);
    }

    #[test]
    fn all_there_is_serves() {
        let mut occupancy = Occupancy::default();
        for _ in 0..3 {
            let sizes = [0, 1, 2, 3].map(|number| (1 << 62) - 1000 * number);
            let all = sizes.map(|bytes| occupancy.allocate(bytes).unwrap());
            assert!(all.into_iter().zip(sizes).all(|(address, bytes)| occupancy.free(address, bytes)));
        }
    }
}
