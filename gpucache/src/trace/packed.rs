//! An event as the eight words that it takes in a ring: one line of the processor's cache.

use super::event::{Action, ServedBy};

pub(super) const WORDS: usize = 8;

/// Words that are left for a shape.
const SHAPE: usize = 3;
/// Dimensions that have room there if each fits half a word.
const MOST_DIMS: usize = 2 * SHAPE;
const NO_SERVER: u64 = 15;
/// More scopes than this have no number.
pub(super) const MOST_SCOPES: u32 = (1 << 24) - 1;

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
    /// The last byte of the device's number, as two devices may have the same addresses.
    pub(super) device: u8,
    pub(super) address: u64,
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
            _ if dims.len() <= MOST_DIMS && dims.iter().all(|dim| u32::try_from(*dim).is_ok()) => Shape::narrow(dims),
            _ => Shape::folded(dims),
        }
    }

    #[inline(always)]
    fn wide(dims: &[usize]) -> Shape {
        let word = |place: usize| dims.get(place).map_or(0, |dim| *dim as u64);
        Shape { rank: dims.len() as u8, words: [word(0), word(1), word(2)] }
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
}

impl Packed {
    pub(super) fn place(&self) -> Place {
        Place { device: self.device, address: self.address }
    }

    #[inline(always)]
    pub(super) fn words(&self) -> [u64; WORDS] {
        let served_by = self.served_by.map_or(NO_SERVER, |served_by| served_by as u64);
        let kinds = self.action as u64 | served_by << 4 | u64::from(self.shape.rank) << 8;
        let names = u64::from(self.dtype) << 16 | u64::from(self.scope) << 32 | u64::from(self.device) << 56;
        let [one, two, three] = self.shape.words;
        [self.time, kinds | names, self.address, self.bytes, self.stream, one, two, three]
    }

    /// The event that these words mean, if they mean one.
    pub(super) fn of(words: [u64; WORDS]) -> Option<Packed> {
        let [time, kinds, address, bytes, stream, one, two, three] = words;
        Some(Packed {
            time,
            action: *Action::ALL.get((kinds & 15) as usize)?,
            served_by: ServedBy::ALL.get((kinds >> 4 & 15) as usize).copied(),
            dtype: (kinds >> 16) as u16,
            scope: (kinds >> 32) as u32 & MOST_SCOPES,
            device: (kinds >> 56) as u8,
            address,
            bytes,
            stream,
            shape: Shape { rank: ((kinds >> 8 & 255) as u8).min(MOST_DIMS as u8), words: [one, two, three] },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_come_back() {
        let same: [&[usize]; 6] =
            [&[], &[7], &[1 << 40, 2, 3], &[1, 2, 3, 4], &[9; 6], &[0, 5, u32::MAX as usize, 1, 2]];
        for dims in same {
            assert_eq!(Shape::new(dims).dims(), dims);
        }
        assert_eq!(Shape::new(&[2, 3, 4, 5, 6, 7, 8]).dims(), [720, 7, 8]);
        assert_eq!(Shape::new(&[1 << 33, 3, 4, 5]).dims(), [3 << 33, 4, 5]);
    }

    #[test]
    fn events_come_back() {
        for (action, served_by) in [(Action::Allocated, Some(ServedBy::Device)), (Action::Short, None)] {
            let shape = Shape::new(&[2, 3, 4, 5]);
            let (time, address, bytes, stream) = (u64::MAX, 3 << 40, 1 << 50, 77);
            let event = Packed {
                time,
                action,
                served_by,
                dtype: 65535,
                scope: MOST_SCOPES,
                device: 255,
                address,
                bytes,
                stream,
                shape,
            };
            let back = Packed::of(event.words()).unwrap();
            assert_eq!(format!("{back:?}"), format!("{event:?}"));
        }
        assert!(Packed::of([0, 9, 0, 0, 0, 0, 0, 0]).is_none());
    }
}
