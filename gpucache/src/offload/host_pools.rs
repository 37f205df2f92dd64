//! The host memory pools of all devices, and the counts of each device and each scope.

use std::sync::{Arc, Weak};

use super::host_pool::HostPool;
use super::moves::{Moves, OffloadStats};
use gpucache_engine::Result;
use gpucache_engine::base::shortage::Shortage;
use gpucache_engine::base::sync::{Mutex, lock};
use gpucache_engine::cache::{Entry, NamedCaches};
use gpucache_engine::device::{Memory, Stream};

/// The pool of a device while the device has placed arrays, and the counts of all moves on the device.
#[derive(Default)]
struct DeviceMoves {
    pool: Mutex<Weak<HostPool>>,
    moves: Arc<Moves>,
}

/// The counts of the thread's outermost scope.
pub(super) fn account() -> Option<Arc<Moves>> {
    let scope = NamedCaches::find(&Entry::outermost_name()?)?;
    scope.offload().get_or_init(|| Arc::<Moves>::default()).clone().downcast().ok()
}

fn known(memory: &Memory) -> Option<&DeviceMoves> {
    memory.offload().get()?.downcast_ref()
}

/// The pool of a memory, if it has a placed array.
fn of_memory(memory: &Memory) -> Option<Arc<HostPool>> {
    lock(&known(memory)?.pool).upgrade()
}

/// The host memory pool of a device.
pub(super) fn of(stream: &Stream) -> Arc<HostPool> {
    if let Some(pool) = of_memory(stream.memory()) {
        return pool;
    }
    Memory::on_spill(spill_of, note_staying);
    let (host, none) = (stream.memory().host_side().clone(), DeviceMoves::default());
    // Nothing else is kept there.
    let device = stream.memory().offload().get_or_init(|| Box::<DeviceMoves>::default());
    let device = device.downcast_ref().unwrap_or(&none);
    let mut pool = lock(&device.pool);
    // Another thread may have made it meanwhile.
    if let Some(other) = pool.upgrade() {
        return other;
    }
    let new = Arc::new(HostPool::new(stream, host, device.moves.clone()));
    *pool = Arc::downgrade(&new);
    new
}

/// Moves arrays of a device to the host until `bytes` bytes are free, or no other array may leave. Returns the bytes.
fn spill_of(memory: &Memory, bytes: u64) -> Result<u64> {
    of_memory(memory).map_or(Ok(0), |pool| pool.evict(bytes))
}

/// Adds the bytes of a device's arrays that cannot leave it, by the reason.
fn note_staying(memory: &Memory, shortage: &mut Shortage) {
    of_memory(memory).into_iter().for_each(|pool| pool.note_staying(shortage));
}

/// The counts of all moves on a device.
pub(crate) fn stats_of_memory(memory: &Memory) -> OffloadStats {
    // The host's memory stays held when no array is left, until it is trimmed.
    let host_bytes = memory.known_host_side().map_or(0, |host| host.meter().held());
    let stats = match of_memory(memory) {
        Some(pool) => pool.stats(),
        None => {
            let moves = known(memory).map(|device| device.moves.read()).unwrap_or_default();
            OffloadStats { pageable_bytes: memory.pageable_bytes(), ..moves }
        }
    };
    OffloadStats { host_bytes, ..stats }
}

/// The counts of the moves in the entries of a scope, over all threads and devices. A move counts for the outermost scope of its thread.
pub(crate) fn stats_of_scope(scope: &NamedCaches) -> OffloadStats {
    let Some(counts) = scope.offload().get().and_then(|counts| counts.downcast_ref::<Moves>()) else {
        return OffloadStats::default();
    };
    Memory::every().iter().filter_map(|memory| of_memory(memory)).for_each(|pool| pool.settle());
    counts.read()
}
