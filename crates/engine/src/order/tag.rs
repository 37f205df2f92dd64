//! What free memory may still be used by: work of one stream up to an epoch, of several streams, or of none that this crate
//! knows; and when it was freed, for work of which nobody tells.

use super::epochs::Epoch;
use super::unknown::FreeMoment;

/// Who may still use a stretch of free memory, and when it was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// A slot in the upper bits and an epoch in the lower ones, so that of one slot the later epoch is the larger number.
    users: u64,
    freed: FreeMoment,
}

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

/// The users of memory that nobody uses. No slot and epoch make this number, nor the next one.
const NOBODY: u64 = u64::MAX;
/// The users of memory that any stream may use.
const SEVERAL: u64 = u64::MAX - 1;

impl Tag {
    /// No work uses it, nor ever did.
    pub(crate) const NOBODY: Tag = Tag { users: NOBODY, freed: FreeMoment::FIRST };

    /// What the stream in `slot` used in `epoch`. Numbers that are too large for a tag are of several, which is safe.
    #[inline]
    pub(super) fn new(slot: usize, epoch: Epoch) -> Tag {
        let fits = (slot as u64) < (1 << (64 - EPOCH_BITS)) - 1 && epoch.0 < 1 << EPOCH_BITS;
        Tag { users: if fits { (slot as u64) << EPOCH_BITS | epoch.0 } else { SEVERAL }, freed: FreeMoment::FIRST }
    }

    /// The same, of memory that is freed at this moment.
    #[inline]
    pub(super) fn at(self, freed: FreeMoment) -> Tag {
        Tag { freed, ..self }
    }

    #[inline]
    pub(super) fn users(self) -> Users {
        match self.users {
            NOBODY => Users::Nobody,
            SEVERAL => Users::Several,
            users => Users::One((users >> EPOCH_BITS) as usize, Epoch(users & ((1 << EPOCH_BITS) - 1))),
        }
    }

    /// Whether no stream's work uses it.
    #[inline]
    pub(crate) fn has_no_users(self) -> bool {
        self.users == NOBODY
    }

    /// The same once the work of its users is done.
    pub(crate) fn without_users(self) -> Tag {
        Tag { users: NOBODY, ..self }
    }

    /// When the memory was freed, or the part of it that was freed last.
    #[inline]
    pub(crate) fn freed(self) -> FreeMoment {
        self.freed
    }

    /// The tag of two stretches that become one; `None` if two streams used them: apart, each is its own stream's to use
    /// at once, and as one nobody's before both are done.
    #[inline]
    pub(crate) fn merge(self, other: Tag) -> Option<Tag> {
        let users = match (self.users, other.users) {
            (NOBODY, users) | (users, NOBODY) => users,
            (a, b) if a >> EPOCH_BITS == b >> EPOCH_BITS => a.max(b),
            _ => return None,
        };
        Some(Tag { users, freed: self.freed.max(other.freed) })
    }
}

#[cfg(test)]
mod tests {
    use super::{EPOCH_BITS, Epoch, FreeMoment, SEVERAL, Tag, Users};

    #[test]
    fn merged_tags_forget_nobody() {
        let (a, later, b) = (Tag::new(0, Epoch(1)), Tag::new(0, Epoch(2)), Tag::new(1, Epoch(1)));
        let several = Tag { users: SEVERAL, freed: FreeMoment::FIRST };
        assert_eq!(Tag::NOBODY.merge(a), Some(a));
        assert_eq!(a.merge(Tag::NOBODY), Some(a));
        assert_eq!(a.merge(a), Some(a));
        assert_eq!(a.merge(later), Some(later));
        assert_eq!(later.merge(a), Some(later));
        assert_eq!(a.merge(b), None);
        assert_eq!(several.merge(a), None);
        assert_eq!(Tag::NOBODY.merge(Tag::NOBODY), Some(Tag::NOBODY));
        assert_eq!(Tag::NOBODY.merge(several), Some(several));
        assert_eq!(several.merge(several), Some(several));
    }

    #[test]
    fn merged_tags_were_freed_when_the_last_part_was() {
        let (first, last) = (Tag::NOBODY, Tag::new(0, Epoch(1)).at(FreeMoment::LAST));
        assert_eq!(first.merge(last), Some(last));
        assert_eq!(last.merge(Tag::new(0, Epoch(2))).map(Tag::freed), Some(FreeMoment::LAST));
        let idle = last.without_users();
        assert!(idle.has_no_users() && idle.freed() == FreeMoment::LAST && !last.has_no_users());
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
