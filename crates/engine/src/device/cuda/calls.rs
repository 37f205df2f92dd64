//! Questions of a front end that serves the driver's allocator calls of other libraries.

use super::borrowed::{self, Handle};
use super::{current, lent, own_calls};
use crate::device::stream::Stream;

impl Handle {
    /// Whether the calling thread is in a call that the engine itself makes to the driver's allocator.
    #[inline]
    pub fn is_own_call() -> bool {
        own_calls::is_own_call()
    }

    /// Whether the driver allocated memory at this address for the engine. Nobody else may free it then.
    pub fn is_own_memory(address: u64) -> bool {
        own_calls::is_own_memory(address)
    }

    /// Runs `act`, then makes the context current that was current before.
    #[inline]
    pub fn keeping_current<R>(act: impl FnOnce() -> R) -> R {
        current::keeping_current(act)
    }

    /// The number of streams of other libraries that have ended so far.
    #[inline]
    pub fn ended_streams() -> u64 {
        lent::ended_streams()
    }

    /// The stream for memory that is allocated and freed in the host's order: all work on a block is done when it is freed, and when it is
    /// allocated. There is one for each device.
    pub fn host_ordered() -> Option<Stream> {
        borrowed::host_ordered()
    }

    /// Waits until all work of a stream's context is done. A failure is ignored: it means that the context and all its work are lost.
    pub fn wait_for_context_of(stream: &Stream) {
        borrowed::wait_for_context_of(stream);
    }

    /// Bytes that the driver's pool of a stream's device keeps for later allocations.
    pub fn idle_in_pool(stream: &Stream) -> u64 {
        borrowed::idle_in_pool(stream)
    }
}
