//! The host memory pool of a device: the slots of its placed arrays, the copy streams on which they move, and the choice of the arrays that
//! leave.
//!
//! The least recently used array leaves first. Locked arrays stay, and so do arrays with `Placement::Device`.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use super::moves::{Moves, OffloadStats};
use super::placement::{Placement, Tag};
use super::present::Present;
use super::waits::Waits;
use gpucache_engine::base::amounts::add;
use gpucache_engine::base::shortage::Shortage;
use gpucache_engine::base::sync::{Mutex, OnceLock, lock};
use gpucache_engine::device::{CopyStream, Memory, Stream, process_exits};
use gpucache_engine::range::DeviceRange;
use gpucache_engine::{Error, Result};

/// A slot as its pool sees it, whatever the element type and the device.
pub(super) trait Rests: Send + Sync {
    fn tag(&self) -> &Tag;

    fn pool(&self) -> &Arc<HostPool>;

    /// Copies the array to the host if it was written since the last copy, and keeps it on the device. Does nothing if the array is locked.
    fn write_back(&self) -> Result<()>;

    /// Moves the array to the host, and copies it before if it was written. Returns the bytes freed on the device: 0 if the array is
    /// locked, or was on the host.
    fn evict(&self) -> Result<u64>;

    /// Brings the array to the device, if it is on the host and not locked: to the address `at`, if that is free. Returns whether it came.
    fn bring(&self, at: Option<u64>) -> Result<bool>;

    /// Whether the array is locked: by a guard, or by a move for a moment.
    fn is_locked(&self) -> bool;

    /// The array's address on the device, if the array's stream may move it: it works on the same queue as `stream`, the array is not
    /// locked, and no copy of it is pending.
    fn lies_at(&self, stream: &Stream) -> Option<u64>;

    /// Moves the array within the device, out of the addresses of `place`. Returns whether it lies elsewhere now.
    fn shift(&self, place: &Range<u64>) -> Result<bool>;

    /// Keeps the failure of a move that no call asked for. The next fallible call on the array's stream returns it. A host without room
    /// is no failure, unless an earlier call met it.
    fn keep(&self, error: Error);
}

/// The copy streams in both directions.
#[derive(Debug)]
pub(super) struct CopyStreams {
    pub(super) inward: CopyStream,
    pub(super) outward: CopyStream,
}

/// An array that did not leave, and the reason.
type Failed = (Arc<dyn Rests>, Error);

/// The answer of a move that no call asked for. If the move failed, a fetch makes up for it. But it may have met an earlier failure, which the
/// array's stream then returns from its next fallible call.
pub(super) fn unasked<T>(slot: &dyn Rests, answer: Result<T>) -> Option<T> {
    answer
        .map_err(|error| {
            if error.is_deferred() {
                slot.keep(error)
            }
        })
        .ok()
}

/// Whether there is a host without room, a capture, or a device without copy streams: the out-of-memory error is what matters.
fn may_not_leave(error: &Error) -> bool {
    !error.is_deferred() && (error.is_out_of_memory() || error.is_unavailable())
}

/// Has the array's stream return the failure from its next fallible call.
fn keep(failure: Option<Failed>) {
    failure.into_iter().for_each(|(slot, error)| slot.keep(error));
}

/// The pool reports this share more than is on the device (1/64).
const TOLD_AHEAD: u64 = 64;

/// How often more arrays leave if free memory is not contiguous and cannot be made so. As many bytes leave each time as are needed.
const MOST_ROUNDS: u32 = 4;

pub(super) struct HostPool {
    /// The stream that the pool was made with.
    pub(super) stream: Stream,
    /// The host memory of the copy streams.
    host: Arc<Memory>,
    copy_streams: OnceLock<CopyStreams>,
    pub(super) present: Present<dyn Rests>,
    /// Counts fetches.
    clock: AtomicU64,
    pub(super) moves: Arc<Moves>,
    pub(super) waits: Waits,
    /// The bytes that the pool reported last as likely to be needed again.
    told: Mutex<u64>,
}

impl Drop for HostPool {
    fn drop(&mut self) {
        let told = *self.told.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.stream.memory().tell_demand(told, 0);
        // To settle asks the driver.
        if !process_exits() {
            self.settle();
        }
    }
}

impl HostPool {
    pub(super) fn new(stream: &Stream, host: Arc<Memory>, moves: Arc<Moves>) -> HostPool {
        HostPool {
            stream: stream.clone(),
            host,
            copy_streams: OnceLock::new(),
            present: Present::default(),
            clock: AtomicU64::new(0),
            moves,
            waits: Waits::default(),
            told: Mutex::new(0),
        }
    }

    /// Counts bytes that came to the device. The peak is likely to be needed again, so that their pages are not given back meanwhile. A slot calls
    /// this while its own lock is held, so nobody may lock a slot under a lock that is taken here.
    pub(super) fn came(&self, bytes: u64) {
        let mut resident = 0;
        self.moves.count(|stats| {
            add(&mut stats.resident_bytes, bytes);
            resident = stats.resident_bytes;
        });
        let mut told = lock(&self.told);
        if resident > *told {
            // A little more, so that growth reports seldom.
            let now = resident.saturating_add(resident / TOLD_AHEAD);
            self.stream.memory().tell_demand(*told, now);
            *told = now;
        }
    }

    /// Counts bytes that left the device.
    pub(super) fn went(&self, bytes: u64) {
        // A sum of more bytes than a number has stayed at the largest one.
        self.moves.count(|stats| stats.resident_bytes = stats.resident_bytes.saturating_sub(bytes));
    }

    fn resident(&self) -> u64 {
        self.moves.read().resident_bytes
    }

    /// The next time of the clock. Threads that ask at once may get the same time, or an earlier one. The clock only orders the arrays that
    /// leave, and an atomic exchange would cost each fetch 5 ns.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        let now = self.clock.load(Relaxed) + 1;
        self.clock.store(now, Relaxed);
        now
    }

    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) on a device without copy streams; otherwise the answer of the device.
    pub(super) fn copy_streams(&self) -> Result<&CopyStreams> {
        if let Some(copy_streams) = self.copy_streams.get() {
            return Ok(copy_streams);
        }
        let copy_stream = || {
            CopyStream::new(&self.stream, &self.host)?.ok_or_else(|| {
                let what = "the host as a place for arrays";
                Error::unavailable(what, "this device has no copy streams", "place the array on the device")
            })
        };
        let copy_streams = CopyStreams { inward: copy_stream()?, outward: copy_stream()? };
        Ok(self.copy_streams.get_or_init(|| copy_streams))
    }

    /// The bytes of placed arrays that the device's limit allows beside all other live memory.
    pub(super) fn room(&self) -> u64 {
        let meter = self.stream.meter();
        let (resident, limit) = (self.resident(), meter.limit());
        // What is reserved outside of the range is in use.
        let outside = |reserved: u64| meter.held().saturating_sub(reserved);
        let range = DeviceRange::of(&self.stream).map(DeviceRange::reserved_and_live);
        let live = range.map_or(meter.held(), |(reserved, live)| live.saturating_add(outside(reserved)));
        limit.saturating_sub(live.saturating_sub(resident))
    }

    /// Moves arrays to the host until `bytes` bytes are free and contiguous for an array of `stream`. Does nothing if the device could
    /// never have as many.
    pub(super) fn make_room(&self, stream: &Stream, bytes: u64) {
        if bytes > self.stream.memory().most() {
            return;
        }
        // Saturated sums are more than all memory: then all arrays leave that may.
        let excess = self.resident().saturating_add(bytes).saturating_sub(self.room());
        if excess > 0 {
            // There may be room all the same, which the allocation that follows finds out.
            let (_, failure) = self.evict_least_recent(excess);
            keep(failure);
        }
        // If no array ever left, the range has room to grow.
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

    /// Adds the bytes of arrays that stay on the device although an allocation lacks memory, by the reason.
    pub(super) fn note_staying(&self, shortage: &mut Shortage) {
        let host = self.host.meter();
        let has_limit = host.limit() < u64::MAX;
        let room = host.limit().saturating_sub(host.held());
        for slot in self.present.now().into_iter().filter_map(|slot| slot.upgrade()) {
            let tag = slot.tag();
            let sum = match tag.placement.get() {
                _ if slot.is_locked() => &mut shortage.fetched_bytes,
                Placement::Device => &mut shortage.device_placed_bytes,
                _ if has_limit && tag.bytes > room => &mut shortage.host_limited_bytes,
                _ => continue,
            };
            add(sum, tag.bytes);
        }
    }

    /// Moves the least recently used arrays to the host, until `bytes` bytes are free or no other array may leave. Returns the bytes.
    ///
    /// # Errors
    /// A failure of the device, or of work on it, that kept an array from leaving, if none left. If some left, the array's stream keeps the
    /// failure.
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

    /// The same. Returns the bytes, and the first array that a failure kept from leaving.
    #[cold]
    fn evict_least_recent(&self, bytes: u64) -> (u64, Option<Failed>) {
        let (mut freed, mut failure) = (0, None);
        self.evict_lined_up(bytes, &mut freed, &mut failure);
        if freed < bytes {
            self.present.line_up(|slot| slot.tag());
            self.evict_lined_up(bytes, &mut freed, &mut failure);
        }
        (freed, failure)
    }

    /// Moves the sorted arrays to the host until `freed` reaches `bytes`. An array that fails to leave stays, and the next one is tried.
    /// The first failure is returned.
    fn evict_lined_up(&self, bytes: u64, freed: &mut u64, failure: &mut Option<Failed>) {
        while *freed < bytes
            && let Some((used, slot)) = self.present.next()
        {
            let Some(slot) = slot.upgrade() else { continue };
            let tag = slot.tag();
            if tag.used.load(Relaxed) != used || tag.placement.get() == Placement::Device {
                continue;
            }
            match slot.evict() {
                Ok(bytes) => *freed = freed.saturating_add(bytes),
                Err(error) if may_not_leave(&error) => {}
                Err(error) if failure.is_some() => _ = unasked(&*slot, Err::<(), _>(error)),
                Err(error) => *failure = Some((slot, error)),
            }
        }
    }

    /// Counts the timed waits that are over by now.
    pub(super) fn settle(&self) {
        self.waits.settle(&self.moves);
    }

    /// How often an array has left.
    pub(super) fn evictions(&self) -> u64 {
        self.moves.read().evictions
    }

    pub(super) fn stats(&self) -> OffloadStats {
        self.settle();
        let of_idle = || self.stream.memory().pageable_bytes();
        let copy_streams = self.copy_streams.get();
        let pageable_bytes = copy_streams.map_or_else(of_idle, |copy_streams| copy_streams.outward.pageable_bytes());
        OffloadStats { pageable_bytes, ..self.moves.read() }
    }
}
