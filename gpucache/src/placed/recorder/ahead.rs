//! The next uses by a known order, where a fetch sees them by a few loads.
//!
//! The recorder has a destructor and is borrowed, and each use of it costs 3 ns for that. So it lays uses out here, as many as there are
//! before the next move, and hears how many of them were made when it is asked for the next time.

use std::cell::Cell;

use super::{Seen, name_of};
use crate::placed::yard::Tag;
use gpucache_engine::cache::Entry;
use gpucache_plan::offload::Access;

/// How many uses are laid out at most.
const MOST: usize = 64;

pub(super) struct Ahead {
    /// The entry that they are of, and its number among those that were recorded.
    entry: Cell<Entry>,
    number: Cell<u64>,
    /// The place in the order of the first one.
    base: Cell<usize>,
    /// How many of them were made.
    made: Cell<usize>,
    /// Behind the last one stands [`NONE`], if there is room.
    uses: [Cell<Seen>; MOST],
}

/// What no fetch is: it fills nothing.
const NONE: Seen = Seen { name: 0, access: Access::Fill };

impl Ahead {
    pub(super) const fn new() -> Ahead {
        Ahead {
            entry: Cell::new(Entry::NONE),
            number: Cell::new(0),
            base: Cell::new(0),
            made: Cell::new(0),
            uses: [const { Cell::new(NONE) }; MOST],
        }
    }

    /// Whether a use in an entry that is about to be made is the next one that is laid out: it is done with then.
    #[inline(always)]
    pub(super) fn passes(&self, entry: Entry, tag: &Tag, access: Access) -> bool {
        let made = self.made.get();
        let seen = Seen { name: name_of(tag, self.number.get()), access };
        let passes = self.entry.get() == entry && self.uses.get(made).is_some_and(|next| next.get() == seen);
        if passes {
            self.made.set(made + 1);
        }
        passes
    }

    /// Lays out the uses of an entry that begin at a place in its order, in the stead of all others.
    pub(super) fn lay_out(&self, entry: Entry, number: u64, base: usize, uses: impl Iterator<Item = Seen>) {
        self.entry.set(entry);
        self.number.set(number);
        self.base.set(base);
        self.made.set(0);
        let mut laid = 0;
        for (cell, seen) in self.uses.iter().zip(uses) {
            cell.set(seen);
            laid += 1;
        }
        self.uses.get(laid).into_iter().for_each(|end| end.set(NONE));
    }

    /// Nothing is laid out any more.
    pub(super) fn clear(&self) {
        self.entry.set(Entry::NONE);
    }

    /// The place in the order that was come to, if any of it is laid out.
    pub(super) fn place(&self) -> Option<usize> {
        (self.entry.get() != Entry::NONE).then(|| self.base.get() + self.made.get())
    }
}
