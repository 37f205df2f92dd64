//! Tags of free memory. A tag says whose work may still use the memory: that of one stream up to an epoch, of several streams, or of no
//! known stream. It also says when the memory was freed, for work on unknown streams.

use super::epochs::Epoch;
use super::unknown::FreeMoment;

/// The work that may still use a stretch of free memory, and when the stretch was freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Whether the memory is reserved in the highest bit, then the slot, and the epoch in the lower bits. So for one slot, the later epoch is
    /// the larger number.
    users: u64,
    freed: FreeMoment,
}

/// The users that a tag names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Users {
    Nobody,
    /// The stream in this slot, up to this epoch.
    One(usize, Epoch),
    /// Any stream, with all memory that it freed.
    Several,
}

/// The bits of an epoch in a tag. A stream that ends an epoch every microsecond needs twelve days to use them up. Of the other bits, 23 are
/// for slots; there are as many slots as streams that work at the same time.
const EPOCH_BITS: u32 = 40;
/// The bit of memory that only the stream in the slot may use, whatever work is done.
const RESERVED: u64 = 1 << 63;

/// The number for memory that nobody uses. No slot and epoch yield this number or the one below it.
const NOBODY: u64 = u64::MAX;
/// The number for memory that any stream may still use.
const SEVERAL: u64 = u64::MAX - 1;

impl Tag {
    /// No stream's work uses the memory, or ever did.
    pub(crate) const NOBODY: Tag = Tag { users: NOBODY, freed: FreeMoment::FIRST };

    /// The tag of memory that the stream in `slot` used in `epoch`, and that was freed then. If a number is too large for a tag, the tag
    /// names several streams, which is safe.
    #[inline]
    pub(super) fn new(slot: usize, epoch: Epoch, is_reserved: bool, freed: FreeMoment) -> Tag {
        let fits = (slot as u64) < (1 << (63 - EPOCH_BITS)) - 1 && epoch.0 < 1 << EPOCH_BITS;
        let reserved = if is_reserved { RESERVED } else { 0 };
        Tag { users: if fits { reserved | (slot as u64) << EPOCH_BITS | epoch.0 } else { SEVERAL }, freed }
    }

    #[inline]
    pub(super) fn users(self) -> Users {
        match self.users {
            NOBODY => Users::Nobody,
            SEVERAL => Users::Several,
            users => Users::One(((users & !RESERVED) >> EPOCH_BITS) as usize, Epoch(users & ((1 << EPOCH_BITS) - 1))),
        }
    }

    /// The slot of the stream that freed the memory, if no other stream uses it.
    #[inline]
    pub(crate) fn owner(self) -> Option<usize> {
        if let Users::One(slot, _) = self.users() { Some(slot) } else { None }
    }

    /// Whether no stream's work uses the memory.
    #[inline]
    pub(crate) fn has_no_users(self) -> bool {
        self.users == NOBODY
    }

    /// The same tag once the work of its users is done.
    pub(crate) fn without_users(self) -> Tag {
        Tag { users: NOBODY, ..self }
    }

    /// When the memory was freed: the moment of the part that was freed last.
    #[inline]
    pub(crate) fn freed(self) -> FreeMoment {
        self.freed
    }

    /// The tag of two stretches that are joined. `None` if two streams used them: separately, each stream may use its own stretch at once,
    /// but nobody could use the joined stretch before the work of both is done. Reserved memory joins only memory that its stream freed in
    /// the same epoch, since the joined stretch would be reserved: a stream that ended may have freed the memory of earlier epochs.
    #[inline]
    pub(crate) fn merge(self, other: Tag) -> Option<Tag> {
        let users = match (self.users, other.users) {
            (NOBODY, users) | (users, NOBODY) if users >= SEVERAL || users & RESERVED == 0 => users,
            (a, b) if a == b || a & RESERVED == 0 && a >> EPOCH_BITS == b >> EPOCH_BITS => a.max(b),
            _ => return None,
        };
        Some(Tag { users, freed: self.freed.max(other.freed) })
    }
}

#[cfg(test)]
mod tests {
    use super::{EPOCH_BITS, Epoch, FreeMoment, SEVERAL, Tag, Users};

    fn used(slot: usize, epoch: u64) -> Tag {
        Tag::new(slot, Epoch(epoch), false, FreeMoment::FIRST)
    }

    fn reserved(slot: usize, epoch: u64) -> Tag {
        Tag::new(slot, Epoch(epoch), true, FreeMoment::FIRST)
    }

    #[test]
    fn merged_tags_forget_nobody() {
        let (a, later, b) = (used(0, 1), used(0, 2), used(1, 1));
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
    fn reserved_memory_joins_no_other_memory() {
        let (tag, reserved, later) = (used(3, 1), reserved(3, 1), reserved(3, 2));
        assert_eq!(reserved.users(), tag.users());
        assert_eq!(reserved.merge(reserved), Some(reserved));
        assert_eq!(reserved.merge(later), None);
        assert_eq!(reserved.merge(Tag::NOBODY), None);
        assert_eq!(Tag::NOBODY.merge(reserved), None);
        assert_eq!(reserved.merge(tag), None);
        assert_eq!(reserved.without_users().merge(Tag::NOBODY), Some(Tag::NOBODY));
    }

    #[test]
    fn merged_tags_were_freed_when_the_last_part_was() {
        let (first, last) = (Tag::NOBODY, Tag::new(0, Epoch(1), false, FreeMoment::LAST));
        assert_eq!(first.merge(last), Some(last));
        assert_eq!(last.merge(used(0, 2)).map(Tag::freed), Some(FreeMoment::LAST));
        let idle = last.without_users();
        assert!(idle.has_no_users() && idle.freed() == FreeMoment::LAST && !last.has_no_users());
    }

    #[test]
    fn tags_tell_what_they_were_made_of() {
        let (slot, epoch) = ((1 << 23) - 2, (1 << EPOCH_BITS) - 1);
        for make in [used, reserved] {
            assert_eq!(make(slot, epoch).users(), Users::One(slot, Epoch(epoch)));
            assert_eq!(make(0, 0).users(), Users::One(0, Epoch(0)));
            assert_eq!(make(slot + 1, 1).users(), Users::Several);
            assert_eq!(make(1, epoch + 1).users(), Users::Several);
        }
        assert_eq!(Tag::NOBODY.users(), Users::Nobody);
    }
}
