//! The state of a thread: one value, what it counts and times, and the moves that it makes.
//!
//! A use of the recorder has to borrow it, which costs 3 ns. So the recorder lays out the next uses of a known order ([`Ahead`]), up to the
//! next move, and a fetch sees them by a few loads. The recorder learns how many of them were made when it is used next.

use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, take};

use super::{Account, Due, Now, Recorder, Seen, name_of};
use crate::offload::host_pool::{HostPool, unasked};
use crate::offload::host_pools;
use crate::offload::moves::OffloadStats;
use crate::offload::placement::{self, Placement, Tag};
use crate::offload::sampling::Timing;
use gpucache_engine::base::amounts::add;
use gpucache_engine::base::finally::finally;
use gpucache_engine::base::held::Held;
use gpucache_engine::cache::Entry;
use gpucache_engine::device::{Span, Stream};
use gpucache_plan::offload::{Access, Move, What};

/// The state of a thread.
pub(super) struct Thread {
    /// The placement that the innermost scope asks for, of those that ask for one.
    placement: Cell<Option<Placement>>,
    /// The stream whose wait is timed: a move within another one is a part of that.
    watched: Cell<u64>,
    pub(super) ahead: Ahead,
    /// `None` before the thread's first use of an array in a scope, and once the thread has ended. A destructor would make each access cost
    /// more. So the scopes' own state of the thread, without which there is no entry, ends this value ([`end_thread`]).
    pub(super) recorder: ManuallyDrop<RefCell<Option<Recorder>>>,
}

thread_local! {
    pub(super) static THREAD: Thread = const {
        Thread {
            placement: Cell::new(None),
            watched: Cell::new(0),
            ahead: Ahead::new(),
            recorder: ManuallyDrop::new(RefCell::new(None)),
        }
    };
}

/// Sets the placement of the thread's innermost scope that has one; `None` if none has.
#[inline]
pub(crate) fn set_scoped(placement: Option<Placement>) {
    THREAD.with(|thread| thread.placement.set(placement));
}

/// The placement of an array that the thread places now.
pub(in crate::offload) fn placement() -> Placement {
    THREAD.with(|thread| thread.placement.get()).unwrap_or_else(placement::of_process)
}

/// Ends the thread's state, after the thread has left all scopes. The drops here may run code of the program.
pub(crate) fn end_thread() {
    drop(THREAD.with(|thread| thread.recorder.take()));
}

/// Whether a use of an array needs no recording: outside all scopes, and for the next use of a known order. Otherwise the caller records it
/// (`learned::note`).
#[inline(always)]
pub(in crate::offload) fn is_known(tag: &Tag, access: Access) -> bool {
    let Some(entry) = Entry::outermost() else { return true };
    THREAD.with(|thread| thread.ahead.passes(entry, tag, access))
}

/// Looks at the recorder, if there is one.
fn look<R>(act: impl FnOnce(&Recorder) -> Option<R>) -> Option<R> {
    THREAD.with(|thread| act(thread.recorder.try_borrow().ok()?.as_ref()?))
}

/// The scope that the calling thread's moves count for, beside the device: the outermost one.
fn account() -> Account {
    let entry = Entry::outermost();
    let known = look(|recorder| {
        let is_current = recorder.is_ending || recorder.entry.is_some() && recorder.entry == entry;
        is_current.then(|| recorder.account.clone())
    });
    known.unwrap_or_else(host_pools::account)
}

/// Counts something for the device, and for the scope that the thread is in.
pub(in crate::offload) fn count(pool: &HostPool, count: impl Fn(&mut OffloadStats)) {
    account().as_deref().into_iter().chain([&*pool.moves]).for_each(|moves| moves.count(&count));
}

/// Counts an array that a fetch had to bring, also for the order that the thread follows.
pub(in crate::offload) fn count_demanded(pool: &HostPool, bytes: u64) {
    count(pool, |stats| {
        stats.demanded += 1;
        add(&mut stats.bytes_demanded, bytes);
    });
    let entry = Entry::outermost();
    with(|recorder| match &mut recorder.now {
        Now::Following(followed) if recorder.entry == entry => followed.note_demanded(pool),
        _ => {}
    });
}

/// The purpose for which the calling thread's moves are timed now; `None` if they are not timed.
pub(in crate::offload) fn timing() -> Option<Timing> {
    let known = look(|recorder| match &recorder.now {
        Now::Following(followed) if recorder.entry == Entry::outermost() => Some(followed.timing()),
        _ => None,
    });
    known.map_or(Some(None), |sample| sample.map(Some))
}

/// Makes a move that work of `stream` may have to wait for, and times for how long it does.
pub(in crate::offload) fn watch<R>(pool: &HostPool, stream: &Stream, act: impl FnOnce() -> R) -> R {
    let Some(timing) = timing() else { return act() };
    let outer = THREAD.with(|thread| thread.watched.replace(stream.id()));
    if outer == stream.id() {
        return act();
    }
    // Also if code of the program panics in the move. Otherwise no later move of the stream would be timed.
    let unwatch = finally(|| THREAD.with(|thread| thread.watched.set(outer)));
    let (answer, span) = Span::around(stream, act);
    drop(unwatch);
    if let Some(span) = span {
        pool.waits.add_wait(&pool.moves, span, timing, account());
    }
    answer
}

/// Counts a copy on a copy stream, which takes as long as `span` if it is timed.
pub(in crate::offload) fn note_copy(pool: &HostPool, span: Option<Span>, bytes: u64) {
    if let Some((span, timing)) = span.zip(timing()) {
        pool.waits.add_copy(&pool.moves, span, timing, account(), bytes);
    }
}

/// The thread has a recorder from now on.
pub(super) fn begin_thread() {
    THREAD.with(|thread| {
        if let Ok(mut recorder) = thread.recorder.try_borrow_mut() {
            recorder.get_or_insert_with(Recorder::new);
        }
    });
}

/// Runs `act` with the recorder, if there is one. `act` calls no code of the program, so that nothing comes back here meanwhile. The values
/// that it gives up are dropped once the recorder is not borrowed any more. So no use is lost.
#[inline]
pub(super) fn with<R>(act: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
    let (answer, left) = THREAD.with(|thread| {
        let Ok(mut recorder) = thread.recorder.try_borrow_mut() else {
            debug_assert!(false, "the recorder is asked from within");
            return None;
        };
        let _held = Held::begin();
        let recorder = recorder.as_mut()?;
        recorder.catch_up(thread);
        let answer = act(recorder);
        let mut left = take(&mut recorder.left);
        if let Now::Following(followed) = &mut recorder.now {
            left.pools.extend(followed.take_held());
        }
        Some((answer, left))
    })?;
    if let Some((pool, bytes)) = &left.apart {
        super::tidy(pool, *bytes);
    }
    Some(answer)
}

/// Makes moves of a schedule, while the recorder is not borrowed. A move that finds no memory may call handlers of the program. A failed
/// move is made up for by the fetch of its array.
pub(super) fn make(due: Due) {
    for (slot, Move { what, array, before }) in due {
        match what {
            What::WriteBack => _ = unasked(&*slot, slot.write_back()),
            // Its placement may have changed meanwhile.
            What::Evict if slot.tag().placement.get() == Placement::Device => {}
            What::Evict => _ = unasked(&*slot, slot.evict()),
            What::Prefetch => {
                let at = with(|recorder| recorder.followed()?.address(array, before)).flatten();
                if unasked(&*slot, slot.bring(at)) == Some(true) {
                    count(slot.pool(), |stats| stats.prefetched += 1);
                }
            }
        }
    }
}

/// How many uses are laid out at most.
const MOST: usize = 64;

/// The next uses by a known order.
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

/// Marks the end of the uses: a fetch always has an array.
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

    /// Whether a use in an entry is the next one that is laid out. If so, it is done.
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
