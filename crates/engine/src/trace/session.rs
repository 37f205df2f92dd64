//! The trace that is on: its rings, and the numbers of names in its events.
//!
//! Invariant: the number of the session is 0 while no trace is on. A thread whose ring belongs to another session joins the new
//! one.

use std::hash::Hash;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use hashbrown::HashMap;

use super::event::TraceDevice;
use super::ring::{Pen, Ring};
use crate::base::sync::{Mutex, lock};

/// A scope's name, and the place in the program that names it.
pub(super) type Title = (Arc<str>, Option<&'static Location<'static>>);

/// A source line that allocates, with its callers if the feature `backtrace` is on.
pub(super) type Site = (&'static Location<'static>, Option<Arc<str>>);

static NUMBER: AtomicU64 = AtomicU64::new(0);
static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// The number of events that no ring took because their thread was ending.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);

pub(super) struct Session {
    number: u64,
    capacity: usize,
    pub(super) began: Instant,
    pub(super) rings: Vec<Arc<Ring>>,
    pub(super) scopes: Names<Title>,
    pub(super) dtypes: Names<&'static str>,
    pub(super) sites: Names<Site>,
    /// The last bits of the number of each device that an event named, and the size of its pages.
    pub(super) devices: Vec<TraceDevice>,
}

/// Names with numbers from 1. The cost to find a name does not grow with the number of names.
pub(super) struct Names<T> {
    names: Vec<T>,
    numbers: HashMap<T, usize>,
}

/// The number of the session that is on; 0 if no trace is on.
#[inline(always)]
pub(super) fn number() -> u64 {
    NUMBER.load(Relaxed)
}

/// Begins a session, and returns its number. Drops the one before, if a trace was on.
pub(super) fn begin(capacity: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Relaxed);
    let (rings, scopes, dtypes, sites) = (Vec::new(), Names::new(), Names::new(), Names::new());
    let (began, devices) = (Instant::now(), Vec::new());
    let mut session = lock(&SESSION);
    *session = Some(Session { number, capacity, began, rings, scopes, dtypes, sites, devices });
    UNWRITTEN.store(0, Relaxed);
    NUMBER.store(number, Relaxed);
    number
}

/// Ends the session that is on. Returns it with the number of events that no ring took.
pub(super) fn end() -> Option<(Session, u64)> {
    let mut session = lock(&SESSION);
    NUMBER.store(0, Relaxed);
    Some((session.take()?, UNWRITTEN.swap(0, Relaxed)))
}

/// Joins the session, if a trace is on. Returns its number, the time when it began, and a ring for the calling thread.
#[cold]
pub(super) fn join() -> Option<(u64, Instant, Pen)> {
    let mut session = lock(&SESSION);
    let session = session.as_mut()?;
    let ring = Ring::new(session.capacity);
    session.rings.push(ring.clone());
    Some((session.number, session.began, Pen::new(ring)))
}

/// Counts an event that no ring takes.
#[cold]
pub(super) fn note_unwritten() {
    UNWRITTEN.fetch_add(1, Relaxed);
}

/// Acts on the session `number`; the default if that session has ended.
#[cold]
fn with<R: Default>(number: u64, act: impl FnOnce(&mut Session) -> R) -> R {
    lock(&SESSION).as_mut().filter(|session| session.number == number).map_or_else(R::default, act)
}

/// The number of a name in the session `number`, as `find` returns it; 0 if it is above `most`, or if that session has ended.
pub(super) fn number_of(number: u64, most: u32, find: impl FnOnce(&mut Session) -> usize) -> u32 {
    let found = with(number, |session| u32::try_from(find(session)).ok());
    found.filter(|found| *found <= most).unwrap_or(0)
}

/// Notes the size of a device's pages in the session `number`.
pub(super) fn device(number: u64, device: u8, page_bytes: u64) {
    with(number, |session| {
        if !session.devices.iter().any(|known| known.device == device) {
            session.devices.push(TraceDevice { device, page_bytes });
        }
    });
}

impl<T: Clone + Eq + Hash> Names<T> {
    fn new() -> Names<T> {
        Names { names: Vec::new(), numbers: HashMap::new() }
    }

    /// The number of a name. Adds the name if it is new.
    pub(super) fn number_of(&mut self, name: &T) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.names.push(name.clone());
        self.numbers.insert(name.clone(), self.names.len());
        self.names.len()
    }

    /// The name with this number; `None` for 0.
    pub(super) fn of(&self, number: usize) -> Option<&T> {
        self.names.get(number.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use super::*;

    static COMPARISONS: AtomicU64 = AtomicU64::new(0);

    #[derive(Clone, Debug)]
    struct Counted(u32);

    impl PartialEq for Counted {
        fn eq(&self, other: &Counted) -> bool {
            COMPARISONS.fetch_add(1, Relaxed);
            self.0 == other.0
        }
    }

    impl Eq for Counted {}

    impl Hash for Counted {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn a_name_is_compared_with_few_others_however_many_there_are() {
        const NAMES: usize = 20_000;
        let mut names = Names::new();
        for round in 0..2 {
            COMPARISONS.store(0, Relaxed);
            for name in 0..NAMES {
                assert_eq!(names.number_of(&Counted(name as u32)), name + 1);
            }
            let comparisons = COMPARISONS.load(Relaxed);
            assert!(comparisons <= 2 * NAMES as u64, "round {round}: {comparisons}");
        }
        assert_eq!(names.of(NAMES).map(|name| name.0), Some(NAMES as u32 - 1));
        assert!(names.of(0).is_none() && names.of(NAMES + 1).is_none());
    }
}
