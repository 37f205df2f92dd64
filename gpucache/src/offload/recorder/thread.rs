//! What this room has of a thread: one value, and what is counted and timed by it.
//!
//! The recorder is borrowed, and each use of it costs 3 ns for that. So it lays the next uses by a known order out ([`Ahead`]), where a fetch
//! sees them by a few loads: as many as there are before the next move. It hears how many of them were made when it is asked for the next time.

use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, take};

use super::{Account, Now, Recorder, Seen, name_of};
use crate::offload::host_pool::{HostPool, Tag};
use crate::offload::host_pools;
use crate::offload::moves::OffloadStats;
use crate::offload::placement::{self, Placement};
use crate::offload::sampling::Timing;
use gpucache_engine::base::held::Held;
use gpucache_engine::cache::Entry;
use gpucache_engine::device::Span;
use gpucache_engine::device::Stream;
use gpucache_plan::offload::Access;

/// All that this room has of a thread.
pub(super) struct Thread {
    /// The placement that the innermost scope asks for, of those that ask for one.
    placement: Cell<Option<Placement>>,
    /// The stream whose wait is timed: a move within another one is a part of that.
    watched: Cell<u64>,
    pub(super) ahead: Ahead,
    /// `None` before the thread's first use of an array in a scope, and once the thread has ended. It has no destructor, with which each look
    /// at this value would cost more: the scopes' own state of the thread, without which there is no entry, ends it ([`end_thread`]).
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

/// The innermost scope of the thread that says where arrays rest says this, or none does.
#[inline]
pub(crate) fn set_scoped(placement: Option<Placement>) {
    THREAD.with(|thread| thread.placement.set(placement));
}

/// Where an array rests that the thread places now.
pub(in crate::offload) fn placement() -> Placement {
    THREAD.with(|thread| thread.placement.get()).unwrap_or_else(placement::of_process)
}

/// The thread ends, and has left all scopes: what is dropped here may be code of the program.
pub(crate) fn end_thread() {
    drop(THREAD.with(|thread| thread.recorder.take()));
}

/// A use of an array is about to be made. Whether that is all that there is to say: outside of all scopes, where nothing is known of
/// what comes next, and where it is the next use by a known order. It is to be told (`learned::note`) otherwise.
#[inline(always)]
pub(in crate::offload) fn is_known(tag: &Tag, access: Access) -> bool {
    let Some(entry) = Entry::outermost() else { return true };
    THREAD.with(|thread| thread.ahead.passes(entry, tag, access))
}

/// Looks at the recorder, if there is one.
fn look<R>(act: impl FnOnce(&Recorder) -> Option<R>) -> Option<R> {
    THREAD.with(|thread| act(thread.recorder.try_borrow().ok()?.as_ref()?))
}

/// What the calling thread's moves count for, beside the device: the outermost scope that it is in.
fn account() -> Account {
    let entry = Entry::outermost();
    let known = look(|recorder| {
        let is_current = recorder.is_ending || recorder.entry.is_some() && recorder.entry == entry;
        is_current.then(|| recorder.account.clone())
    });
    known.unwrap_or_else(|| Entry::outermost_name().map(host_pools::account))
}

/// Counts something for the device, and for the scope that the thread is in.
pub(in crate::offload) fn count(pool: &HostPool, count: impl Fn(&mut OffloadStats)) {
    account().as_deref().into_iter().chain([&*pool.moves]).for_each(|moves| moves.count(&count));
}

/// What moves of the calling thread are timed for now; `None` where they are not timed.
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
    let watched = |id| THREAD.with(|thread| thread.watched.replace(id));
    let outer = watched(stream.id());
    if outer == stream.id() {
        return act();
    }
    let (answer, span) = Span::around(stream, act);
    watched(outer);
    if let Some(span) = span {
        pool.waits.add_wait(&pool.moves, span, timing, account());
    }
    answer
}

/// A copy of so many bytes was put on a copy stream, and takes as long as `span` where that is timed.
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

/// Runs `act` with the recorder, if there is one. `act` reaches no code that could come back here: it calls no code of the program, and
/// what it lets go of is dropped once the recorder is not borrowed any more. So no use is lost.
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
        Some((act(recorder), take(&mut recorder.left)))
    })?;
    if let Some(pool) = &left.apart {
        super::tidy(pool);
    }
    Some(answer)
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
