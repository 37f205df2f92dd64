//! The order of uses in the entries of a scope, on each thread, and the moves that are made by it.
//!
//! What is fetched in an entry of the outermost scope is written down. Once two entries in a row were alike, the next use of
//! everything is known, and where arrays had to leave, a schedule of moves is computed ([`schedule`](gpucache_plan::offload::schedule)): from then on the
//! entry is followed, and each use makes the moves that are due before it, while the recorder is not borrowed. An entry that differs is written down anew, and what has
//! to leave is what was used least recently.
//!
//! Arrays that are made in an entry are other ones in each: they go by their number among those.

mod ahead;
mod followed;
mod learned;
mod pacer;
mod timetable;

use std::cell::{Cell, RefCell};
use std::mem::{ManuallyDrop, replace, take};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hashbrown::HashMap;

use self::ahead::Ahead;
use self::followed::Followed;
use self::learned::Learned;
use super::moves::{Moves, PlacedStats};
use super::placement::{self, Placement};
use super::sampling::Timing;
use super::yard::{Rests, Tag, Yard};
use super::yards;
use crate::device::Stream;
use gpucache_engine::base::held::Held;
use gpucache_engine::cache::Entry;
use gpucache_engine::device::{Span, StreamInside};
use gpucache_plan::offload::{Access, What};

/// An array of an entry: its slot's number, or with [`BORN`] its place among those that the entry made.
pub(super) type Name = u64;

const BORN: Name = 1 << 63;

/// One use, as it is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) name: Name,
    pub(super) access: Access,
}

/// Entries that any thread has begun; 0 stands for none.
static ENTRIES: AtomicU64 = AtomicU64::new(1);

/// All that this room has of a thread.
struct Thread {
    /// The placement that the innermost scope asks for, of those that ask for one.
    placement: Cell<Option<Placement>>,
    /// The stream whose wait is timed: a move within another one is a part of that.
    watched: Cell<u64>,
    ahead: Ahead,
    /// `None` before the thread's first use of an array in a scope, and once the thread has ended. It has no destructor, with which each look
    /// at this value would cost more: the scopes' own state of the thread, without which there is no entry, ends it ([`end_thread`]).
    recorder: ManuallyDrop<RefCell<Option<Recorder>>>,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            placement: Cell::new(None),
            watched: Cell::new(0),
            ahead: Ahead::new(),
            recorder: ManuallyDrop::new(RefCell::new(None)),
        }
    };
}

/// What a thread knows of its entries.
struct Recorder {
    /// The entry that it is in.
    entry: Option<Entry>,
    /// The same among all that were recorded.
    number: u64,
    begun: Instant,
    born: u64,
    now: Now,
    /// What is counted of the scope.
    account: Account,
    /// Whether the last moves of the entry are made, in whatever scope the thread is by now.
    is_ending: bool,
    scopes: HashMap<usize, History>,
    left: Left,
}

/// What is dropped once the recorder is not borrowed any more: the destructor of a device or of a stream may be code of the program.
#[derive(Default)]
struct Left {
    /// Each may be the last to know the yard of a device.
    entries: Vec<Now>,
    /// Of arrays that may be gone by now.
    slots: Vec<Arc<dyn Rests>>,
    /// Its arrays are to be laid side by side, which may call code of the program.
    apart: Option<Arc<Yard>>,
}

type Account = Option<Arc<Moves>>;

/// Moves that are due.
type Due = Vec<(Arc<dyn Rests>, What)>;

/// How the entry that is under way goes.
enum Now {
    /// It is written down.
    Recording(Learned),
    /// It goes by what is known.
    Following(Box<Followed>),
}

impl Default for Now {
    fn default() -> Now {
        Now::Recording(Learned::default())
    }
}

/// What is known of a scope's entries.
#[derive(Default)]
struct History {
    /// The last entry that was written down.
    last: Option<Learned>,
    /// What the next one is expected to do.
    known: Option<Box<Followed>>,
}

/// A use that was written down, and is under way: of an entry, the place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noted {
    entry: NonZeroU64,
    place: u32,
}

/// The innermost scope of the thread that says where arrays rest says this, or none does.
#[inline]
pub(crate) fn set_scoped(placement: Option<Placement>) {
    THREAD.with(|thread| thread.placement.set(placement));
}

/// Where an array rests that the thread places now.
pub(super) fn placement() -> Placement {
    THREAD.with(|thread| thread.placement.get()).unwrap_or_else(placement::of_process)
}

/// The thread ends, and has left all scopes: what is dropped here may be code of the program.
pub(crate) fn end_thread() {
    drop(THREAD.with(|thread| thread.recorder.take()));
}

/// A use of an array is about to be made. Whether that is all that there is to say: outside of all scopes, where nothing is known of
/// what comes next, and where it is the next use by a known order. It is to be told ([`note`]) otherwise.
#[inline(always)]
pub(super) fn is_known(tag: &Tag, access: Access) -> bool {
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
    known.unwrap_or_else(|| Entry::outermost_name().map(yards::account))
}

/// Counts something for the device, and for the scope that the thread is in.
pub(super) fn count(yard: &Yard, count: impl Fn(&mut PlacedStats)) {
    account().as_deref().into_iter().chain([&*yard.moves]).for_each(|moves| moves.count(&count));
}

/// What moves of the calling thread are timed for now; `None` where they are not timed.
pub(super) fn timing() -> Option<Timing> {
    let known = look(|recorder| match &recorder.now {
        Now::Following(followed) if recorder.entry == Entry::outermost() => Some(followed.timing()),
        _ => None,
    });
    known.map_or(Some(None), |sample| sample.map(Some))
}

/// Makes a move that work of `stream` may have to wait for, and times for how long it does.
pub(super) fn watch<R>(yard: &Yard, stream: &Stream, act: impl FnOnce() -> R) -> R {
    let Some(timing) = timing() else { return act() };
    let watched = |id| THREAD.with(|thread| thread.watched.replace(id));
    let outer = watched(stream.id());
    if outer == stream.id() {
        return act();
    }
    let (answer, span) = Span::around(stream, act);
    watched(outer);
    if let Some(span) = span {
        yard.waits.add_wait(&yard.moves, span, timing, account());
    }
    answer
}

/// A copy of so many bytes was put on a lane, and takes as long as `span` where that is timed.
pub(super) fn note_copy(yard: &Yard, span: Option<Span>, bytes: u64) {
    if let Some((span, timing)) = span.zip(timing()) {
        yard.waits.add_copy(&yard.moves, span, timing, account(), bytes);
    }
}

/// A use of `slot` is about to be made that is not known yet. Its end is to be told ([`ended`]) if it was written down.
#[inline(never)]
pub(super) fn note(slot: &Arc<impl Rests + 'static>, access: Access) -> Option<Noted> {
    with_entry(Entry::outermost()?, |recorder, entry| recorder.note_use(entry, slot, access))?
}

/// A use has ended.
#[cold]
pub(super) fn ended(noted: Noted) {
    with(|recorder| recorder.end_use(noted));
}

/// An array is about to be made, and needs room: what is to leave before it does so now.
#[inline(never)]
pub(super) fn make_way() {
    if let Some(entry) = Entry::outermost() {
        with_entry(entry, |recorder, _| {
            if let Now::Following(followed) = &mut recorder.now {
                followed.make_way();
            }
        });
    }
}

/// An array is gone.
pub(super) fn gone(tag: &Tag) {
    with(|recorder| recorder.lose(tag));
}

/// Runs `act` with the recorder, if there is one. `act` reaches no code that could come back here: it calls no code of the program, and
/// what it lets go of is dropped once the recorder is not borrowed any more. So no use is lost.
#[inline]
fn with<R>(act: impl FnOnce(&mut Recorder) -> R) -> Option<R> {
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
    if let Some(yard) = &left.apart {
        tidy(yard);
    }
    Some(answer)
}

/// The thread has a recorder from now on.
fn begin_thread() {
    THREAD.with(|thread| {
        if let Ok(mut recorder) = thread.recorder.try_borrow_mut() {
            recorder.get_or_insert_with(Recorder::new);
        }
    });
}

/// Lays the arrays of a yard side by side, after which the entry that is under way begins to count.
#[cold]
fn tidy(yard: &Yard) {
    yard.tidy();
    with(|recorder| {
        if let Now::Following(followed) = &mut recorder.now {
            followed.note_tidied();
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

/// Makes moves. One that meets a shortage may call handlers of the program. What fails is made up for when the array is asked for.
fn make(due: Due) {
    for (slot, what) in due {
        match what {
            What::WriteBack => _ = slot.write_back(),
            // It may have been given that place since.
            What::Evict if slot.tag().placement.get() == Placement::Device => {}
            What::Evict => _ = slot.evict(),
            What::Prefetch => {
                if slot.bring().is_ok_and(|came| came) {
                    count(slot.yard(), |stats| stats.prefetched += 1);
                }
            }
        }
    }
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
            left: Left::default(),
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

    fn lose(&mut self, tag: &Tag) {
        let name = name_of(tag, self.number);
        if let Now::Recording(learned) = &mut self.now {
            learned.gone(name);
        }
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
        self.account = Entry::outermost_name().map(yards::account);
        let known = self.scopes.entry(entry.scope()).or_default().known.take();
        if let Some(mut followed) = known {
            let is_followed = followed.begin(self.account.clone());
            let now = Now::Following(followed);
            self.left.entries.push(if is_followed { replace(&mut self.now, now) } else { now });
        }
    }

    fn end(&mut self) {
        THREAD.with(|thread| thread.ahead.clear());
        let Some(entry) = self.entry.take() else { return };
        let (history, left) = (self.scopes.entry(entry.scope()).or_default(), &mut self.left.entries);
        match take(&mut self.now) {
            Now::Following(mut followed) => {
                let is_whole = followed.end();
                self.left.apart = followed.take_apart();
                if is_whole {
                    left.extend(history.known.replace(followed).map(Now::Following));
                } else {
                    followed.count(|stats| stats.mispredictions += 1);
                    left.push(Now::Following(followed));
                }
            }
            Now::Recording(mut learned) => {
                learned.end(self.begun.elapsed());
                if let Some(yard) = &learned.yard
                    && history.last.as_ref().is_some_and(|last| last.is_like(&learned))
                {
                    // Alive until the recorder is not borrowed, whoever drops them meanwhile.
                    self.left.slots.extend(learned.alive());
                    let followed = Box::new(Followed::new(&learned, yard.clone(), self.account.clone()));
                    left.extend(history.known.replace(followed).map(Now::Following));
                }
                left.extend(history.last.replace(learned).map(Now::Recording));
            }
        }
    }

    /// A use that nothing was known of, or another one than was expected.
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
