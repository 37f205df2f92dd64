//! The trace that is on: its rings, and the names that their events have by number.
//!
//! Invariant: the number of the session is 0 while none is on; whoever finds another number than that of its ring joins anew.

use std::panic::Location;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use super::packed::MOST_SCOPES;
use super::ring::{Pen, Ring};
use crate::base::sync::{Mutex, MutexGuard};

/// A scope, and where it is named.
pub(super) type Title = (Arc<str>, &'static Location<'static>);

static NUMBER: AtomicU64 = AtomicU64::new(0);
static SESSION: Mutex<Option<Session>> = Mutex::new(None);
/// Events that no ring took, as their thread had ended.
static UNWRITTEN: AtomicU64 = AtomicU64::new(0);

pub(super) struct Session {
    number: u64,
    capacity: usize,
    pub(super) began: Instant,
    pub(super) rings: Vec<Arc<Ring>>,
    pub(super) scopes: Vec<Title>,
    pub(super) dtypes: Vec<&'static str>,
}

/// What a thread needs to write.
pub(super) struct Joined {
    pub(super) number: u64,
    pub(super) began: Instant,
    pub(super) pen: Pen,
}

/// The number of the session that is on; 0 if none is.
#[inline(always)]
pub(super) fn number() -> u64 {
    NUMBER.load(Relaxed)
}

fn lock() -> MutexGuard<'static, Option<Session>> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a session; what another one had is dropped.
pub(super) fn begin(capacity: usize) {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Relaxed);
    let (rings, scopes, dtypes) = (Vec::new(), Vec::new(), Vec::new());
    let mut session = lock();
    *session = Some(Session { number, capacity, began: Instant::now(), rings, scopes, dtypes });
    UNWRITTEN.store(0, Relaxed);
    NUMBER.store(number, Relaxed);
}

/// Ends the session that is on, and returns it with the number of events that no ring took.
pub(super) fn end() -> Option<(Session, u64)> {
    let mut session = lock();
    NUMBER.store(0, Relaxed);
    Some((session.take()?, UNWRITTEN.swap(0, Relaxed)))
}

/// A ring for the calling thread, if a session is on.
#[cold]
pub(super) fn join() -> Option<Joined> {
    let mut session = lock();
    let session = session.as_mut()?;
    let ring = Ring::new(session.capacity);
    session.rings.push(ring.clone());
    Some(Joined { number: session.number, began: session.began, pen: Pen::new(ring) })
}

/// Counts an event that no ring takes.
#[cold]
pub(super) fn note_unwritten() {
    UNWRITTEN.fetch_add(1, Relaxed);
}

/// The number of a scope in the session `number`; 0 if that has ended.
#[cold]
pub(super) fn scope(number: u64, title: &Title) -> u32 {
    let mut session = lock();
    let Some(session) = session.as_mut().filter(|session| session.number == number) else { return 0 };
    u32::try_from(place_of(&mut session.scopes, title)).ok().filter(|number| *number <= MOST_SCOPES).unwrap_or(0)
}

/// The number of a type's name in the session `number`; 0 if that has ended.
#[cold]
pub(super) fn dtype(number: u64, name: &'static str) -> u16 {
    let mut session = lock();
    let Some(session) = session.as_mut().filter(|session| session.number == number) else { return 0 };
    u16::try_from(place_of(&mut session.dtypes, &name)).unwrap_or(0)
}

/// One more than the place of a name, which is added if it is not there.
fn place_of<T: PartialEq + Clone>(names: &mut Vec<T>, name: &T) -> usize {
    names.iter().position(|other| other == name).unwrap_or_else(|| {
        names.push(name.clone());
        names.len() - 1
    }) + 1
}
