//! The calls of a device that order its streams.

use std::fmt;

use gpucache_engine::base::amounts::Count;
use gpucache_engine::device::Memory;

/// How many calls of a device served to order its streams since the process began. These calls let memory of one stream serve another one.
/// A program with one stream needs none of them to allocate and to free. It needs one only before pages move or are freed, to learn whether
/// the stream is done.
///
/// ```
/// use gpucache::{device::OrderUse, prelude::*};
///
/// let (first, second) = (Host::new_stream()?, Host::new_stream()?);
/// let mut array = first.zeros::<f32>(1000)?;
/// assert_eq!(first.ordering(), OrderUse::default());
/// second.launch(&mut array, |array| array.fill(1.0))?; // waits for the zeros
/// assert_eq!(first.ordering().waits, 1);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OrderUse {
    /// Events recorded: at most one for each epoch of a stream. An epoch ends when its event is recorded.
    pub events: u64,
    /// Queries whether an event is complete.
    pub queries: u64,
    /// How often a stream was told to wait for an event. The calling thread does not wait then.
    pub waits: u64,
}

impl OrderUse {
    pub(crate) fn of(memory: &Memory) -> OrderUse {
        let [events, queries, waits] = memory.meter().read_order();
        OrderUse { events, queries, waits }
    }
}

impl fmt::Display for OrderUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OrderUse { events, queries, waits } = self;
        let (events, waits) = (Count(*events, "event", "events"), Count(*waits, "wait", "waits"));
        write!(f, "{events}, {}, {waits}", Count(*queries, "query", "queries"))
    }
}
