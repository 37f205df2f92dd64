//! The yards of all devices, and what moved on each, which is known as long as the device lives.

use std::sync::{Arc, PoisonError, Weak};

use super::moves::{Moves, PlacedStats};
use super::yard::Yard;
use crate::device::{Memory, Stream};
use gpucache_engine::Result;
use gpucache_engine::base::sync::{Mutex, MutexGuard};
use gpucache_engine::pressure::on_spill;

/// Of a device's memory, whether arrays of it are placed now or not.
struct Known {
    id: u64,
    memory: Weak<Memory>,
    yard: Weak<Yard>,
    moves: Arc<Moves>,
}

type Yards = Vec<Known>;

fn yards() -> MutexGuard<'static, Yards> {
    static YARDS: Mutex<Yards> = Mutex::new(Vec::new());
    YARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The yard of a device, if any array of it was placed that lives.
fn known(stream: &Stream) -> Option<Arc<Yard>> {
    of_memory(stream.memory_id())
}

/// Counts what is over by now of what was timed on any device.
pub(super) fn settle_all() {
    let known: Vec<Arc<Yard>> = yards().iter().filter_map(|known| known.yard.upgrade()).collect();
    known.iter().for_each(|yard| yard.settle());
}

fn of_memory(id: u64) -> Option<Arc<Yard>> {
    yards().iter().find(|known| known.id == id).and_then(|known| known.yard.upgrade())
}

/// What moved on a device so far, without what is held of the host's memory.
pub(super) fn stats(memory: &Memory) -> PlacedStats {
    let stats_of = |known: &Known| known.moves.read();
    of_memory(memory.id()).map_or_else(
        || yards().iter().find(|known| known.id == memory.id()).map(stats_of).unwrap_or_default(),
        |yard| yard.stats(),
    )
}

/// The yard of a device.
pub(super) fn of(stream: &Stream) -> Arc<Yard> {
    if let Some(yard) = known(stream) {
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
    yards.push(Known { id: stream.memory_id(), memory, yard: Arc::downgrade(&yard), moves });
    yard
}

/// Has arrays of a device leave until so many bytes are free, or none may leave any more. Returns the bytes.
fn spill_of(memory: u64, bytes: u64) -> Result<u64> {
    of_memory(memory).map_or(Ok(0), |yard| yard.evict(bytes))
}
