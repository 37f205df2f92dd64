//! Handlers that a program registers for a device. They give something up when memory is short.
//!
//! A handler is called without a lock held, and may do everything that a program may do: drop arrays, invalidate, enter scopes. A
//! panic in a handler ends there. Allocations in a handler take the reclaim steps too, except the step that calls handlers.

use std::fmt;
use std::sync::Arc;

use crate::base::errand::run_user_code;
#[cfg(debug_assertions)]
use crate::base::held::assert_nothing_held;
use crate::base::panics::panic_of;
use crate::base::per_thread::{THREAD, with_flag};
use crate::base::sync::{Mutex, lock};
use crate::device::{Memory, Stream};

/// The request of an allocation that has found no memory so far.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*};
///
/// let device = Virtual::new(1 << 20);
/// let handler = device.on_pressure(|pressure| println!("{} bytes for {:?}", pressure.bytes, pressure.scope));
/// assert!(device.zeros::<u8>(2 << 20).is_err()); // the handler gave nothing up
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pressure<'a> {
    /// The bytes of the array.
    pub bytes: u64,
    /// The shape of the array.
    pub shape: &'a [usize],
    /// The innermost scope of the allocation, if there is one.
    pub scope: Option<Arc<str>>,
    /// The bytes that scopes have given back so far, or that executables of graphs had.
    pub freed_bytes: u64,
}

/// Keeps a handler registered as long as it lives; returned by [`Memory::on_pressure`].
///
/// ```
/// use gpucache::device::{Device, PressureHandler, Virtual};
///
/// let handler: PressureHandler = Virtual::new(1 << 20).on_pressure(|_| {});
/// drop(handler); // not called any more
/// ```
#[must_use = "the handler is called only as long as this lives"]
pub struct PressureHandler(Arc<Handler>);

type Act = dyn Fn(&Pressure<'_>) + Send + Sync;

/// A handler, and its device.
pub(super) struct Handler {
    device: u64,
    act: Box<Act>,
}

static HANDLERS: Mutex<Vec<Arc<Handler>>> = Mutex::new(Vec::new());

impl Memory {
    /// Calls `handler` before an allocation on this device fails, until the returned value is dropped. No lock is held meanwhile.
    #[doc(hidden)]
    pub fn on_pressure(&self, handler: impl Fn(&Pressure<'_>) + Send + Sync + 'static) -> PressureHandler {
        let handler = Arc::new(Handler { device: self.id(), act: Box::new(handler) });
        lock(&HANDLERS).push(handler.clone());
        PressureHandler(handler)
    }

    /// Runs `act`. Allocations within it call no handlers.
    #[doc(hidden)]
    pub fn without_handlers<R>(act: impl FnOnce() -> R) -> R {
        with_flag(|thread| &thread.is_in_handler, act)
    }
}

impl Drop for PressureHandler {
    fn drop(&mut self) {
        lock(&HANDLERS).retain(|handler| !Arc::ptr_eq(handler, &self.0));
    }
}

impl fmt::Debug for PressureHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PressureHandler").field("device", &self.0.device).finish_non_exhaustive()
    }
}

/// The handlers of the stream's device, in order; none for an allocation within a handler. Each is returned only while it is
/// registered, since earlier handlers may have dropped later ones.
pub(super) fn of(stream: &Stream) -> impl Iterator<Item = Arc<Handler>> + use<> {
    let device = stream.memory_id();
    let known = if THREAD.with(|thread| thread.is_in_handler.get()) { Vec::new() } else { lock(&HANDLERS).clone() };
    let is_registered = |handler: &Arc<Handler>| lock(&HANDLERS).iter().any(|known| Arc::ptr_eq(known, handler));
    known.into_iter().filter(move |handler| handler.device == device && is_registered(handler))
}

impl Handler {
    pub(super) fn call(&self, pressure: &Pressure<'_>) {
        Memory::without_handlers(|| run_user_code(|| _ = panic_of(|| (self.act)(pressure))));
    }
}

/// The program's closure is dropped with the handler.
#[cfg(debug_assertions)]
impl Drop for Handler {
    fn drop(&mut self) {
        assert_nothing_held();
    }
}
