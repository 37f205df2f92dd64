//! The cache that serves this thread now: the one of the innermost scope.
//!
//! Invariant: a cache stands here only while this thread is inside its scope, and so owns it. Only [`Current::set`] changes the
//! value here, and only the thread's stack of scopes calls it.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use super::owner::{Cache, Owner};
use super::policy::{Recycle, Terms};
use super::registry::NamedCaches;
use super::supply;
use super::token::{is_shared, replace_token};
use crate::base::amounts::Bytes;
use crate::base::error::{Error, Result};
use crate::base::shortage::Short;
use crate::device::Stream;
use crate::home::Counter;
use crate::record::{Record, Request};
use crate::trace;

/// An entered scope: its cache, and the settings for blocks allocated in it.
#[derive(Clone, Copy)]
pub struct Current {
    /// The scope's memory on this thread.
    pub cache: &'static Cache,
    /// The settings that the scope was entered with.
    pub terms: Terms,
}

impl Current {
    /// Makes `current` serve this thread; `None` means that no scope does. `outermost` is the cache of the outermost scope.
    ///
    /// # Safety
    /// This thread has entered the cache, and does not leave it before another call replaces it.
    #[inline(always)]
    pub unsafe fn set(current: Option<Current>, outermost: Option<&'static Cache>) {
        // While a trace is on, only the paths that record allocations may serve.
        let is_traced = trace::is_on();
        let untold = current.filter(|_| !is_traced);
        with_serving(|serving| {
            serving.outermost.set(outermost.map(|cache| {
                // The scope may be entered again inside itself. That begins no other outermost entry.
                let known = serving.outermost.get().filter(|(known, _)| std::ptr::eq(*known, cache));
                known.unwrap_or_else(|| (cache, Entry::of(cache)))
            }));
            serving.current.set(current);
            serving.keeping.set(untold.and_then(Current::keeping));
            serving.planning.set(untold.and_then(Current::planning));
        });
        if is_traced {
            tell_inside(current.map(|current| current.cache));
        }
    }

    /// Gives a cache of a thread that now ends back to its scope, from which [`NamedCaches::adopt`] took it.
    ///
    /// # Safety
    /// The cache serves the calling thread no more.
    pub unsafe fn orphan(cache: &'static Cache, scope: &NamedCaches) {
        scope.take_back(cache);
    }

    /// Lets a thread that allocates while it is in no scope call `enter` first, which may enter one. The first call of this function
    /// counts.
    pub fn enter_unscoped_by(enter: fn()) {
        let _ = UNSCOPED.set(enter);
    }

    /// The innermost scope of this thread. A thread in no scope may enter one now, in its own name only: its guard does not know the scopes
    /// of a caller that threads share.
    fn innermost() -> Option<Current> {
        let current = || with_serving(|serving| serving.current.get());
        current().or_else(|| {
            if is_shared() {
                return None;
            }
            UNSCOPED.get()?();
            current()
        })
    }

    /// Counts an allocation of another crate for the innermost scope, which this thread owns, if that scope keeps memory.
    #[inline]
    pub fn note_foreign(counter: Counter) {
        if let Some(cache) = keeping() {
            cache.shared.counters.add(counter, 1);
        }
    }

    /// The cache, if it keeps blocks.
    #[inline(always)]
    fn keeping(self) -> Option<&'static Cache> {
        (self.terms.recycle != Recycle::Off).then_some(self.cache)
    }

    /// The cache, if it plans.
    #[inline(always)]
    fn planning(self) -> Option<&'static Cache> {
        (self.terms.recycle == Recycle::Auto).then_some(self.cache)
    }
}

/// The caches that serve a thread.
pub(super) struct Serving {
    current: Cell<Option<Current>>,
    /// The cache of `current`, if it keeps blocks and no trace was on when `current` was set.
    keeping: Cell<Option<&'static Cache>>,
    /// The cache of the outermost scope, and the entry that it was in when the thread entered that scope.
    outermost: Cell<Option<(&'static Cache, Entry)>>,
    /// The cache of `current`, if it plans and no trace was on when `current` was set.
    planning: Cell<Option<&'static Cache>>,
}

/// The function that a thread calls if it allocates outside of all scopes.
static UNSCOPED: OnceLock<fn()> = OnceLock::new();

/// The values of a thread that caches need. They have no destructors, so they can be used at any time, also while the thread ends.
// Each allocation reads `serving`, and each entry writes it: it begins a line of the processor's cache.
#[repr(C, align(64))]
pub(super) struct OfThread {
    serving: Serving,
    /// The thread's own identity, while it works in the name of a caller.
    pub(super) own: Identity,
    /// Values to drop once the thread has given up all caches that it holds for a moment (`brief`).
    pub(super) later: ManuallyDrop<RefCell<DroppedLater>>,
}

/// Values to drop later. The streams of an arena and a ring need no heap memory here, since other threads may take both away in
/// each of their entries.
pub(super) type DroppedLater = (SmallVec<[Stream; 2]>, Vec<Box<dyn Any>>);

thread_local! {
    pub(super) static HERE: OfThread = const {
        let later = ManuallyDrop::new(RefCell::new((SmallVec::new_const(), Vec::new())));
        OfThread { serving: Serving::NOWHERE, own: Identity::of(0), later }
    };
}

/// Calls `act` with the caches that serve the calling thread.
#[inline(always)]
fn with_serving<R>(act: impl FnOnce(&Serving) -> R) -> R {
    HERE.with(|here| act(&here.serving))
}

impl Serving {
    /// Of a thread that is in no scope.
    #[allow(clippy::declare_interior_mutable_const, reason = "each use is a value of its own")]
    pub(super) const NOWHERE: Serving = Serving {
        current: Cell::new(None),
        keeping: Cell::new(None),
        outermost: Cell::new(None),
        planning: Cell::new(None),
    };
}

/// In whose name a thread works: the number of the caller, and the caches that serve it.
pub(super) struct Identity {
    pub(super) token: Cell<u64>,
    serving: Serving,
}

impl Identity {
    /// Of a caller that is in no scope.
    pub(super) const fn of(token: u64) -> Identity {
        Identity { token: Cell::new(token), serving: Serving::NOWHERE }
    }

    /// Notes the present identity of the thread here, and gives the thread that of `next`.
    #[inline(always)]
    pub(super) fn take_from_thread(&self, next: &Identity) {
        self.token.set(replace_token(next.token.get()));
        replace(&self.serving, &next.serving);
    }
}

/// Notes in `before` what serves this thread. From now on, `next` serves it.
#[inline(always)]
fn replace(before: &Serving, next: &Serving) {
    with_serving(|serving| {
        before.current.set(serving.current.replace(next.current.get()));
        before.keeping.set(serving.keeping.replace(next.keeping.get()));
        before.outermost.set(serving.outermost.replace(next.outermost.get()));
        before.planning.set(serving.planning.replace(next.planning.get()));
        if trace::is_on() {
            // The trace may have begun since the caller entered its scope, or on another thread.
            serving.keeping.set(None);
            serving.planning.set(None);
            tell_inside(serving.current.get().map(|current| current.cache));
            trace::read_clock_next();
        } else if next.keeping.get().is_none() {
            // A trace may have ended since the caller entered its scope.
            serving.keeping.set(next.current.get().and_then(Current::keeping));
            serving.planning.set(next.current.get().and_then(Current::planning));
        }
    });
}

#[cold]
fn tell_inside(cache: Option<&'static Cache>) {
    trace::inside(cache.and_then(Cache::title).as_ref());
}

/// The cache of the innermost scope, if it keeps blocks.
fn keeping() -> Option<&'static Cache> {
    with_serving(|serving| serving.keeping.get()).or_else(|| with_serving(|serving| serving.current.get())?.keeping())
}

/// How many allocations the innermost scope's lists have served.
pub(super) fn listed() -> u64 {
    keeping().map_or(0, |cache| cache.shared.counters.get(Counter::Listed))
}

/// Adds the request and the innermost scope to an error that an allocation met.
#[cold]
pub(super) fn refused(error: Error, request: &Request<'_>) -> Error {
    let scope = with_serving(|serving| serving.current.get()).and_then(|current| current.cache.scope_name());
    let place = scope.map_or_else(String::new, |name| format!(" in the scope `{}`", Short(&name)));
    let Request { type_name: dtype, dims, bytes, .. } = *request;
    let shape = format!("{dims:?}");
    let request = format!("an array of {dtype} of shape {}, {:#}{place}", Short(&shape), Bytes(bytes as u64));
    error.stopping(request, dtype, bytes)
}

/// The cache of the innermost scope, if it plans. While a trace is on, only for a caller that `is_traced`: it records what it does.
#[inline(always)]
fn planning(is_traced: bool) -> Option<&'static Cache> {
    with_serving(|serving| match is_traced {
        true => serving.current.get()?.planning(),
        false => serving.planning.get(),
    })
}

/// Serves the position that the innermost scope's plan expects next, if the request matches it.
#[inline(always)]
pub(super) fn serve_planned(stream: &Stream, dims: &[usize], bytes: usize, is_traced: bool) -> Option<Box<Record>> {
    let cache = planning(is_traced)?;
    // SAFETY: a cache that stands in `planning` or `current` was entered by this thread, so this thread owns it. Serving a position
    // touches only plain data, and so calls back into no cache.
    unsafe { cache.local.owned(|local| local.planner.serve(&cache.shared, stream, dims, bytes)) }
}

/// Takes back a record that the innermost scope's plan served, if nothing else has to be done for it. Returns any other record.
#[inline(always)]
pub(super) fn take_back_planned(record: Box<Record>, is_traced: bool) -> Option<Box<Record>> {
    let Some(cache) = planning(is_traced) else { return Some(record) };
    // SAFETY: a cache that stands in `planning` or `current` was entered by this thread, so this thread owns it. Taking a position
    // back touches only plain data: the record goes on a stack and is not dropped.
    unsafe { cache.local.owned(|local| local.planner.take_back(&cache.shared, record)) }
}

/// The cache of the innermost scope, if it keeps blocks and no trace is on.
#[inline(always)]
pub(super) fn keeping_untraced() -> Option<&'static Cache> {
    with_serving(|serving| serving.keeping.get())
}

/// Whether the record is a position of the innermost scope's arena.
pub(super) fn has_planned(record: &Record) -> bool {
    let current = with_serving(|serving| serving.current.get());
    record.arena().is_some() && current.is_some_and(|current| record.returns_to(&current.cache.door))
}

/// The proof of ownership for one call. The cache has to stand in `keeping` or `current`.
#[inline(always)]
pub(super) fn owner(cache: &'static Cache) -> Owner {
    // SAFETY: a cache that stands in `keeping` or `current` was entered by this thread, so this thread owns it. The proof serves
    // one call and is gone when that call returns, before a guard of this thread can leave the scope.
    unsafe { Owner::assume(cache) }
}

/// For the end of an entry: the proof of ownership for one call of the cache of the innermost scope that is still open.
pub(super) fn around(ended: &Cache) -> Option<Owner> {
    let current = with_serving(|serving| serving.current.get())?;
    (!std::ptr::eq(current.cache, ended)).then(|| owner(current.cache))
}

/// Identifies one entry of a scope.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    cache: usize,
    number: u64,
}

impl Entry {
    /// Identifies no entry.
    pub const NONE: Entry = Entry { cache: 0, number: 0 };

    #[inline]
    fn of(cache: &'static Cache) -> Entry {
        Entry { cache: std::ptr::from_ref(cache) as usize, number: cache.shared.counters.get(Counter::Entries) }
    }

    /// Identifies the scope on this thread.
    pub fn scope(self) -> usize {
        self.cache
    }

    /// The thread's current entry of its outermost scope.
    #[inline]
    pub fn outermost() -> Option<Entry> {
        with_serving(|serving| serving.outermost.get()).map(|(_, entry)| entry)
    }

    /// The name of the thread's outermost scope.
    pub fn outermost_name() -> Option<Arc<str>> {
        with_serving(|serving| serving.outermost.get())?.0.scope_name()
    }

    /// The thread's current entry of its innermost scope, if that scope keeps memory; otherwise [`Entry::NONE`].
    #[inline]
    pub fn now() -> Entry {
        Entry::serving().unwrap_or(Entry::NONE)
    }

    /// The thread's current entry of its innermost scope, if that scope keeps memory.
    #[inline]
    pub fn serving() -> Option<Entry> {
        keeping().or_else(|| Current::innermost()?.keeping()).map(Entry::of)
    }
}

/// A record for `request` from the innermost scope. `None` if no scope keeps blocks, or if a trace is on or was on when the scope
/// was entered.
#[inline]
pub(super) fn allocate(stream: &Stream, request: &Request<'_>) -> Option<Result<Box<Record>>> {
    with_serving(|serving| serving.keeping.get()).map(|cache| owner(cache).allocate(stream, request))
}

/// A record for a request that [`allocate`] does not serve: from the innermost scope, or straight from the device outside of
/// scopes.
pub(super) fn find_beside(stream: &Stream, request: &Request<'_>) -> Result<Box<Record>> {
    let Some(current) = Current::innermost() else {
        stream.refuse_in_capture()?;
        return supply::from_device(stream, request, None);
    };
    let owner = owner(current.cache);
    match current.keeping() {
        Some(_) => owner.allocate(stream, request),
        None => owner.allocate_unkept(stream, request),
    }
}
