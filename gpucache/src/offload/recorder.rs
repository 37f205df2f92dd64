//! The order of fetches in the entries of a scope, on each thread, and the moves that follow from it.
//!
//! The recorder records the fetches in each entry of the outermost scope. Once two entries in a row were alike, the next use of each array
//! is known. If arrays had to leave, the recorder computes a schedule of moves ([`Order::schedule`](gpucache_plan::offload::Order::schedule)).
//! From then on it follows the entries: each fetch makes the moves that are due before it, while the recorder is not borrowed. An entry that differs
//! is recorded again, and meanwhile the least recently used arrays leave.
//!
//! Arrays that are made in an entry are different ones in each entry. The recorder knows them by their number within the entry.

mod change;
mod followed;
mod learned;
mod misses;
mod pacer;
mod thread;
mod timetable;

use std::mem::{replace, take};
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Instant;

use hashbrown::HashMap;

use self::followed::Followed;
use self::learned::Learned;
use self::thread::{THREAD, Thread, begin_thread, make, with};
use super::host_pool::{HostPool, Rests};
use super::host_pools;
use super::moves::Moves;
use super::placement::Tag;
use gpucache_engine::cache::Entry;
use gpucache_plan::offload::{Access, Move};

pub(super) use self::thread::{count, count_demanded, is_known, note_copy, placement, timing, watch};
pub(crate) use self::thread::{end_thread, set_scoped};

/// An array of an entry: its slot's number, or with [`BORN`] its place among those that the entry made.
pub(super) type Name = u64;

const BORN: Name = 1 << 63;

/// One recorded use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: Name,
    pub(super) access: Access,
}

/// Entries that any thread has begun; 0 stands for none.
static ENTRIES: AtomicU64 = AtomicU64::new(1);

/// A thread's knowledge of its entries.
struct Recorder {
    /// The entry that the thread is in.
    entry: Option<Entry>,
    /// The same among all that were recorded.
    number: u64,
    begun: Instant,
    born: u64,
    now: Now,
    /// The counts of the scope.
    account: Account,
    /// Whether the last moves of the entry are made, in whatever scope the thread is by now.
    is_ending: bool,
    scopes: HashMap<usize, History>,
    /// The pool of arrays that entries make, and the number of the last entry of which such an array is gone. A pool lives as long as it has
    /// an array, so it might end between two entries. It is kept until an entry makes no arrays of it.
    kept: Option<(u64, Arc<HostPool>)>,
    left: Left,
}

/// Values to drop once the recorder is not borrowed any more, since the destructor of a device or a stream may be code of the program.
#[derive(Default)]
struct Left {
    entries: Vec<Now>,
    /// Each may be the last owner of a device's pool.
    pools: Vec<Arc<HostPool>>,
    /// Of arrays that may be gone by now.
    slots: Vec<Arc<dyn Rests>>,
    /// All arrays of this pool are to leave once, and then as many bytes are to be contiguous. This may call code of the program.
    apart: Option<(Arc<HostPool>, u64)>,
}

type Account = Option<Arc<Moves>>;

/// Moves that are due, each with the array that it moves.
type Due = Vec<(Arc<dyn Rests>, Move)>;

/// The state of the current entry.
enum Now {
    /// The entry is recorded.
    Recording(Learned),
    /// The entry follows a known order.
    Following(Box<Followed>),
}

impl Default for Now {
    fn default() -> Now {
        Now::Recording(Learned::default())
    }
}

/// The known entries of a scope.
#[derive(Default)]
struct History {
    /// The last recorded entry.
    last: Option<Learned>,
    /// The expected course of the next entry.
    known: Option<Box<Followed>>,
    /// How often an order was learned again because the room or sizes had changed.
    relearned: u32,
}

/// A recorded use whose guard lives: its entry, and its place there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    entry: NonZeroU64,
    place: u32,
}

/// Notes a use of `slot` that is not expected. If it is recorded, the caller reports its end ([`ended`]).
#[inline(never)]
pub(super) fn note(slot: &Arc<impl Rests + 'static>, access: Access) -> Option<Noted> {
    with_entry(Entry::outermost()?, |recorder, entry| recorder.note_use(entry, slot, access))?
}

/// A use has ended.
#[cold]
pub(super) fn ended(noted: Noted) {
    with(|recorder| recorder.end_use(noted));
}

/// Makes the moves that are due before a new array is made. Returns the address of the new array by the schedule, if there is one.
#[inline(never)]
pub(super) fn make_way() -> Option<u64> {
    with_entry(Entry::outermost()?, |recorder, _| match &mut recorder.now {
        Now::Following(followed) => followed.make_way(),
        Now::Recording(_) => {}
    });
    // Asked once the moves are made: the arrays may have left meanwhile, so that memory is contiguous.
    with(|recorder| recorder.followed()?.address_of_next())?
}

/// The address of an array for the use that was noted last, by the schedule that the thread follows.
pub(super) fn address(tag: &Tag) -> Option<u64> {
    Entry::outermost()?;
    with(|recorder| recorder.followed()?.address_now(name_of(tag, recorder.number)))?
}

/// An array of a pool is gone.
pub(super) fn gone(tag: &Tag, pool: &Arc<HostPool>) {
    with(|recorder| recorder.lose(tag, pool));
}

/// The thread forgets a scope, which it is not inside: the number of the scope may become that of another one.
pub(crate) fn forget_scope(scope: usize) {
    with(|recorder| recorder.forget(scope));
}

/// Has all arrays of a pool leave once, and makes as many bytes contiguous. The current entry counts from then on.
#[cold]
fn tidy(pool: &HostPool, bytes: u64) {
    let found = pool.tidy(bytes);
    with(|recorder| {
        if let Now::Following(followed) = &mut recorder.now {
            followed.note_tidied(found);
            // Other moves may be due among the uses that are laid out.
            THREAD.with(|thread| thread.ahead.clear());
        }
    });
}

/// As [`with`], in an entry: makes the last moves of the entry before, and then those that are due by what `act` does.
#[inline]
fn with_entry<R>(entry: Entry, act: impl FnOnce(&mut Recorder, Entry) -> R) -> Option<R> {
    let act = |recorder: &mut Recorder| {
        recorder.enter(entry);
        let answer = act(recorder, entry);
        (answer, recorder.take_due())
    };
    begin_thread();
    let first = with(|recorder| match recorder.last_moves(entry) {
        None => Ok(act(recorder)),
        Some(last) => Err((last, act)),
    });
    let (answer, due) = match first? {
        Ok(done) => done,
        Err((last, act)) => {
            // It ended before the thread came to where it is now.
            make(last);
            with(act)?
        }
    };
    make(due);
    Some(answer)
}

/// `slot` was made just now.
#[inline(never)]
pub(super) fn born(slot: &Arc<impl Rests + 'static>) {
    if let Some(entry) = Entry::outermost() {
        with_entry(entry, |recorder, entry| recorder.bear(entry, slot));
    }
}

/// How an array goes in the entry of a number.
#[inline(always)]
fn name_of(tag: &Tag, number: u64) -> Name {
    let is_born = tag.born_in.load(Relaxed) == number;
    if is_born { BORN | tag.born_as.load(Relaxed) } else { tag.id }
}

impl Recorder {
    fn new() -> Recorder {
        Recorder {
            entry: None,
            number: 0,
            begun: Instant::now(),
            born: 0,
            now: Now::default(),
            account: None,
            is_ending: false,
            scopes: HashMap::new(),
            kept: None,
            left: Left::default(),
        }
    }

    /// The order that the current entry follows.
    fn followed(&self) -> Option<&Followed> {
        match &self.now {
            Now::Following(followed) => Some(followed),
            Now::Recording(_) => None,
        }
    }

    /// The moves that are due behind the last use of the entry before, if another entry is under way by now.
    fn last_moves(&mut self, entry: Entry) -> Option<Due> {
        if self.entry == Some(entry) {
            return None;
        }
        let Now::Following(followed) = &mut self.now else { return None };
        followed.pass_end();
        self.is_ending = true;
        Some(followed.take_due())
    }

    fn take_due(&mut self) -> Due {
        match &mut self.now {
            Now::Following(followed) => followed.take_due(),
            Now::Recording(_) => Due::new(),
        }
    }

    fn bear(&mut self, entry: Entry, slot: &Arc<impl Rests + 'static>) {
        let tag = slot.tag();
        tag.born_in.store(self.number, Relaxed);
        tag.born_as.store(self.born, Relaxed);
        self.born += 1;
        let seen = Seen { name: name_of(tag, self.number), access: Access::Fill };
        if let Now::Following(followed) = &mut self.now {
            followed.bear(seen, slot);
        }
        self.note(entry, seen, slot);
    }

    /// Hears of the uses that were made of those that it laid out.
    fn catch_up(&mut self, thread: &Thread) {
        if let Now::Following(followed) = &mut self.now
            && let Some(place) = thread.ahead.place()
        {
            followed.go_on_to(place);
        }
    }

    fn note_use(&mut self, entry: Entry, slot: &Arc<impl Rests + 'static>, access: Access) -> Option<Noted> {
        self.note(entry, Seen { name: name_of(slot.tag(), self.number), access }, slot)
    }

    fn note(&mut self, entry: Entry, seen: Seen, slot: &Arc<impl Rests + 'static>) -> Option<Noted> {
        if let Now::Following(followed) = &mut self.now
            && followed.passes(seen)
        {
            let (place, uses) = followed.ahead();
            THREAD.with(|thread| thread.ahead.lay_out(entry, self.number, place, uses));
            return None;
        }
        self.record(seen, slot)
    }

    fn lose(&mut self, tag: &Tag, pool: &Arc<HostPool>) {
        let name = name_of(tag, self.number);
        if name & BORN != 0 {
            match &mut self.kept {
                Some((last, kept)) if Arc::ptr_eq(kept, pool) => *last = self.number,
                other => self.left.pools.extend(other.replace((self.number, pool.clone())).map(|(_, pool)| pool)),
            }
        }
        if let Now::Recording(learned) = &mut self.now {
            learned.gone(name);
        }
    }

    fn forget(&mut self, scope: usize) {
        if self.entry.is_some_and(|entry| entry.scope() == scope) {
            THREAD.with(|thread| thread.ahead.clear());
            self.entry = None;
            self.left.entries.push(take(&mut self.now));
        }
        let History { last, known, .. } = self.scopes.remove(&scope).unwrap_or_default();
        self.left.entries.extend(last.map(Now::Recording).into_iter().chain(known.map(Now::Following)));
    }

    fn end_use(&mut self, noted: Noted) {
        if let Now::Recording(learned) = &mut self.now
            && noted.entry.get() == self.number
        {
            learned.end_use(noted.place);
        }
    }

    #[inline]
    fn enter(&mut self, entry: Entry) {
        if self.entry != Some(entry) {
            self.begin(entry);
        }
    }

    /// The last entry has ended, and another one begins.
    #[cold]
    fn begin(&mut self, entry: Entry) {
        self.end();
        (self.entry, self.is_ending) = (Some(entry), false);
        self.number = ENTRIES.fetch_add(1, Relaxed);
        (self.begun, self.born) = (Instant::now(), 0);
        self.account = host_pools::account();
        let history = self.scopes.entry(entry.scope()).or_default();
        if let Some(mut followed) = history.known.take() {
            let is_followed = followed.begin(self.account.clone());
            history.relearned = history.relearned.saturating_add(u32::from(followed.is_outdated));
            if is_followed {
                self.left.apart = followed.take_apart();
            }
            let now = Now::Following(followed);
            self.left.entries.push(if is_followed { replace(&mut self.now, now) } else { now });
        }
    }

    fn end(&mut self) {
        THREAD.with(|thread| thread.ahead.clear());
        let Some(entry) = self.entry.take() else { return };
        let outdated = self.kept.take_if(|(last, _)| *last != self.number);
        self.left.pools.extend(outdated.map(|(_, pool)| pool));
        let (history, left) = (self.scopes.entry(entry.scope()).or_default(), &mut self.left.entries);
        match take(&mut self.now) {
            Now::Following(mut followed) => {
                let is_whole = followed.end();
                self.left.pools.extend(followed.take_held());
                if is_whole {
                    left.extend(history.known.replace(followed).map(Now::Following));
                } else {
                    followed.count(|stats| stats.mispredictions += 1);
                    left.push(Now::Following(followed));
                }
            }
            Now::Recording(mut learned) => {
                learned.end(self.begun.elapsed());
                if history.last.as_ref().is_some_and(|last| last.is_like(&learned))
                    && let Some(pool) = learned.pool.as_ref().and_then(Weak::upgrade)
                {
                    // Alive until the recorder is not borrowed, whoever drops them meanwhile.
                    self.left.slots.extend(learned.alive());
                    let followed = Followed::new(&learned, (&pool, self.account.clone()), history.relearned);
                    let followed = Box::new(followed);
                    self.left.pools.push(pool);
                    left.extend(history.known.replace(followed).map(Now::Following));
                }
                left.extend(history.last.replace(learned).map(Now::Recording));
            }
        }
    }

    /// Records a use that was not known, or not the expected one.
    #[cold]
    fn record(&mut self, seen: Seen, slot: &Arc<impl Rests + 'static>) -> Option<Noted> {
        THREAD.with(|thread| thread.ahead.clear());
        if let Now::Following(followed) = &self.now {
            followed.count(|stats| stats.mispredictions += 1);
            let so_far = followed.so_far();
            self.left.entries.push(replace(&mut self.now, Now::Recording(so_far)));
        }
        let Now::Recording(learned) = &mut self.now else { return None };
        let place = learned.note(seen, slot)?;
        Some(Noted { entry: NonZeroU64::new(self.number)?, place })
    }
}
