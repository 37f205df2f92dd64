//! What a front end asks that stands in for the driver's allocator.

use super::borrowed::{self, Handle};
use super::{current, lent, own_calls};
use crate::device::stream::Stream;

impl Handle {
    /// Whether the calling thread is in a call that the engine itself makes of the driver's allocator.
    #[inline]
    pub fn is_own_call() -> bool {
        own_calls::is_own_call()
    }

    /// Whether the driver gave memory at this address to the engine, so that nobody else may free it.
    pub fn is_own_memory(address: u64) -> bool {
        own_calls::is_own_memory(address)
    }

    /// Runs `act`. The context that was current before is current again after it.
    #[inline]
    pub fn keeping_current<R>(act: impl FnOnce() -> R) -> R {
        current::keeping_current(act)
    }

    /// How many streams of other libraries have ended so far.
    #[inline]
    pub fn ended_streams() -> u64 {
        lent::ended_streams()
    }

    /// The stream for memory that the host hands out and takes back: all work on a block is done when it is freed, and when it is
    /// allocated. One for each device.
    pub fn host_ordered() -> Option<Stream> {
        borrowed::host_ordered()
    }

    /// Waits until all work of a stream's context is done. A failure is that of the context, whose work is lost with it.
    pub fn wait_for_context_of(stream: &Stream) {
        borrowed::wait_for_context_of(stream);
    }

    /// Bytes that the driver's pool of a stream's device keeps for later allocations.
    pub fn idle_in_pool(stream: &Stream) -> u64 {
        borrowed::idle_in_pool(stream)
    }
}
