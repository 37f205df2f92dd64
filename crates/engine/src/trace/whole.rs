//! A trace that has ended: its events in order, each free with the allocation that it ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::event::{Action, TraceDevice, TraceEvent};
use super::merge::merge;
use super::packed::{Lies, Packed};
use super::session::{self, Session, Site, Title};
use crate::base::amounts::total;

/// The events of a trace, as `gpucache::trace::stop` returns them.
///
/// Frees of arrays that were allocated before the trace are left out. If the free of an array was lost, the array ends when its
/// address is allocated again. So each free comes after its allocation, and no address of a device is in use twice.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
///
/// trace::start(5);
/// cache_scope!(epoch, { drop(Host::new().zeros::<f32>(16)?) });
/// let trace = trace::stop();
/// assert_eq!((trace.events.len(), trace.lost), (5, 0));
///
/// let mut file = Vec::new();
/// trace.write_csv(&mut file)?;
/// assert!(file.starts_with(b"step,op,id,bytes,stream,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Trace {
    /// All events that the trace kept, in order.
    pub events: Vec<TraceEvent>,
    /// The number of lost events. Newer events of the same thread overwrote them, or their thread was ending.
    pub lost: u64,
    /// The devices that the events name.
    pub devices: Vec<TraceDevice>,
}

impl Trace {
    /// Begins a trace. Each thread keeps its newest `capacity` events. If a trace is on already, it is dropped.
    #[doc(hidden)]
    pub fn start(capacity: usize) {
        session::begin(capacity);
    }

    /// Ends the trace and returns it. The trace is empty if none was on.
    #[doc(hidden)]
    pub fn stop() -> Trace {
        session::end().map_or_else(Trace::default, |(session, unwritten)| Trace::of(&session, unwritten))
    }

    pub(super) fn of(session: &Session, unwritten: u64) -> Trace {
        let (kept, lost): (Vec<_>, Vec<u64>) = session.rings.iter().map(|ring| ring.read()).unzip();
        let (told, lost) = (merge(kept), total(lost.into_iter().chain([unwritten])));
        Trace { events: paired(session, told), lost, devices: session.devices.clone() }
    }
}

/// All events with names. Each free gets the rest of the allocation that it ends, since a free records only its address. If an address is
/// allocated while it is still in use, its free was lost and is added first.
fn paired(session: &Session, told: Vec<(u32, Packed)>) -> Vec<TraceEvent> {
    // The place in `events` of each allocation in use.
    let mut live = HashMap::<Lies, usize>::new();
    let (mut events, mut allocations) = (Vec::with_capacity(told.len()), 0);
    for (thread, event) in told {
        let ended = match event.action {
            Action::Allocated | Action::Freed => live.remove(&event.lies()),
            Action::Entered | Action::Left | Action::Short | Action::Reserved => None,
        };
        if let Some(place) = ended {
            let TraceEvent { id, bytes, stream, .. } = events[place];
            let freed = Packed { action: Action::Freed, dtype: 0, site: 0, served_by: None, bytes, stream, ..event };
            events.push(unpacked(session, thread, &freed, id));
        }
        let is_allocation = event.action == Action::Allocated;
        if is_allocation {
            live.insert(event.lies(), events.len());
            allocations += 1;
        }
        if event.action != Action::Freed {
            events.push(unpacked(session, thread, &event, if is_allocation { allocations } else { 0 }));
        }
    }
    events
}

/// The name of a scope, so that an empty one differs from that of no scope in a file too.
fn shown(name: &Arc<str>) -> Arc<str> {
    if name.is_empty() { "\"\"".into() } else { name.clone() }
}

/// An event with names instead of numbers.
fn unpacked(session: &Session, thread: u32, event: &Packed, id: u64) -> TraceEvent {
    let Packed { time, action, served_by, device, address, bytes, stream, .. } = *event;
    let title: Option<&Title> = session.scopes.of(event.scope as usize);
    let dtype = session.dtypes.of(event.dtype.into());
    let site: Option<&Site> = session.sites.of(event.site as usize);
    let is_allocation = matches!(action, Action::Allocated | Action::Short);
    TraceEvent {
        time: Duration::from_nanos(time),
        thread,
        action,
        id,
        bytes,
        address,
        stream,
        device,
        scope: title.map(|title| shown(&title.0)),
        scope_site: title.and_then(|title| title.1),
        site: site.map(|site| site.0),
        stack: site.and_then(|site| site.1.clone()),
        dtype: dtype.copied().unwrap_or_default(),
        shape: if is_allocation { event.shape.dims() } else { Vec::new() },
        served_by,
    }
}
