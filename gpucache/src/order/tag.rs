//! Names the streams whose work may still use a stretch of free memory: one and its epoch, several, or none.

use super::epochs::Epoch;

/// A slot in the upper bits and an epoch in the lower ones, so that of one slot the later epoch is the larger number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    Nobody,
    /// The stream in this slot, up to an epoch of it.
    One(usize, Epoch),
    /// Any stream, with whatever it freed.
    Several,
}

/// Bits of an epoch in a tag. A stream that ends an epoch every microsecond gets through them in twelve days, and 24 bits are left
/// for slots, of which there are as many as streams that work at once.
const EPOCH_BITS: u32 = 40;

impl Tag {
    /// No work uses it.
    pub(crate) const NOBODY: Tag = Tag(u64::MAX);
    /// Several streams' work may use parts of it.
    const SEVERAL: Tag = Tag(u64::MAX - 1);

    /// What the stream in `slot` used in `epoch`. Numbers that are too large for a tag are of several, which is safe.
    #[inline]
    pub(super) fn new(slot: usize, epoch: Epoch) -> Tag {
        let fits = (slot as u64) < (1 << (64 - EPOCH_BITS)) - 1 && epoch.0 < 1 << EPOCH_BITS;
        if fits { Tag((slot as u64) << EPOCH_BITS | epoch.0) } else { Tag::SEVERAL }
    }

    #[inline]
    pub(super) fn users(self) -> Users {
        match self {
            Tag::NOBODY => Users::Nobody,
            Tag::SEVERAL => Users::Several,
            Tag(tag) => Users::One((tag >> EPOCH_BITS) as usize, Epoch(tag & ((1 << EPOCH_BITS) - 1))),
        }
    }

    /// The tag of two stretches that become one; `None` if two streams used them: apart, each is its own stream's to use
    /// at once, and as one nobody's before both are done.
    #[inline]
    pub(crate) fn merge(self, other: Tag) -> Option<Tag> {
        match (self, other) {
            (Tag::NOBODY, tag) | (tag, Tag::NOBODY) => Some(tag),
            (a, b) if a.0 >> EPOCH_BITS == b.0 >> EPOCH_BITS => Some(Tag(a.0.max(b.0))),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EPOCH_BITS, Epoch, Tag, Users};

    #[test]
    fn merged_tags_forget_nobody() {
        let (a, later, b) = (Tag::new(0, Epoch(1)), Tag::new(0, Epoch(2)), Tag::new(1, Epoch(1)));
        assert_eq!(Tag::NOBODY.merge(a), Some(a));
        assert_eq!(a.merge(Tag::NOBODY), Some(a));
        assert_eq!(a.merge(a), Some(a));
        assert_eq!(a.merge(later), Some(later));
        assert_eq!(later.merge(a), Some(later));
        assert_eq!(a.merge(b), None);
        assert_eq!(Tag::SEVERAL.merge(a), None);
        assert_eq!(Tag::NOBODY.merge(Tag::NOBODY), Some(Tag::NOBODY));
        assert_eq!(Tag::NOBODY.merge(Tag::SEVERAL), Some(Tag::SEVERAL));
        assert_eq!(Tag::SEVERAL.merge(Tag::SEVERAL), Some(Tag::SEVERAL));
    }

    #[test]
    fn tags_tell_what_they_were_made_of() {
        let (slot, epoch) = ((1 << 24) - 2, Epoch((1 << EPOCH_BITS) - 1));
        assert_eq!(Tag::new(slot, epoch).users(), Users::One(slot, epoch));
        assert_eq!(Tag::new(0, Epoch(0)).users(), Users::One(0, Epoch(0)));
        assert_eq!(Tag::new(slot + 1, Epoch(1)).users(), Users::Several);
        assert_eq!(Tag::new(1, Epoch(epoch.0 + 1)).users(), Users::Several);
        assert_eq!(Tag::NOBODY.users(), Users::Nobody);
    }
}
