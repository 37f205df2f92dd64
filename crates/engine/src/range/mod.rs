//! The range of a device: it decides where blocks lie, which pages are behind them, and when to request more pages.
//!
//! Each device has one range, which serves blocks to all scopes and threads. It uses the best fit, and merges a freed block with its free
//! neighbours at once. [`DeviceRange`] is the range of a device. The other types compute with plain numbers, and reach the device only
//! through [`Pages`](crate::device::Pages).
//!
//! A request takes this way: `DeviceRange::reuse` (`supply`) locks the range and looks for a free span that the request's stream may use
//! (`ordered`, `fit`, `bins`). If there is none, the caller tries cheaper steps first and then calls `DeviceRange::allocate`, which maps
//! more pages (`window`, `sizing`, `mapping`). `DeviceRange::free` (`shared`) takes a block back.
//!
//! The same code serves two kinds of memory:
//!
//! * a **span**: one stretch of reserved addresses. Pages are mapped behind it as it grows, and unmapped anywhere in it.
//! * **chunks**: contiguous pieces at addresses that the device chooses, for devices without virtual memory management. No block reaches
//!   across two chunks.
//!
//! | file | its subject |
//! |---|---|
//! | `shared` | [`DeviceRange`]: the range of a device, behind its lock |
//! | `ordered` | which stream may use which memory of the range at once |
//! | `supply` | the first and the last step of an allocation; the calls for a shortage |
//! | `wait` | how long a thread waits for other work |
//! | `waits` | how often a range may wait rather than grow |
//! | `under_way` | the work that uses free memory now, for a caller who waits for all of it |
//! | `trim` | pages that are returned to the device; the wait for work on unknown streams |
//! | `range` | [`Range`]: allocate, free, trim, counters |
//! | `fit` | which free span serves a request, how spans split and merge |
//! | `across` | blocks across neighbouring free spans, which different work may still use |
//! | `at` | blocks at given addresses |
//! | `bins` | free spans in order of size |
//! | `spans` | spans in order of address |
//! | `window` | where the fewest pages are missing, if no mapped span is long enough |
//! | `exchanges` | how much a range may reserve before pages move, and how often they may move |
//! | `exchange` | pages that move before the range grows, and the wait for their work |
//! | `gather` | how pages move to make room for a large block without more reserved memory |
//! | `clearing` | which blocks must move so that free memory lies side by side |
//! | `cut` | long handles of which a block needs only a part |
//! | `split` | how a block is divided |
//! | `room` | blocks with addresses to grow into |
//! | `sizing` | how much to map at a time |
//! | `mapping` | calls of the device, and the record of their results |
//! | `handles` | which pieces the device has mapped |

mod across;
mod at;
mod bins;
mod clearing;
mod cut;
mod exchange;
mod exchanges;
mod fit;
mod gather;
mod handles;
mod mapping;
mod ordered;
#[expect(clippy::module_inception, reason = "the range proper, among what it is made of")]
mod range;
mod room;
mod shared;
mod sizing;
mod spans;
mod split;
mod supply;
#[cfg(test)]
mod tests;
mod trim;
mod under_way;
mod wait;
mod waits;
mod window;

use crate::order::Tag;
use range::{Range, RangeError};

pub(crate) use cut::Cut;
pub(crate) use fit::RangeBlock;
pub(crate) use gather::GatherLimit;
pub(crate) use ordered::{Carved, Obtained, RangeState};
pub(crate) use room::GrowthRoom;
pub use shared::DeviceRange;
pub(crate) use supply::{await_elsewhere, devices_but, give_back_elsewhere};
pub(crate) use trim::trim_all;
pub(crate) use under_way::UnderWay;
pub(crate) use wait::{LONGEST, WaitFor};

#[cfg(test)]
use {
    crate::device::{Pages, Unfinished},
    range::{Backing, Stats},
    spans::{RangeSpan, SpanState},
};

/// Every block starts at a multiple of this many bytes, and its size is rounded up to such a multiple.
///
/// CUDA promises 256 for its own allocations. Vector loads and kernels of most libraries rely on it.
const ALIGN: u64 = 256;
