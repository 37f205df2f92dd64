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

struct Ahead {
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

thread_local! {
    static AHEAD: Ahead = const {
        Ahead {
            entry: Cell::new(Entry::NONE),
            number: Cell::new(0),
            base: Cell::new(0),
            made: Cell::new(0),
            uses: [const { Cell::new(NONE) }; MOST],
        }
    };
}

/// Whether a use that is about to be made is the next one that is laid out, or one outside of all scopes: it is done with then.
#[inline(always)]
pub(super) fn passes(tag: &Tag, access: Access) -> bool {
    let Some(entry) = Entry::outermost() else { return true };
    AHEAD.with(|ahead| {
        let made = ahead.made.get();
        let seen = Seen { name: name_of(tag, ahead.number.get()), access };
        let passes = ahead.entry.get() == entry && ahead.uses.get(made).is_some_and(|next| next.get() == seen);
        if passes {
            ahead.made.set(made + 1);
        }
        passes
    })
}

/// Lays out the uses of an entry that begin at a place in its order, in the stead of all others.
pub(super) fn lay_out(entry: Entry, number: u64, base: usize, uses: impl Iterator<Item = Seen>) {
    AHEAD.with(|ahead| {
        ahead.entry.set(entry);
        ahead.number.set(number);
        ahead.base.set(base);
        ahead.made.set(0);
        let mut laid = 0;
        for (cell, seen) in ahead.uses.iter().zip(uses) {
            cell.set(seen);
            laid += 1;
        }
        ahead.uses.get(laid).into_iter().for_each(|end| end.set(NONE));
    });
}

/// Nothing is laid out any more.
pub(super) fn clear() {
    AHEAD.with(|ahead| ahead.entry.set(Entry::NONE));
}

/// The place in the order that was come to, if any of it is laid out.
pub(super) fn place() -> Option<usize> {
    AHEAD.with(|ahead| (ahead.entry.get() != Entry::NONE).then(|| ahead.base.get() + ahead.made.get()))
}
