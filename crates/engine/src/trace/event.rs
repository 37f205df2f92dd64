//! What a trace tells: one event each for what was allocated and freed, for what a device gave and took back, and for scopes
//! that were entered and left.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened to memory or to a scope.
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
    /// Since the trace began. The clock is read where a scope is entered or left, where a device gives or takes memory back, and at
    /// each 64th event of a thread: the times of those between are spread evenly.
    pub time: Duration,
    /// The thread, by a number that counts the threads of the trace from 0.
    pub thread: u32,
    /// What happened.
    pub action: Action,
    /// Names one allocation and its free, from 1; 0 for what is neither.
    pub id: u64,
    /// Of the array; for a shortage, what was asked for; what is held from the device from then on, where that changed. 0 for a
    /// scope.
    pub bytes: u64,
    /// Where the array lies; 0 for what has no memory.
    pub address: u64,
    /// The number of the stream, as `{:?}` shows a [`Stream`](crate::device::Stream).
    pub stream: u64,
    /// The device, by a number that counts those of the process from 1, modulo 256; 0 for a scope. An address is in use once at a
    /// time on each.
    pub device: u8,
    /// The scope that was entered or left; else the innermost one of the thread, if it was in any.
    pub scope: Option<Arc<str>>,
    /// Where that scope is named in the program.
    pub scope_site: Option<&'static Location<'static>>,
    /// The source line that allocated an array, or tried to: the call of its constructor. `None` for other events, and for what other
    /// crates allocate.
    pub site: Option<&'static Location<'static>>,
    /// With the feature `backtrace`: the functions that led to that line, the innermost first, one in each line of the text.
    pub stack: Option<Arc<str>>,
    /// The type of the elements of what was allocated; empty for other events.
    pub dtype: &'static str,
    /// The shape of what was allocated. Where it has more than six dimensions, or one of 2³² or more among more than three,
    /// the first of them are multiplied.
    pub shape: Vec<usize>,
    /// What served an allocation.
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

/// What an event tells of.
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
    /// The device gave memory, or took it back: `bytes` is what is held from it from then on, in use or idle.
    Reserved,
}

/// What served an allocation.
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
    /// The plan of its scope.
    Plan,
    /// The lists of its scope.
    List,
    /// The range of addresses that scopes share.
    Range,
    /// The device itself.
    Device,
}

impl Action {
    /// All of them, by their numbers in a ring.
    pub(super) const ALL: [Action; 6] =
        [Action::Allocated, Action::Freed, Action::Entered, Action::Left, Action::Short, Action::Reserved];
}

impl ServedBy {
    /// All of them, by their numbers in a ring.
    pub(super) const ALL: [ServedBy; 4] = [ServedBy::Plan, ServedBy::List, ServedBy::Range, ServedBy::Device];

    /// The word for it in a file.
    pub(super) fn word(self) -> &'static str {
        match self {
            ServedBy::Plan => "plan",
            ServedBy::List => "list",
            ServedBy::Range => "range",
            ServedBy::Device => "device",
        }
    }
}
