//! Memory for an array that comes to the device, or is made.

use super::host_pool::HostPool;
use crate::array::{Element, Room};
use gpucache_engine::Result;
use gpucache_engine::device::Stream;

/// Memory for an array of `stream` with so many bytes: at the address `at` if that is free, or else where other arrays leave for it.
///
/// # Errors
/// As for [`Room::new`].
pub(super) fn find<T: Element>(
    pool: &HostPool,
    stream: &Stream,
    dims: &[usize],
    (bytes, at): (u64, Option<u64>),
) -> Result<Room<T>> {
    if let Some(address) = at
        && let Some(room) = Room::at(stream, dims, address)?
    {
        return Ok(room);
    }
    pool.make_room(stream, bytes);
    Room::new(stream, dims)
}
