//! One range of device memory: where blocks lie, which pages are behind them, when to ask for more.
//!
//! Blocks of every scope and thread are carved from one range per device by best fit, and merge with their free
//! neighbours the moment they are freed. [`DeviceRange`] is the range of a device; all the rest is arithmetic over plain
//! numbers, and reaches the device through [`Pages`](crate::device::Pages). Two kinds of memory run under the same logic:
//!
//! * a **span**: one stretch of reserved addresses, with pages mapped behind it as it grows and unmapped anywhere in it;
//! * **chunks**: contiguous pieces that the device places, for devices without virtual memory management. A block never
//!   reaches across two chunks.
//!
//! | file | its one matter |
//! |---|---|
//! | `shared` | [`DeviceRange`]: the range of a device, behind its lock |
//! | `ordered` | which stream may have what of the range at once |
//! | `supply` | what an allocation asks of it first, and where it ends; what a shortage asks of it |
//! | `wait` | how long a thread waits for other people's work |
//! | `trim` | pages that go back to the device; the wait for work of which nobody tells |
//! | `range` | [`Range`]: allocate, free, trim, counters |
//! | `fit` | which free span serves a request, how spans split and merge |
//! | `bins` | free spans in order of size |
//! | `spans` | spans in order of address |
//! | `window` | where pages are missing least, when no mapped span is long enough |
//! | `gather` | how pages move under a large block, so that no more are reserved |
//! | `clearing` | which blocks are to be moved so that free memory lies side by side |
//! | `cut` | long handles of which a block needs a part only |
//! | `split` | how a block is taken apart |
//! | `room` | blocks with room to grow |
//! | `sizing` | how much to map at a time |
//! | `mapping` | what the device is asked for, and what is known of it afterwards |
//! | `handles` | which pieces the device was asked for |

mod bins;
mod clearing;
mod cut;
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
mod wait;
mod window;

use crate::order::Tag;
use range::{Range, RangeError};

pub use clearing::Clearing;
pub(crate) use cut::Cut;
pub(crate) use fit::RangeBlock;
pub(crate) use gather::Limit;
pub use ordered::RangeState;
pub(crate) use ordered::{Carved, Obtained};
pub(crate) use room::GrowthRoom;
pub use shared::DeviceRange;
pub(crate) use supply::{Reused, await_elsewhere, devices_but, give_back_elsewhere};
pub(crate) use trim::trim_all;
pub use wait::WaitFor;

#[cfg(test)]
use {
    crate::device::{Pages, Unfinished},
    range::{Backing, Stats},
    spans::{RangeSpan, SpanState},
};

/// Every block starts at a multiple of this many bytes, and its size is rounded up to one.
///
/// CUDA promises 256 for its own allocations, and vector loads and most libraries' kernels count on it.
const ALIGN: u64 = 256;
