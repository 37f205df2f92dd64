//! The slots of a device: the copy streams on which their arrays move, how much room they have, and who leaves.
//!
//! A victim is what was used least recently. What is locked stays, and what rests on the device always.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, Weak};

use super::moves::{Moves, OffloadStats};
use super::placement::{Chosen, Placement};
use super::waits::Waits;
use gpucache_engine::base::amounts::add;
use gpucache_engine::base::sync::{Mutex, MutexGuard, OnceLock};
use gpucache_engine::device::CopyStream;
use gpucache_engine::device::{Memory, Stream};
use gpucache_engine::range::{Clearing, DeviceRange};
use gpucache_engine::{Error, Result};

/// What a host memory pool knows of a slot, whatever its elements and device.
pub(super) trait Rests: Send + Sync {
    fn tag(&self) -> &Tag;

    fn pool(&self) -> &Arc<HostPool>;

    /// Copies the array to the host if it was written since it was there, and keeps it on the device. Nothing where somebody has it
    /// locked.
    fn write_back(&self) -> Result<()>;

    /// Has the array leave the device, once it is copied if need be. Returns the bytes that are free then: none where somebody has
    /// it locked, or where it is away.
    fn evict(&self) -> Result<u64>;

    /// Has the array come, if it is away and nobody has it locked. Returns whether it came.
    fn bring(&self) -> Result<bool>;

    /// Whether somebody has it locked: a guard, or a move for a moment.
    fn is_locked(&self) -> bool;

    /// Where the array lies on the device, if it may be moved there by its stream, which works on the same queue as `stream`: nobody has it
    /// locked, and no copy of it is under way.
    fn lies_at(&self, stream: &Stream) -> Option<u64>;

    /// Moves the array on the device out of a place that is cleared. Returns whether it is gone from there.
    fn shift(&self, clearing: &Clearing) -> Result<bool>;

    /// Keeps what a move met that nobody asked for, for the next fallible call on the array's stream; a host without room is
    /// no failure.
    fn keep(&self, error: Error);
}

/// What is known of a slot without its lock.
#[derive(Debug)]
pub(super) struct Tag {
    /// Never given again.
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) placement: Chosen,
    /// When it was fetched last, by the clock of its pool.
    pub(super) used: AtomicU64,
    /// The recorded entry that made it, and its place among those that this one made.
    pub(super) born_in: AtomicU64,
    pub(super) born_as: AtomicU64,
}

/// Queues for copies in both directions.
#[derive(Debug)]
pub(super) struct CopyStreams {
    pub(super) inward: CopyStream,
    pub(super) outward: CopyStream,
}

/// An array that did not leave, and why.
type Failed = (Arc<dyn Rests>, Error);

/// Has the array's stream return the failure from its next fallible call.
fn keep(failure: Option<Failed>) {
    failure.into_iter().for_each(|(slot, error)| slot.keep(error));
}

/// The share by which more is told than is on the device.
const TOLD_AHEAD: u64 = 64;

/// How often more arrays leave where what is free lies apart, and cannot be laid side by side. Each time as many bytes leave as are needed.
const MOST_ROUNDS: u32 = 4;

pub(super) struct HostPool {
    stream: Stream,
    /// The host's side of the copy streams.
    host: Arc<Memory>,
    copy_streams: OnceLock<CopyStreams>,
    slots: Mutex<Vec<Weak<dyn Rests>>>,
    /// Who leaves next is at the end: all slots, with the times of their last use, as they were when this was made.
    victims: Mutex<Vec<(u64, Weak<dyn Rests>)>>,
    /// Counts fetches.
    clock: AtomicU64,
    pub(super) moves: Arc<Moves>,
    pub(super) waits: Waits,
    /// What the device was told that arrays are likely to need again.
    told: Mutex<u64>,
}

impl Drop for HostPool {
    fn drop(&mut self) {
        let told = *self.told.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.stream.memory().tell_demand(told, 0);
        self.settle();
    }
}

impl HostPool {
    pub(super) fn new(stream: &Stream, host: Arc<Memory>, moves: Arc<Moves>) -> HostPool {
        HostPool {
            stream: stream.clone(),
            host,
            copy_streams: OnceLock::new(),
            slots: Mutex::default(),
            victims: Mutex::default(),
            clock: AtomicU64::new(0),
            moves,
            waits: Waits::default(),
            told: Mutex::new(0),
        }
    }

    /// So many bytes more are on the device. What was there at once is likely to be again, and pages are not given back meanwhile.
    pub(super) fn came(&self, bytes: u64) {
        let mut resident = 0;
        self.moves.count(|stats| {
            add(&mut stats.resident_bytes, bytes);
            resident = stats.resident_bytes;
        });
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if resident > *told {
            // A little ahead, so that growth tells seldom.
            let now = resident.saturating_add(resident / TOLD_AHEAD);
            self.stream.memory().tell_demand(*told, now);
            *told = now;
        }
    }

    /// So many bytes less are on the device.
    pub(super) fn went(&self, bytes: u64) {
        // A sum of more bytes than a number has stayed at the largest one.
        self.moves.count(|stats| stats.resident_bytes = stats.resident_bytes.saturating_sub(bytes));
    }

    fn resident(&self) -> u64 {
        self.moves.read().resident_bytes
    }

    /// The next time. Threads that ask at once may get the same one, or go back a little: it orders victims and nothing else, and
    /// an exchange would cost every fetch 5 ns.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let now = self.clock.load(Relaxed) + 1;
        self.clock.store(now, Relaxed);
        now
    }

    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) on a device without queues for copies; otherwise what it answered.
    pub(super) fn copy_streams(&self) -> Result<&CopyStreams> {
        if let Some(copy_streams) = self.copy_streams.get() {
            return Ok(copy_streams);
        }
        let copy_stream = || {
            CopyStream::new(&self.stream, &self.host)?.ok_or_else(|| {
                let what = "resting on the host";
                Error::unavailable(what, "this device has no queues for copies", "place the array on the device")
            })
        };
        let copy_streams = CopyStreams { inward: copy_stream()?, outward: copy_stream()? };
        Ok(self.copy_streams.get_or_init(|| copy_streams))
    }

    fn slots(&self) -> MutexGuard<'_, Vec<Weak<dyn Rests>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn add(&self, slot: Weak<dyn Rests>) {
        let mut slots = self.slots();
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
            // As many have to come before they are looked through again.
            let alive = slots.len();
            slots.reserve(alive);
        }
        slots.push(slot);
    }

    /// How many bytes may be on the device: what its limit leaves beside everything else that is alive there.
    pub(super) fn room(&self) -> u64 {
        let meter = self.stream.meter();
        let (resident, limit) = (self.resident(), meter.limit());
        let live = DeviceRange::of(&self.stream).map_or(meter.held(), |range| range.occupancy().live);
        limit.saturating_sub(live.saturating_sub(resident))
    }

    /// Has arrays leave so that so many bytes more may come, and lie side by side, for an array of `stream`: none for more than there ever
    /// could be.
    pub(super) fn make_room(&self, stream: &Stream, bytes: u64) {
        if bytes > self.stream.memory().most() {
            return;
        }
        // More than all there is, if the sum has no number: then all that may leave does.
        let excess = self.resident().saturating_add(bytes).saturating_sub(self.room());
        if excess > 0 {
            // There may be room all the same, as the allocation that follows tells.
            let (_, failure) = self.evict_least_recent(excess);
            keep(failure);
        }
        // Where nothing ever left there is room to grow.
        for _ in 0..if self.evictions() > 0 { MOST_ROUNDS } else { 0 } {
            if self.clear(stream, bytes) {
                break;
            }
            let (freed, failure) = self.evict_least_recent(bytes);
            keep(failure);
            if freed == 0 {
                break;
            }
        }
    }

    pub(super) fn slots_now(&self) -> Vec<Weak<dyn Rests>> {
        self.slots().clone()
    }

    /// The bytes of arrays that guards keep on the device.
    pub(super) fn fetched(&self) -> u64 {
        let locked = self.slots_now().into_iter().filter_map(|slot| slot.upgrade()).filter(|slot| slot.is_locked());
        locked.fold(0, |sum, slot| sum.saturating_add(slot.tag().bytes))
    }

    /// Has what was used least recently leave, until so many bytes are free or none may leave any more. Returns the bytes.
    ///
    /// # Errors
    /// A failure of the device, or of work on it, that kept an array from leaving, where none left. Its stream keeps it otherwise.
    #[cold]
    pub(super) fn evict(&self, bytes: u64) -> Result<u64> {
        match self.evict_least_recent(bytes) {
            (0, Some((_, error))) => Err(error),
            (freed, failure) => {
                keep(failure);
                Ok(freed)
            }
        }
    }

    /// The same. Returns the bytes, and the first array that did not leave for a failure.
    #[cold]
    fn evict_least_recent(&self, bytes: u64) -> (u64, Option<Failed>) {
        let (mut freed, mut failure) = (0, None);
        self.evict_lined_up(bytes, &mut freed, &mut failure);
        if freed < bytes {
            self.line_up();
            self.evict_lined_up(bytes, &mut freed, &mut failure);
        }
        (freed, failure)
    }

    fn victims(&self) -> MutexGuard<'_, Vec<(u64, Weak<dyn Rests>)>> {
        self.victims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sorts all slots by their last use, once for many that leave: whoever is used meanwhile is behind all that are not.
    fn line_up(&self) {
        let timed = |slot: &Weak<dyn Rests>| Some((slot.upgrade()?.tag().used.load(Relaxed), slot.clone()));
        let slots = self.slots().clone();
        let mut victims: Vec<_> = slots.iter().filter_map(timed).collect();
        victims.sort_by_key(|(used, _)| Reverse(*used));
        *self.victims() = victims;
    }

    /// Has those who are lined up leave until `freed` are so many bytes. What fails leaves the array where it is, and the next one
    /// may go; the first failure is told.
    fn evict_lined_up(&self, bytes: u64, freed: &mut u64, failure: &mut Option<Failed>) {
        let next = || self.victims().pop();
        while *freed < bytes
            && let Some((used, slot)) = next()
        {
            let Some(slot) = slot.upgrade() else { continue };
            let tag = slot.tag();
            if tag.used.load(Relaxed) != used || tag.placement.get() == Placement::Device {
                continue;
            }
            match slot.evict() {
                Ok(bytes) => *freed = freed.saturating_add(bytes),
                // A host without room, a capture, or a device without queues for copies: the shortage is what is to be told.
                Err(error) if error.is_out_of_memory() || error.is_unavailable() => {}
                Err(error) => _ = failure.get_or_insert((slot, error)),
            }
        }
    }

    /// Counts what is over by now of what was timed.
    pub(super) fn settle(&self) {
        self.waits.settle(&self.moves);
    }

    /// The stream by which the pool was made.
    pub(super) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// How often an array has left.
    pub(super) fn evictions(&self) -> u64 {
        self.moves.read().evictions
    }

    pub(super) fn stats(&self) -> OffloadStats {
        self.settle();
        let copy_streams = self.copy_streams.get();
        let pageable_bytes = copy_streams.map_or(0, |copy_streams| copy_streams.outward.pageable_bytes());
        OffloadStats { pageable_bytes, ..self.moves.read() }
    }
}
