//! What a program gives up when memory is short: handlers that it registered for a device.
//!
//! A handler is called without a lock held and may do whatever a program may: drop arrays, invalidate, enter scopes. A panic
//! in one ends there. What is allocated in one takes the reclaim steps too, but for this one.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

use crate::base::errand::run_user_code;
#[cfg(debug_assertions)]
use crate::base::held::assert_nothing_held;
use crate::base::per_thread::{THREAD, with_flag};
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::{Memory, Stream};

/// What an allocation needs that found no memory so far.
///
/// ```
/// use gpucache::{device::Virtual, on_pressure, prelude::*};
///
/// let device = Virtual::new(1 << 20);
/// let handler = on_pressure(&device, |pressure| println!("{} bytes for {:?}", pressure.bytes, pressure.scope));
/// assert!(device.zeros::<u8>(2 << 20).is_err()); // the handler gave nothing up
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pressure<'a> {
    /// The bytes of the array.
    pub bytes: u64,
    /// Its shape.
    pub shape: &'a [usize],
    /// The innermost scope, if there is one.
    pub scope: Option<Arc<str>>,
    /// What scopes gave back so far.
    pub freed_bytes: u64,
}

/// A handler that is registered as long as this lives: of [`on_pressure`].
///
/// ```
/// use gpucache::{PressureHandler, device::Virtual, on_pressure};
///
/// let handler: PressureHandler = on_pressure(&Virtual::new(1 << 20), |_| {});
/// drop(handler); // not called any more
/// ```
#[must_use = "the handler is called only as long as this lives"]
pub struct PressureHandler(Arc<Handler>);

type Act = dyn Fn(&Pressure<'_>) + Send + Sync;

/// A handler, and the device that it is for.
pub(super) struct Handler {
    device: u64,
    act: Box<Act>,
}

fn handlers() -> MutexGuard<'static, Vec<Arc<Handler>>> {
    static HANDLERS: Mutex<Vec<Arc<Handler>>> = Mutex::new(Vec::new());
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `handler` when an allocation on `device` finds no memory though all that is idle went back, as the last thing
/// before its error, on the thread that allocates. The allocation tries again after each handler.
///
/// Handlers are called in the order in which they were registered, without a lock held. One may drop arrays, invalidate, write
/// something elsewhere, or enter scopes and allocate; no handler is called for what is allocated in one. A panic in
/// one is caught, and counts as nothing given up. The answer keeps the handler registered: once it is dropped, in another handler
/// too, no call begins.
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use gpucache::{ReclaimStep, reclaim, device::Virtual, on_pressure, prelude::*};
///
/// let device = Virtual::new(8 << 20);
/// let cache = Arc::new(Mutex::new(vec![device.zeros::<u8>(6 << 20)?])); // can be computed again
/// let spare = cache.clone();
/// let _handler = on_pressure(&device, move |_| spare.lock().unwrap().clear());
/// let array = device.zeros::<u8>(4 << 20)?;
/// assert!(cache.lock().unwrap().is_empty());
/// assert_eq!(reclaim(&device).step(ReclaimStep::Handlers).served, 1);
/// # drop(array);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn on_pressure(memory: &Memory, handler: impl Fn(&Pressure<'_>) + Send + Sync + 'static) -> PressureHandler {
    let handler = Arc::new(Handler { device: memory.id(), act: Box::new(handler) });
    handlers().push(handler.clone());
    PressureHandler(handler)
}

impl Drop for PressureHandler {
    fn drop(&mut self) {
        handlers().retain(|handler| !Arc::ptr_eq(handler, &self.0));
    }
}

impl fmt::Debug for PressureHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PressureHandler").field("device", &self.0.device).finish_non_exhaustive()
    }
}

/// Runs `act`, in which no handler is called.
pub fn without_handlers<R>(act: impl FnOnce() -> R) -> R {
    with_flag(|thread| &thread.is_in_handler, act)
}

/// The handlers of the stream's device, in order; none for what is allocated in one. Each is given only while it is registered, as
/// those before it may have dropped others.
pub(super) fn of(stream: &Stream) -> impl Iterator<Item = Arc<Handler>> + use<> {
    let device = stream.memory_id();
    let known = if THREAD.with(|thread| thread.is_in_handler.get()) { Vec::new() } else { handlers().clone() };
    known.into_iter().filter(move |handler| handler.device == device && is_registered(handler))
}

fn is_registered(handler: &Arc<Handler>) -> bool {
    handlers().iter().any(|known| Arc::ptr_eq(known, handler))
}

impl Handler {
    pub(super) fn call(&self, pressure: &Pressure<'_>) {
        without_handlers(|| run_user_code(|| self.call_alone(pressure)));
    }

    fn call_alone(&self, pressure: &Pressure<'_>) {
        // What it left half done is its own: the crate shares nothing with it but what any code of the program may use.
        let panicked = catch_unwind(AssertUnwindSafe(|| (self.act)(pressure))).err();
        // The drop of what it panicked with may allocate, and panic as well: what it panics with then is leaked, as its drop
        // might do the same.
        let again = catch_unwind(AssertUnwindSafe(|| drop(panicked)));
        std::mem::forget(again);
    }
}

/// The program's closure is dropped with it.
#[cfg(debug_assertions)]
impl Drop for Handler {
    fn drop(&mut self) {
        assert_nothing_held();
    }
}
