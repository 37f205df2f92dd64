//! The host memory pools of all devices, and the counts of each device and each scope.

use std::sync::{Arc, Weak};

use hashbrown::HashMap;

use super::host_pool::HostPool;
use super::moves::{Moves, OffloadStats};
use gpucache_engine::Result;
use gpucache_engine::base::shortage::Staying;
use gpucache_engine::base::sync::{LazyLock, Mutex, lock};
use gpucache_engine::cache::NamedCaches;
use gpucache_engine::device::{Memory, Stream};

/// A device's memory, and its pool while it has placed arrays.
struct DeviceMoves {
    id: u64,
    memory: Weak<Memory>,
    pool: Weak<HostPool>,
    moves: Arc<Moves>,
}

static HOST_POOLS: Mutex<Vec<DeviceMoves>> = Mutex::new(Vec::new());

/// The counts of a scope. A name that was forgotten and came again is another scope.
struct ScopeMoves {
    scope: Weak<NamedCaches>,
    moves: Arc<Moves>,
}

static ACCOUNTS: LazyLock<Mutex<HashMap<Arc<str>, ScopeMoves>>> = LazyLock::new(Mutex::default);

/// The counts of the scope with this name.
pub(super) fn account(name: Arc<str>) -> Arc<Moves> {
    let scope = NamedCaches::find(&name).map_or_else(Weak::new, |scope| Arc::downgrade(&scope));
    let mut accounts = lock(&ACCOUNTS);
    if accounts.len() == accounts.capacity() {
        // Drops the counts of forgotten scopes.
        accounts.retain(|known, each| *known == name || each.scope.strong_count() > 0);
    }
    let new = || ScopeMoves { scope: scope.clone(), moves: Arc::default() };
    let known = accounts.entry(name).or_insert_with(new);
    if !known.scope.ptr_eq(&scope) {
        *known = new();
    }
    known.moves.clone()
}

/// The pool of a memory, if it has a placed array.
fn of_memory(id: u64) -> Option<Arc<HostPool>> {
    lock(&HOST_POOLS).iter().find(|known| known.id == id).and_then(|known| known.pool.upgrade())
}

/// The host memory pool of a device.
pub(super) fn of(stream: &Stream) -> Arc<HostPool> {
    if let Some(pool) = of_memory(stream.memory_id()) {
        return pool;
    }
    Memory::on_spill(spill_of, staying_of);
    let host = stream.memory().host_side().clone();
    let mut host_pools = lock(&HOST_POOLS);
    let before = host_pools.iter().position(|known| known.id == stream.memory_id());
    // Another thread may have made it meanwhile.
    if let Some(other) = before.and_then(|place| host_pools[place].pool.upgrade()) {
        return other;
    }
    let moves = before.map(|place| host_pools.swap_remove(place).moves).unwrap_or_default();
    let pool = Arc::new(HostPool::new(stream, host, moves.clone()));
    host_pools.retain(|known| known.memory.strong_count() > 0);
    let memory = Arc::downgrade(stream.memory());
    host_pools.push(DeviceMoves { id: stream.memory_id(), memory, pool: Arc::downgrade(&pool), moves });
    pool
}

/// Moves arrays of a device to the host until `bytes` bytes are free, or no other array may leave. Returns the bytes.
fn spill_of(memory: u64, bytes: u64) -> Result<u64> {
    of_memory(memory).map_or(Ok(0), |pool| pool.evict(bytes))
}

/// The bytes of a device's arrays that cannot leave it, by the reason.
fn staying_of(memory: u64) -> Staying {
    of_memory(memory).map_or_else(Staying::default, |pool| pool.staying())
}

/// The counts of all moves on a device.
pub(crate) fn stats_of_memory(memory: &Memory) -> OffloadStats {
    // The host's memory stays held when no array is left, until it is trimmed.
    let host_bytes = memory.known_host_side().map_or(0, |host| host.meter().held());
    let moves = lock(&HOST_POOLS).iter().find(|known| known.id == memory.id()).map(|known| known.moves.clone());
    let stats = match of_memory(memory.id()) {
        Some(pool) => pool.stats(),
        None => moves.map(|moves| moves.read()).unwrap_or_default(),
    };
    OffloadStats { host_bytes, ..stats }
}

/// The counts of the moves in the entries of the scope `name`, over all threads and devices; `None` if no array was placed or moved there,
/// or the name is forgotten. A move counts for the outermost scope of its thread.
pub(crate) fn stats_of_scope(name: &str) -> Option<OffloadStats> {
    let live: Vec<Arc<HostPool>> = lock(&HOST_POOLS).iter().filter_map(|known| known.pool.upgrade()).collect();
    live.iter().for_each(|pool| pool.settle());
    let scope = Arc::downgrade(&NamedCaches::find(name)?);
    lock(&ACCOUNTS).get(name).filter(|known| known.scope.ptr_eq(&scope)).map(|known| known.moves.read())
}
