//! The events of a trace: allocations and frees, memory that a device gave or took back, and scopes that were entered and left.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// An event of memory or of a scope.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache::trace::{Action, ServedBy};
///
/// trace::start(1000);
/// cache_scope!(decode, { drop(Host::new().zeros::<f32>([2, 3])?) });
/// let events = trace::stop().events;
/// let actions: Vec<Action> = events.iter().map(|event| event.action).collect();
/// use Action::{Allocated, Entered, Freed, Left, Reserved};
/// assert_eq!(actions, [Entered, Reserved, Allocated, Freed, Left]);
/// let allocated = &events[2];
/// assert_eq!((allocated.scope.as_deref(), allocated.dtype, allocated.bytes), (Some("decode"), "f32", 24));
/// assert_eq!((&*allocated.shape, allocated.served_by), (&[2, 3][..], Some(ServedBy::Range)));
/// assert_eq!((events[3].id, events[3].address), (allocated.id, allocated.address));
/// assert!(events[1].bytes >= 24 && events[1].device == allocated.device);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TraceEvent {
    /// The time since the trace began. The clock is read when a scope is entered or left, when a device gives or takes memory back,
    /// and at each 64th event of a thread. The events between two readings get evenly spread times.
    pub time: Duration,
    /// The thread, as a number that counts the threads of the trace from 0.
    pub thread: u32,
    /// The kind of this event.
    pub action: Action,
    /// Identifies an allocation and its free, from 1; 0 for all other events.
    pub id: u64,
    /// The size of the array; for a shortage, the requested bytes; for `Reserved`, the bytes that are reserved from the device from
    /// then on; 0 for a scope.
    pub bytes: u64,
    /// The address of the array; 0 for events without memory.
    pub address: u64,
    /// The number of the stream, as `{:?}` shows a [`Stream`](crate::device::Stream).
    pub stream: u64,
    /// The device, as a number that counts the process's devices from 1, modulo 256; 0 for a scope. At one time, only one array of
    /// a device has a given address.
    pub device: u8,
    /// The scope that was entered or left. For other events, the thread's innermost scope, if it was in any. A scope with an empty name
    /// has the name `""` here: two quotation marks.
    pub scope: Option<Arc<str>>,
    /// The place in the program that names the scope.
    pub scope_site: Option<&'static Location<'static>>,
    /// The source line that allocated an array, or tried to: the call of its constructor. `None` for other events, and for
    /// allocations of other crates.
    pub site: Option<&'static Location<'static>>,
    /// With the feature `backtrace`: the functions that called that line, the innermost first, one in each line of the text.
    pub stack: Option<Arc<str>>,
    /// The element type of an allocation; empty for other events.
    pub dtype: &'static str,
    /// The shape of an allocation. If it has too many dimensions, the first ones are multiplied into one. That is so with more than
    /// six dimensions, and with more than three if one of them is 2³¹ or more.
    pub shape: Vec<usize>,
    /// The part that served an allocation.
    pub served_by: Option<ServedBy>,
}

/// A device of a trace.
///
/// ```
/// use gpucache::{prelude::*, trace};
///
/// trace::start(1000);
/// drop(Host::new().zeros::<u8>(100)?);
/// let trace = trace::stop();
/// assert_eq!((trace.devices[0].device, trace.devices[0].page_bytes), (trace.events[0].device, 64 << 10));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TraceDevice {
    /// The device by number, as in [`TraceEvent::device`].
    pub device: u8,
    /// The size of the pages that the device reserves for scopes; 0 if it has no pages.
    pub page_bytes: u64,
}

/// The kind of an event.
///
/// ```
/// use gpucache::{device::Virtual, prelude::*, trace, trace::Action};
///
/// trace::start(1000);
/// assert!(Virtual::new(1 << 20).zeros::<u8>(2 << 20).is_err());
/// assert!(trace::stop().events.iter().any(|event| event.action == Action::Short && event.bytes == 2 << 20));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// An array got memory.
    Allocated,
    /// An array was dropped.
    Freed,
    /// A scope was entered.
    Entered,
    /// A scope was left.
    Left,
    /// An allocation found no memory.
    Short,
    /// The device gave memory or took it back. `bytes` is the memory reserved from it from then on, in use or idle.
    Reserved,
}

/// The part of gpucache that served an allocation.
///
/// ```
/// use gpucache::{prelude::*, trace, trace::ServedBy};
///
/// trace::start(1000);
/// let outside = Host::new().zeros::<u8>(100)?; // of no scope
/// let served_by = trace::stop().events.iter().find_map(|event| event.served_by);
/// assert_eq!(served_by, Some(ServedBy::Device));
/// # drop(outside);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServedBy {
    /// The plan of the scope.
    Plan,
    /// The keyed lists of the scope.
    List,
    /// The range of addresses that all scopes share.
    Range,
    /// The device itself.
    Device,
}

impl Action {
    /// All actions, by their numbers in a ring.
    pub(super) const ALL: [Action; 6] =
        [Action::Allocated, Action::Freed, Action::Entered, Action::Left, Action::Short, Action::Reserved];
}

impl ServedBy {
    /// All values, by their numbers in a ring.
    pub(super) const ALL: [ServedBy; 4] = [ServedBy::Plan, ServedBy::List, ServedBy::Range, ServedBy::Device];

    /// The word for this value in a file.
    pub(super) fn word(self) -> &'static str {
        match self {
            ServedBy::Plan => "plan",
            ServedBy::List => "list",
            ServedBy::Range => "range",
            ServedBy::Device => "device",
        }
    }
}
