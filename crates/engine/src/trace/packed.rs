//! An event as eight words of a ring. An allocation fills up to eight of them, and a free or an event of a scope fills three.

use super::event::{Action, ServedBy};

/// The words of an event: one line of the processor's cache.
pub(super) const WORDS: usize = 8;
/// The number of words of an event without a size.
const SHORT: usize = 3;
/// The number of words for a shape.
const SHAPE: usize = 3;
/// The most dimensions that fit there. Each then takes half a word.
const MOST_DIMS: usize = 2 * SHAPE;
const NO_SERVER: u64 = 15;
/// Scopes beyond this number have no number of their own.
pub(super) const MOST_SCOPES: u32 = (1 << 24) - 1;
/// The bits of a word that a stream has. The rest of the word is the number of a source line.
const STREAM_BITS: u32 = 40;
/// More source lines than this have no number.
pub(super) const MOST_SITES: u32 = (1 << (64 - STREAM_BITS)) - 1;

/// An event that has numbers instead of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Packed {
    /// Nanoseconds since the trace began.
    pub(super) time: u64,
    pub(super) action: Action,
    pub(super) served_by: Option<ServedBy>,
    /// 0 for none; otherwise the place in the trace's table, plus one.
    pub(super) dtype: u16,
    /// As `dtype`, in three bytes.
    pub(super) scope: u32,
    /// The lowest bits of the device's number, since two devices may have the same addresses.
    pub(super) device: u8,
    pub(super) address: u64,
    /// Only allocations, shortages and `Reserved` events have this field, the stream, the source line and the shape.
    pub(super) bytes: u64,
    /// Its last 40 bits.
    pub(super) stream: u64,
    /// The source line that allocated, as `dtype`, in three bytes.
    pub(super) site: u32,
    pub(super) shape: Shape,
}

/// The place of an array: its device and its address. Only one array has this place at a time.
pub(super) type Lies = (u8, u64);

/// Up to three dimensions, with a word for each, or up to six, with half a word for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    rank: u8,
    words: [u64; SHAPE],
}

impl Shape {
    #[inline(always)]
    pub(super) fn new(dims: &[usize]) -> Shape {
        match dims.len() {
            0..=SHAPE => Shape::wide(dims),
            _ if dims.len() <= MOST_DIMS && dims.iter().all(|dim| i32::try_from(*dim).is_ok()) => Shape::narrow(dims),
            _ => Shape::folded(dims),
        }
    }

    #[inline(always)]
    fn wide(dims: &[usize]) -> Shape {
        let words = match *dims {
            [] => [0; SHAPE],
            [one] => [one as u64, 0, 0],
            [one, two] => [one as u64, two as u64, 0],
            [one, two, three, ..] => [one as u64, two as u64, three as u64],
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

    /// Multiplies the first dimensions, which are usually those of a batch.
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
}

impl Packed {
    /// An event without content.
    pub(super) const BARE: Packed = Packed {
        time: 0,
        action: Action::Entered,
        served_by: None,
        dtype: 0,
        scope: 0,
        device: 0,
        address: 0,
        bytes: 0,
        stream: 0,
        site: 0,
        shape: Shape { rank: 0, words: [0; SHAPE] },
    };

    pub(super) fn lies(&self) -> Lies {
        (self.device, self.address)
    }

    /// How many words of the event have content.
    #[inline(always)]
    pub(super) fn length(action: Action) -> usize {
        match action {
            Action::Freed | Action::Entered | Action::Left => SHORT,
            Action::Allocated | Action::Short | Action::Reserved => WORDS,
        }
    }

    #[inline(always)]
    pub(super) fn words(&self) -> [u64; WORDS] {
        let served_by = self.served_by.map_or(NO_SERVER, |served_by| served_by as u64);
        let kinds = self.action as u64 | served_by << 4 | u64::from(self.shape.rank) << 8;
        let names = u64::from(self.dtype) << 16 | u64::from(self.scope) << 32 | u64::from(self.device) << 56;
        let [one, two, three] = self.shape.words;
        let stream = self.stream & ((1 << STREAM_BITS) - 1) | u64::from(self.site) << STREAM_BITS;
        [kinds | names, self.time, self.address, self.bytes, stream, one, two, three]
    }

    /// The event of these words; `None` if they are not an event.
    pub(super) fn of(words: [u64; WORDS]) -> Option<Packed> {
        let [first, time, address, bytes, stream, shape @ ..] = words;
        let action = *Action::ALL.get((first & 15) as usize)?;
        let event = Packed {
            time,
            action,
            served_by: ServedBy::ALL.get((first >> 4 & 15) as usize).copied(),
            dtype: (first >> 16) as u16,
            scope: (first >> 32) as u32 & MOST_SCOPES,
            device: (first >> 56) as u8,
            address,
            bytes,
            stream: stream & ((1 << STREAM_BITS) - 1),
            site: (stream >> STREAM_BITS) as u32,
            shape: Shape { rank: ((first >> 8) as u8).min(MOST_DIMS as u8), words: shape },
        };
        let is_long = Packed::length(action) == WORDS;
        Some(if is_long { event } else { Packed { bytes: 0, stream: 0, site: 0, shape: Shape::default(), ..event } })
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
    fn events_come_back() {
        let long = Packed {
            time: u64::MAX,
            action: Action::Allocated,
            served_by: Some(ServedBy::Device),
            dtype: 65535,
            scope: MOST_SCOPES,
            device: u8::MAX,
            address: u64::MAX,
            bytes: 1 << 63,
            stream: (1 << STREAM_BITS) - 1,
            site: MOST_SITES,
            shape: Shape::new(&[usize::MAX, 2, 3]),
        };
        let short = Packed { bytes: 0, stream: 0, site: 0, shape: Shape::default(), ..long };
        for event in [long, Packed { action: Action::Short, served_by: None, ..long }, Packed::BARE] {
            assert_eq!(Packed::of(event.words()), Some(event));
        }
        // The words behind a short event are those of an older event.
        assert_eq!(
            Packed::of(Packed { action: Action::Freed, ..long }.words()),
            Some(Packed { action: Action::Freed, ..short })
        );
        assert_eq!(Packed::of([15; WORDS]), None);
    }
}
