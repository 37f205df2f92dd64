//! Where each window of the last allocations came before: a table of fixed size, which forgets the oldest windows.

use hashbrown::HashMap;

/// Adds the drop of an array of this age to a token. A token stands for the arrays that were dropped between two allocations: it is the sum
/// of hashes of their ages, which does not depend on the order of drops, and 0 if there were none.
#[inline]
pub(super) fn with_drop(token: u32, age: u32) -> u32 {
    let hash = age.wrapping_add(1).wrapping_mul(0x9E37_79B9) ^ age >> 7;
    token.wrapping_add(hash)
}

/// The allocations in a window. Shorter windows come by chance, and longer ones are longer in coming.
pub(super) const WINDOW: usize = 8;
/// The number of windows that the table remembers, as a power of two. 32 KiB stay in the processor's first-level cache.
const SLOTS: u32 = 12;
/// The windows of one known loop that the table holds, at most, so that several loops leave room for new windows.
const KNOWN: usize = 64;

/// A random odd number: the golden ratio, as is usual for multiplicative hashes.
const MIX: u64 = 0x9E37_79B9_7F4A_7C15;
/// Windows of a loop, and the position in the loop's iteration at which each of them ends.
#[derive(Clone, Debug, Default)]
pub struct Known(Vec<(u64, u32)>);

/// The table, and hashes of the last window: one by sizes and drops, and one by drops alone, which stays if all sizes change. Each is a
/// polynomial in [`MIX`].
#[derive(Debug, Default)]
pub(super) struct Windows {
    by_size: u64,
    by_drops: u64,
    /// The allocations of the window: the drops in the lower half of the bits, and the size's class in the upper one.
    last: [u64; WINDOW],
    /// The lower half of each window's hash, and a value: 0 if the slot is empty. A known window has the highest bit, and another one the
    /// number of its last allocation plus one. The table is empty until the first window is noted: many entries have no window at all, and
    /// it takes 32 KiB.
    slots: Vec<(u32, u32)>,
}

/// The power of two of a size, in halves of an octave: a size that grows by steps seldom leaves its class.
fn class(bytes: u64) -> u64 {
    let power = (bytes | 1).ilog2();
    let half = bytes >> power.saturating_sub(1) & 1;
    2 * u64::from(power) + half
}

const IS_KNOWN: u32 = 1 << 31;
/// A known window has its loop's number in the bits from this one on. An entry that is logged is shorter.
const POSITION_BITS: u32 = 24;

/// `MIX` to the power of the window's length: the factor of the number that leaves.
const LEAVING: u64 = {
    let (mut power, mut left) = (1u64, WINDOW);
    while left > 0 {
        power = power.wrapping_mul(MIX);
        left -= 1;
    }
    power
};

/// The hash of a window from the one before, the number that comes, and the number that leaves.
#[inline]
fn rolled(hash: u64, coming: u64, leaving: u64) -> u64 {
    hash.wrapping_mul(MIX).wrapping_add(coming).wrapping_sub(leaving.wrapping_mul(LEAVING))
}

impl Windows {
    /// Forgets all windows but these.
    pub(super) fn begin<'k>(&mut self, known: impl Iterator<Item = (u32, &'k Known)>) {
        let mut slots = std::mem::take(&mut self.slots);
        slots.clear();
        *self = Windows { slots, ..Windows::default() };
        for (place, Known(windows)) in known {
            for &(hash, position) in windows {
                *self.slot(hash) = (hash as u32, IS_KNOWN | place << POSITION_BITS | position);
            }
        }
    }

    #[inline]
    fn slot(&mut self, hash: u64) -> &mut (u32, u32) {
        if self.slots.is_empty() {
            self.make_slots();
        }
        &mut self.slots[slot_of(hash)]
    }

    #[cold]
    fn make_slots(&mut self) {
        self.slots.resize(1 << SLOTS, (0, 0));
    }

    /// Moves the window on by an allocation of so many bytes, whose number is `number`. Returns the values of its slots if the window came
    /// before, by sizes and by drops; 0 stands for none.
    #[inline]
    pub(super) fn push(&mut self, bytes: u64, token: u32, number: u32) -> [u32; 2] {
        let hashes = self.advance(bytes, token, number as usize);
        // The first numbers are no whole window.
        if (number as usize) < WINDOW - 1 {
            return [0; 2];
        }
        hashes.map(|hash| hash.map_or(0, |hash| self.note(hash, number)))
    }

    /// Notes a window. Returns the value of its slot if the window came before, and 0 otherwise.
    #[inline]
    fn note(&mut self, hash: u64, number: u32) -> u32 {
        let slot = self.slot(hash);
        let (tag, value) = *slot;
        if value & IS_KNOWN == 0 {
            *slot = (hash as u32, number + 1);
        }
        if tag == hash as u32 { value } else { 0 }
    }

    /// The hashes of the next window, if it has any.
    #[inline]
    fn advance(&mut self, bytes: u64, token: u32, number: usize) -> [Option<u64>; 2] {
        let coming = u64::from(token) | class(bytes) << u32::BITS;
        let leaving = std::mem::replace(&mut self.last[number % WINDOW], coming);
        let drops = |number| number & u64::from(u32::MAX);
        self.by_size = rolled(self.by_size, coming, leaving);
        self.by_drops = rolled(self.by_drops, drops(coming), drops(leaving));
        // The windows of both kinds share a table. Their hashes differ by a constant, so none is taken for one of the other kind.
        // A window without drops has no second hash, which would be that of any other.
        [Some(spread(self.by_size)), (self.by_drops != 0).then(|| spread(!self.by_drops))]
    }
}

/// The number of the loop and the position in its iteration, if the value of a slot is that of a known window.
pub(super) fn known_place(value: u32) -> Option<(u32, u32)> {
    let value = value.checked_sub(IS_KNOWN)?;
    Some((value >> POSITION_BITS, value & ((1 << POSITION_BITS) - 1)))
}

impl Known {
    /// Whether it has no window.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The windows that came at the same position of the last two iterations, of `length` allocations each, and nowhere else in them: the
    /// first ones and some of the others. Where sizes change, parts of an iteration that differ by sizes alone look alike now and then.
    pub(super) fn of(allocations: impl ExactSizeIterator<Item = (u64, u32)>, length: usize) -> Known {
        let (mut windows, first) = (Windows::default(), allocations.len().saturating_sub(length.saturating_mul(2)));
        // For each window, the position of the first one, and how many came there and elsewhere.
        let mut ends: HashMap<u64, (usize, u32, u32)> = HashMap::new();
        for (number, (bytes, token)) in allocations.enumerate() {
            let hashes = windows.advance(bytes, token, number);
            if let Some(place) = number.checked_sub(first).filter(|_| number + 1 >= WINDOW) {
                // An iteration without allocations has no windows.
                let Some(position) = place.checked_rem(length) else { break };
                for hash in hashes.into_iter().flatten() {
                    let (known, here, elsewhere) = ends.entry(hash).or_insert((position, 0, 0));
                    *(if *known == position { here } else { elsewhere }) += 1;
                }
            }
        }
        let clear = ends.into_iter().filter(|&(_, (_, here, elsewhere))| (here, elsewhere) == (2, 0));
        let mut once: Vec<(u64, u32)> = clear.map(|(hash, (position, ..))| (hash, position as u32)).collect();
        once.sort_unstable_by_key(|&(hash, position)| (position, hash));
        let stride = (once.len() / (KNOWN / 2)).max(1);
        let is_kept = |index: usize| index < KNOWN / 2 || index.is_multiple_of(stride);
        Known(once.into_iter().enumerate().filter(|&(index, _)| is_kept(index)).map(|(_, window)| window).collect())
    }
}

/// The hash whose high bits depend on all bits of a polynomial, for the table.
#[inline]
fn spread(hash: u64) -> u64 {
    (hash ^ hash >> 32).wrapping_mul(MIX)
}

fn slot_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SLOTS)) as usize
}
