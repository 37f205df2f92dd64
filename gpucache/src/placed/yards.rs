//! The yards of all devices, and what is counted of each and of each scope, for the program to ask.

use std::sync::{Arc, PoisonError, Weak};

use hashbrown::HashMap;

use super::moves::{Moves, PlacedStats};
use super::yard::Yard;
use crate::device::{Device, Memory, Stream};
use gpucache_engine::Result;
use gpucache_engine::base::sync::{LazyLock, Mutex, MutexGuard};
use gpucache_engine::cache::NamedCaches;
use gpucache_engine::pressure::on_spill;

/// A device's memory, whether arrays of it are placed now or not.
struct DeviceMoves {
    id: u64,
    memory: Weak<Memory>,
    yard: Weak<Yard>,
    moves: Arc<Moves>,
}

type Yards = Vec<DeviceMoves>;

fn yards() -> MutexGuard<'static, Yards> {
    static YARDS: Mutex<Yards> = Mutex::new(Vec::new());
    YARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

type Accounts = HashMap<Arc<str>, Arc<Moves>>;

fn accounts() -> MutexGuard<'static, Accounts> {
    static ACCOUNTS: LazyLock<Mutex<Accounts>> = LazyLock::new(Mutex::default);
    ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is counted for the scope of this name.
pub(super) fn account(name: Arc<str>) -> Arc<Moves> {
    let mut accounts = accounts();
    if accounts.len() == accounts.capacity() {
        // Those whose names are forgotten.
        accounts.retain(|known, _| *known == name || NamedCaches::find(known).is_some());
    }
    accounts.entry(name).or_default().clone()
}

/// The yard of a memory, if any array of it was placed that lives.
fn of_memory(id: u64) -> Option<Arc<Yard>> {
    yards().iter().find(|known| known.id == id).and_then(|known| known.yard.upgrade())
}

/// The yard of a device.
pub(super) fn of(stream: &Stream) -> Arc<Yard> {
    if let Some(yard) = of_memory(stream.memory_id()) {
        return yard;
    }
    on_spill(spill_of);
    let host = stream.memory().host_side().clone();
    let mut yards = yards();
    let before = yards.iter().position(|known| known.id == stream.memory_id());
    // Another thread may have been faster.
    if let Some(other) = before.and_then(|place| yards[place].yard.upgrade()) {
        return other;
    }
    let moves = before.map(|place| yards.swap_remove(place).moves).unwrap_or_default();
    let yard = Arc::new(Yard::new(stream, host, moves.clone()));
    yards.retain(|known| known.memory.strong_count() > 0);
    let memory = Arc::downgrade(stream.memory());
    yards.push(DeviceMoves { id: stream.memory_id(), memory, yard: Arc::downgrade(&yard), moves });
    yard
}

/// Has arrays of a device leave until so many bytes are free, or none may leave any more. Returns the bytes.
fn spill_of(memory: u64, bytes: u64) -> Result<u64> {
    of_memory(memory).map_or(Ok(0), |yard| yard.evict(bytes))
}

/// What arrays that may move to the host did so far on a device.
pub(crate) fn stats_of_memory(memory: &Memory) -> PlacedStats {
    // The host's memory stays held when no array is left, until it is trimmed.
    let host_bytes = memory.known_host_side().map_or(0, |host| host.meter().held());
    let moves = yards().iter().find(|known| known.id == memory.id()).map(|known| known.moves.clone());
    let stats = match of_memory(memory.id()) {
        Some(yard) => yard.stats(),
        None => moves.map(|moves| moves.read()).unwrap_or_default(),
    };
    PlacedStats { host_bytes, ..stats }
}

/// What arrays that may move to the host did so far in the entries of the scope `name`, over all threads and devices; `None` if none
/// was placed or moved there, or the name is forgotten. A move counts for the outermost scope that its thread is in.
pub(crate) fn stats_of_scope(name: &str) -> Option<PlacedStats> {
    let live: Vec<Arc<Yard>> = yards().iter().filter_map(|known| known.yard.upgrade()).collect();
    live.iter().for_each(|yard| yard.settle());
    accounts().get(name).map(|moves| moves.read())
}

/// Lets arrays that leave a device take at most so many bytes of the host's memory; `u64::MAX` ends that.
///
/// The limit is hard. An array for which there is no more room on the host stays on the device, and what needs its place there is an
/// error ([`is_out_of_memory`](crate::Error::is_out_of_memory)). Where more is held already, what is idle goes back at once. The
/// host's memory is taken in chunks of 2 MiB at least, and an array that was away keeps its place there, so that it need not be
/// copied again; [`trim`](crate::trim) gives back what is idle. [`limit`](crate::limit) and `GPUCACHE_LIMIT` are of the device alone; [`limit_process`](crate::limit_process) counts
/// the host's side too.
///
/// ```
/// use gpucache::{Placed, Placement, limit_host, prelude::*, stats};
///
/// let device = Host::new_stream()?;
/// limit_host(&device, 64 << 20);
/// let (first, second) = (Placed::<u8, _>::zeros(&device, 48 << 20)?, Placed::<u8, _>::zeros(&device, 48 << 20)?);
/// first.set_placement(Placement::Host)?;
/// assert!(second.set_placement(Placement::Host).unwrap_err().is_out_of_memory());
/// assert_eq!(stats::device(&device).offload.resident_bytes, 48 << 20);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn limit_host(device: &impl Device, bytes: u64) {
    device.stream_handle().memory().host_side().set_limit(bytes);
}
