//! An event as the few words that it takes in a ring: three, or five and its shape.
//!
//! Invariant: the first word of an event alone has the highest bit, so that events are found among words.

use super::event::{Action, ServedBy};

/// The most words of an event: one line of the processor's cache.
pub(super) const MOST_WORDS: usize = 8;
/// Words of one that is no allocation.
const SHORT: usize = 3;

/// Words that are left for a shape.
const SHAPE: usize = 3;
/// Dimensions that have room there if each fits half a word.
const MOST_DIMS: usize = 2 * SHAPE;
const NO_SERVER: u64 = 15;
/// More scopes than this have no number.
pub(super) const MOST_SCOPES: u32 = (1 << 24) - 1;
/// The bit of a first word.
const FIRST: u64 = 1 << 63;
/// Where a first word has that bit of the address and of the bytes, which a virtual device may have so large: two that a rank leaves.
const HIGH_ADDRESS: u32 = 15;
const HIGH_BYTES: u32 = 14;
const RANK: u64 = 63;
/// What a device's number is cut to, as seven bits are left for it.
pub(super) const DEVICES: u8 = 127;

/// An event with names by number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packed {
    /// Nanoseconds since the trace began.
    pub(super) time: u64,
    pub(super) action: Action,
    pub(super) served_by: Option<ServedBy>,
    /// 0 for none; else one more than the place in the trace's table.
    pub(super) dtype: u16,
    /// As `dtype`, in three bytes.
    pub(super) scope: u32,
    /// The last bits of the device's number, as two devices may have the same addresses.
    pub(super) device: u8,
    pub(super) address: u64,
    /// This, the stream and the shape are told of allocations and shortages alone.
    pub(super) bytes: u64,
    pub(super) stream: u64,
    pub(super) shape: Shape,
}

/// Where an array lies: in use by one at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    device: u8,
    address: u64,
}

/// Up to three dimensions in a word each, or up to six in half a word each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    rank: u8,
    words: [u64; SHAPE],
}

impl Shape {
    /// Of what has none.
    pub(super) const NONE: Shape = Shape { rank: 0, words: [0; SHAPE] };

    #[inline(always)]
    pub(super) fn new(dims: &[usize]) -> Shape {
        match dims.len() {
            0..=SHAPE => Shape::wide(dims),
            _ if dims.len() <= MOST_DIMS && dims.iter().all(|dim| i32::try_from(*dim).is_ok()) => Shape::narrow(dims),
            _ => Shape::folded(dims),
        }
    }

    /// A dimension without the highest bit: none that has it is of an array.
    #[inline(always)]
    fn wide(dims: &[usize]) -> Shape {
        let word = |dim: &usize| *dim as u64 & !FIRST;
        let words = match dims {
            [] => [0; SHAPE],
            [one] => [word(one), 0, 0],
            [one, two] => [word(one), word(two), 0],
            [one, two, three, ..] => [word(one), word(two), word(three)],
        };
        Shape { rank: dims.len() as u8, words }
    }

    #[inline(never)]
    fn narrow(dims: &[usize]) -> Shape {
        let mut words = [0; SHAPE];
        for (place, dim) in dims.iter().enumerate() {
            words[place / 2] |= (*dim as u64) << (32 * (place % 2));
        }
        Shape { rank: dims.len() as u8, words }
    }

    /// With the first dimensions multiplied, which are those of a batch.
    #[cold]
    fn folded(dims: &[usize]) -> Shape {
        let (first, last) = dims.split_at(dims.len() - (SHAPE - 1));
        let first = first.iter().fold(1usize, |product, dim| product.saturating_mul(*dim));
        Shape::wide(&[&[first], last].concat())
    }

    pub(super) fn dims(&self) -> Vec<usize> {
        let rank = usize::from(self.rank);
        let wide = |place: usize| self.words[place];
        let narrow = |place: usize| (self.words[place / 2] >> (32 * (place % 2))) & u64::from(u32::MAX);
        (0..rank).map(|place| if rank <= SHAPE { wide(place) } else { narrow(place) } as usize).collect()
    }

    /// Words that are needed of it.
    #[inline(always)]
    fn used(&self) -> usize {
        usize::from(self.rank).min(SHAPE)
    }
}

/// The words of an event. What lies behind its length means nothing.
pub(super) struct Words<const N: usize> {
    pub(super) words: [u64; N],
    pub(super) length: usize,
}

impl Packed {
    pub(super) fn place(&self) -> Place {
        Place { device: self.device, address: self.address }
    }

    #[inline(always)]
    fn first(&self) -> u64 {
        let served_by = self.served_by.map_or(NO_SERVER, |served_by| served_by as u64);
        let kinds = self.action as u64 | served_by << 4 | u64::from(self.shape.rank) << 8;
        let device = u64::from(self.device & DEVICES) << 56;
        let high = self.address >> 63 << HIGH_ADDRESS | self.bytes >> 63 << HIGH_BYTES;
        FIRST | kinds | high | u64::from(self.dtype) << 16 | u64::from(self.scope) << 32 | device
    }

    /// Of what is no allocation, nor a shortage.
    #[inline(always)]
    pub(super) fn short(&self) -> Words<SHORT> {
        Words { words: [self.first(), self.time, self.address & !FIRST], length: SHORT }
    }

    #[inline(always)]
    pub(super) fn long(&self) -> Words<MOST_WORDS> {
        let [one, two, three] = self.shape.words;
        let (address, bytes) = (self.address & !FIRST, self.bytes & !FIRST);
        let words = [self.first(), self.time, address, bytes, self.stream, one, two, three];
        Words { words, length: MOST_WORDS - SHAPE + self.shape.used() }
    }

    /// The first event among these words, and the words behind it.
    pub(super) fn next(words: &[u64]) -> Option<(Packed, &[u64])> {
        let words = &words[words.iter().position(|word| word & FIRST != 0)?..];
        let behind = words[1..].iter().position(|word| word & FIRST != 0).map_or(words.len(), |place| place + 1);
        let word = |place: usize| words[..behind].get(place).copied().unwrap_or(0);
        let first = word(0);
        let event = Packed {
            time: word(1),
            action: *Action::ALL.get((first & 15) as usize)?,
            served_by: ServedBy::ALL.get((first >> 4 & 15) as usize).copied(),
            dtype: (first >> 16) as u16,
            scope: (first >> 32) as u32 & MOST_SCOPES,
            device: (first >> 56) as u8 & DEVICES,
            address: word(2) | (first >> HIGH_ADDRESS) << 63,
            bytes: word(3) | (first >> HIGH_BYTES) << 63,
            stream: word(4),
            shape: Shape { rank: ((first >> 8 & RANK) as u8).min(MOST_DIMS as u8), words: [word(5), word(6), word(7)] },
        };
        Some((event, &words[behind..]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_come_back() {
        let same: [&[usize]; 6] =
            [&[], &[7], &[1 << 40, 2, 3], &[1, 2, 3, 4], &[9; 6], &[0, 5, i32::MAX as usize, 1, 2]];
        for dims in same {
            assert_eq!(Shape::new(dims).dims(), dims);
        }
        assert_eq!(Shape::new(&[2, 3, 4, 5, 6, 7, 8]).dims(), [720, 7, 8]);
        assert_eq!(Shape::new(&[1 << 33, 3, 4, 5]).dims(), [3 << 33, 4, 5]);
        assert_eq!(Shape::new(&[1 << 31, 3, 4, 5]).dims(), [3 << 31, 4, 5]);
    }

    #[test]
    fn events_come_back_one_after_the_other() {
        let long = |dims: &[usize], served_by: Option<ServedBy>| Packed {
            time: u64::MAX >> 1,
            action: if served_by.is_some() { Action::Allocated } else { Action::Short },
            served_by,
            dtype: 65535,
            scope: MOST_SCOPES,
            device: DEVICES,
            address: 3 << 40,
            bytes: 1 << 50,
            stream: 77,
            shape: Shape::new(dims),
        };
        let of_scope = Packed { action: Action::Left, bytes: 0, stream: 0, ..long(&[], Some(ServedBy::Plan)) };
        let huge = Packed { address: u64::MAX, bytes: 1 << 63, ..long(&[1; 6], Some(ServedBy::Device)) };
        let some = [long(&[2, 3, 4, 5], Some(ServedBy::Device)), long(&[usize::MAX, 2], None), long(&[], None), huge];
        let mut words = vec![0, 5]; // what is left of an event that was overwritten
        for event in &some {
            let Words { words: all, length } = event.long();
            words.extend(&all[..length]);
            words.extend(of_scope.short().words);
        }
        let (mut rest, mut back) = (&words[..], Vec::new());
        while let Some((event, behind)) = Packed::next(rest) {
            back.push(format!("{event:?}"));
            rest = behind;
        }
        let expected = some.iter().flat_map(|event| [format!("{event:?}"), format!("{of_scope:?}")]);
        assert!(back.iter().eq(&expected.collect::<Vec<_>>()), "{back:#?}");
    }
}
