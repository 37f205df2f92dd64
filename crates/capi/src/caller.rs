//! The caller in whose name a thread works. Each thread has one of its own. A thread that helps another one ([`helpers`]) uses that one's.

use std::cell::Cell;

use gpucache::{Error, Result};
use gpucache_engine::device::exits_with_thread;
use parking_lot::Mutex;

use crate::shared::{Inside, SharedCaller, is_busy};
use crate::streams::KnownStreams;
use crate::{captures, forks, helpers};

/// For whom a thread works.
#[derive(Clone, Copy)]
enum Works {
    /// Nobody asked yet.
    Unknown,
    ForItself(&'static SharedCaller),
    /// For the caller that runs a backward pass.
    ForAnother,
    /// The thread ends, and its caller is gone.
    ForNobody,
}

thread_local! {
    // Has no destructor, so it can be read while the thread ends.
    static WORKS: Cell<Works> = const { Cell::new(Works::Unknown) };
    static END: End = const { End };
}

/// Gives the thread's caller back when the thread ends.
struct End;

/// Callers of threads that have ended, for the next threads.
static UNUSED: Mutex<Vec<&'static SharedCaller>> = Mutex::new(Vec::new());

/// The caller for which this thread works. `None` if the thread ends, or works in the name of a caller already.
#[inline]
pub(crate) fn mine() -> Option<&'static SharedCaller> {
    match WORKS.get() {
        _ if is_busy() => None,
        Works::ForItself(caller) => Some(caller),
        Works::ForAnother => helpers::helped().or_else(own),
        Works::Unknown => begin(),
        Works::ForNobody => None,
    }
}

/// Whether the thread works for itself and not for another one.
#[inline]
pub(crate) fn is_own() -> bool {
    matches!(WORKS.get(), Works::ForItself(_))
}

/// The first call of a thread. The first one of the process starts what `GPUCACHE_WATCH` asks for.
#[cold]
fn begin() -> Option<&'static SharedCaller> {
    gpucache::__private::start_from_environment();
    if helpers::is_helper() {
        WORKS.set(Works::ForAnother);
        return mine();
    }
    let caller = own()?;
    WORKS.set(Works::ForItself(caller));
    Some(caller)
}

/// A caller for this thread alone. A helper that has nobody to help gets one too.
#[cold]
fn own() -> Option<&'static SharedCaller> {
    if let Some(known) = OWNED.get() {
        return Some(known);
    }
    END.try_with(|_| ()).ok()?;
    let caller = UNUSED.lock().pop().unwrap_or_else(SharedCaller::leak);
    OWNED.set(Some(caller));
    Some(caller)
}

thread_local! {
    /// The caller that the end of the thread gives back.
    static OWNED: Cell<Option<&'static SharedCaller>> = const { Cell::new(None) };
    /// Whether the thread has entered a scope in the name of another thread's caller.
    static HAS_ENTERED: Cell<bool> = const { Cell::new(false) };
}

impl Drop for End {
    fn drop(&mut self) {
        WORKS.set(Works::ForNobody);
        if exits_with_thread() {
            return;
        }
        if HAS_ENTERED.get() {
            helpers::inside().into_iter().for_each(leave_all_of_thread);
        }
        let Some(caller) = OWNED.take() else { return };
        caller.call(|inside| {
            inside.scopes.leave_all_of_thread();
            inside.is_left = true;
            pass_on(caller, inside);
        });
    }
}

/// Gives a caller whose thread has ended to the next thread, unless a helper is inside a scope in its name.
fn pass_on(caller: &'static SharedCaller, inside: &mut Inside) {
    if inside.is_left && inside.scopes.count() == 0 {
        helpers::ended(caller);
        inside.scopes.close();
        inside.streams = KnownStreams::default();
        inside.is_left = false;
        UNUSED.lock().push(caller);
    }
}

/// Why the thread has no caller now.
fn ending() -> Error {
    let (why, remedy) = match is_busy() {
        true => ("this thread runs a pressure handler", "enter and leave scopes outside of handlers"),
        false => ("this thread is about to end", "enter and leave scopes before the thread's locals are dropped"),
    };
    Error::unavailable("a scope", why, remedy)
}

/// Enters the scope `name`: until [`leave`], what this thread allocates comes from its cache. Returns the number of the entry.
///
/// # Errors
/// If the thread is about to end.
///
/// ```
/// let entry = gpucache_capi::enter("step")?;
/// let address = gpucache_capi::allocate(4096, -1, 0)?; // -1 is the host
/// gpucache_capi::free(address)?;
/// gpucache_capi::leave(entry)?;
/// assert_eq!(gpucache::stats("step").unwrap().misses, 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn enter(name: &str) -> Result<u64> {
    open(Some(name))
}

/// Leaves all scopes until [`leave`]: what this thread allocates belongs to no scope, which would keep it.
///
/// # Errors
/// If the thread is about to end.
///
/// ```
/// let entry = gpucache_capi::enter_uncached()?;
/// gpucache_capi::leave(entry)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn enter_uncached() -> Result<u64> {
    open(None)
}

fn open(name: Option<&str>) -> Result<u64> {
    let caller = mine().ok_or_else(ending)?;
    if !is_own() {
        HAS_ENTERED.set(true);
        END.try_with(|_| ()).map_err(|_| ending())?;
    }
    Ok(caller.call(|inside| {
        let entry = inside.scopes.enter(name);
        if inside.scopes.count() == 1 {
            helpers::entered(caller);
        }
        entry
    }))
}

/// Ends an entry that [`enter`] or [`enter_uncached`] began on this thread. Entries may end in any order.
///
/// # Errors
/// If this thread has no open entry of this number.
///
/// ```
/// assert!(gpucache_capi::leave(u64::MAX).is_err()); // nobody began it
/// ```
pub fn leave(entry: u64) -> Result<()> {
    let caller = mine().ok_or_else(ending)?;
    // A helper may have entered in the name of a caller that it does not help any more.
    let others = || if is_own() { Vec::new() } else { helpers::inside().into_iter().chain(own()).collect() };
    match end(caller, entry) || others().into_iter().any(|caller| end(caller, entry)) {
        true => Ok(()),
        false => Err(Error::unavailable(
            "this entry of a scope",
            "it is not open on this thread",
            "leave each entry once, on the thread that entered",
        )),
    }
}

/// Ends an entry of a caller. Returns whether it was open.
fn end(caller: &'static SharedCaller, entry: u64) -> bool {
    caller.call(|inside| {
        let was_open = inside.scopes.leave(entry);
        if was_open {
            note_left(caller, inside);
        }
        was_open
    })
}

/// Ends the entries that this thread began in the name of a caller.
fn leave_all_of_thread(caller: &'static SharedCaller) {
    caller.call(|inside| {
        inside.scopes.leave_all_of_thread();
        note_left(caller, inside);
    });
}

/// Notes that entries were ended in the name of a caller.
fn note_left(caller: &'static SharedCaller, inside: &mut Inside) {
    if inside.scopes.count() == 0 {
        helpers::left(caller);
    }
    pass_on(caller, inside);
}

/// Frees the memory of a scope on all threads, or of all scopes, as [`gpucache::invalidate`] does. Returns the bytes that it frees. A name
/// that no scope has frees nothing, and the first call with it prints a line on stderr.
///
/// ```
/// # let entry = gpucache_capi::enter("frame")?;
/// gpucache_capi::free(gpucache_capi::allocate(4096, -1, 0)?)?;
/// # gpucache_capi::leave(entry)?;
/// assert_eq!(gpucache_capi::invalidate(Some("frame")), 4096);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn invalidate(name: Option<&str>) -> u64 {
    in_scopes(|| forks::invalidate(name))
}

/// Runs `act` in the name of this thread's caller, which then is inside its scopes: their idle memory goes back at once, and their figures are
/// exact. The same context is current afterwards as before.
///
/// ```
/// let entry = gpucache_capi::enter("step")?;
/// let address = gpucache_capi::allocate(4096, -1, 0)?;
/// let stats = gpucache_capi::in_scopes(|| gpucache::stats("step")).unwrap();
/// assert_eq!((stats.busy_blocks, stats.busy_bytes), (1, 4096));
/// gpucache_capi::free(address)?;
/// gpucache_capi::leave(entry)?;
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn in_scopes<R>(act: impl FnOnce() -> R) -> R {
    captures::relaxed(|| match mine() {
        Some(caller) => caller.call(|_| act()),
        None => act(),
    })
}
