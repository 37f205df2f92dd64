//! Counts the memory that is reserved from one device, and the calls that order its streams. Only device calls touch these counters, so
//! they cost a warm allocation nothing.
//!
//! Invariant: the numbers of a [`Tally`] change together, under its lock. So each reading of them is of one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};

use super::process::DeviceBytes;
use super::virtual_memory::Unfinished;
use crate::base::error::Result;
use crate::base::per_thread::THREAD;
use crate::base::sync::{Mutex, lock};
use crate::trace;

/// The calls that took memory and gave it back: allocations, frees, mapped pieces and unmapped pieces. Then the reserved bytes, and their
/// peak.
type Tally = ([u64; 4], u64, u64);

/// The counters of a device.
#[derive(Debug)]
pub struct Meter {
    /// The number of the device.
    device: u64,
    /// The size of its pages; 0 if it has none. It shares a word with the flag below: with a word more, the counters lie elsewhere, and a
    /// planned pair took 3% longer.
    page_bytes: u32,
    /// Whether the memory is that of the host for arrays that leave a device.
    pub(super) is_host_side: bool,
    /// Locked for a few additions.
    tally: Mutex<Tally>,
    events: AtomicU64,
    queries: AtomicU64,
    waits: AtomicU64,
    /// How often memory was given back. Counted last, when others can have it.
    given_back: AtomicU64,
    /// The reserved bytes, as a part of the sum over all devices. Limits need these: they include bytes that the device was asked for and
    /// has not provided yet.
    pub(super) part: Arc<DeviceBytes>,
    /// The limit of reserved bytes; `u64::MAX` if there is none.
    pub(super) limit: AtomicU64,
    /// The same for calls that are made softly (`quota`).
    pub(super) soft_limit: AtomicU64,
    /// The device refused to go beyond this many reserved bytes when it was asked last; `u64::MAX` if it never refused. It is less than the
    /// capacity, since the driver and other programs hold memory too. It saves time: a call that fails takes as long as a hundred calls
    /// that succeed.
    pub(super) ceiling: AtomicU64,
}

impl Meter {
    /// The meter of the device with this number, whose pages have this size: 0 if it has none.
    pub(super) fn of(device: u64, page_bytes: u64) -> Meter {
        let (zero, bound) = (|| AtomicU64::new(0), || AtomicU64::new(u64::MAX));
        Meter {
            device,
            page_bytes: u32::try_from(page_bytes).unwrap_or(u32::MAX),
            is_host_side: false,
            tally: Mutex::default(),
            events: zero(),
            queries: zero(),
            given_back: zero(),
            waits: zero(),
            part: DeviceBytes::of_new_device(),
            limit: bound(),
            soft_limit: bound(),
            ceiling: bound(),
        }
    }

    /// The same meter, for host memory of arrays that leave a device.
    pub(super) fn of_host_side(self) -> Meter {
        Meter { is_host_side: true, ..self }
    }

    /// The size of the device's pages; 0 if it has none.
    pub(crate) fn page_bytes(&self) -> u64 {
        self.page_bytes.into()
    }

    /// Reports the reserved bytes to the trace, if one is on.
    fn tell(&self) {
        if trace::is_on() {
            trace::reserved(self.held(), self.device, self.page_bytes());
        }
    }

    /// Allocates `bytes` with `call`, if the limits allow it.
    pub(crate) fn allocate<R>(&self, bytes: u64, call: impl FnOnce() -> Result<R>) -> Result<R> {
        self.enter(bytes)?;
        let answer = call();
        match &answer {
            Ok(_) => {
                self.took(bytes, |[allocations, ..]| *allocations += 1);
                self.tell();
            }
            Err(error) => self.undo(bytes, error),
        }
        answer
    }

    pub(crate) fn freed(&self, bytes: u64) {
        self.gave(bytes, |[_, frees, ..]| *frees += 1);
        self.tell();
    }

    /// Maps pieces with `call`, if the limits allow it. An error says how many pieces are mapped.
    pub(super) fn map(&self, pieces: &[u64], call: impl FnOnce() -> Result<(), Unfinished>) -> Result<(), Unfinished> {
        let all = pieces.iter().sum();
        self.enter(all).map_err(|error| Unfinished { mapped: 0, error })?;
        let done = call();
        let mapped = done.as_ref().err().map_or(pieces.len(), |left| left.mapped.min(pieces.len()));
        let (new, missing) = pieces.split_at(mapped);
        if let Err(Unfinished { error, .. }) = &done {
            self.undo(missing.iter().sum(), error);
        }
        self.took(new.iter().sum(), |[.., pieces, _]| *pieces += mapped as u64);
        self.tell();
        done
    }

    pub(super) fn unmapped(&self, bytes: u64) {
        self.gave(bytes, |[.., pieces]| *pieces += 1);
        self.tell();
    }

    /// Notes that the device provided bytes that were counted in. `count` counts the call.
    pub(in crate::device) fn took(&self, bytes: u64, count: impl FnOnce(&mut [u64; 4])) {
        let mut tally = lock(&self.tally);
        let (calls, held, peak) = &mut *tally;
        count(calls);
        *held = held.saturating_add(bytes);
        *peak = (*held).max(*peak);
        drop(tally);
        // The device has provided more than it had at its last refusal.
        if self.held() > self.ceiling.load(Relaxed) {
            self.ceiling.store(u64::MAX, Relaxed);
        }
    }

    /// Counts out bytes that were returned. `count` counts the call.
    pub(in crate::device) fn gave(&self, bytes: u64, count: impl FnOnce(&mut [u64; 4])) {
        let mut tally = lock(&self.tally);
        let (calls, held, _) = &mut *tally;
        count(calls);
        *held = held.saturating_sub(bytes);
        drop(tally);
        // Counted out here after the tally, so the bytes of the tally never exceed a limit.
        self.leave(bytes);
        THREAD.with(|thread| {
            let (meter, own) = thread.given_back.get();
            if meter == self.address() {
                thread.given_back.set((meter, own.wrapping_add(1)));
            }
        });
        self.given_back.fetch_add(1, SeqCst);
    }

    /// Sets the peak to the bytes that are reserved now.
    pub fn reset_peak(&self) {
        let (_, held, peak) = &mut *lock(&self.tally);
        *peak = *held;
    }

    /// The calls that took memory and gave it back: allocations, frees, mapped pieces and unmapped pieces. Then the reserved bytes, and their
    /// peak. All are of one moment.
    pub fn read(&self) -> ([u64; 4], u64, u64) {
        *lock(&self.tally)
    }

    /// How often other threads gave memory back: a number that changes with each time. It also changes with what this thread gives back
    /// while it asks another device.
    pub(crate) fn given_back_by_others(&self) -> u64 {
        let own = THREAD.with(|thread| {
            let (meter, own) = thread.given_back.get();
            let own = if meter == self.address() { own } else { 0 };
            thread.given_back.set((self.address(), own));
            own
        });
        self.given_back.load(SeqCst).wrapping_sub(own)
    }

    /// Identifies the meter while it lives.
    fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// The calls that took memory and gave it back.
    pub fn calls(&self) -> [u64; 4] {
        self.read().0
    }

    pub(crate) fn recorded(&self) {
        self.events.fetch_add(1, Relaxed);
    }

    pub(crate) fn queried(&self) {
        self.queries.fetch_add(1, Relaxed);
    }

    pub(crate) fn waited(&self) {
        self.waits.fetch_add(1, Relaxed);
    }

    /// How often events were recorded, events were queried, and streams were told to wait.
    pub fn orders(&self) -> [u64; 3] {
        [&self.events, &self.queries, &self.waits].map(|calls| calls.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::error::Error;

    /// Another thread may read the counters while a call of the device is under way.
    #[test]
    fn a_reading_during_a_call_agrees_with_itself() {
        let meter = Meter::of(0, 0);
        let read = || {
            let ([allocations, _, mapped, _], bytes, peak) = meter.read();
            (allocations, mapped, bytes, peak)
        };
        let during = meter.allocate(100, || Ok(read()));
        assert_eq!((during.unwrap(), read()), ((0, 0, 0, 0), (1, 0, 100, 100)));
        let mut during = None;
        let mapped = meter.map(&[10, 20, 30], || {
            during = Some(read());
            Err(Unfinished { mapped: 2, error: Error::device_failure("the device", "mapping pages", "it is lost") })
        });
        assert_eq!((mapped.is_err(), during, read()), (true, Some((1, 0, 100, 100)), (1, 2, 130, 130)));
    }

    #[test]
    fn a_request_hears_of_what_other_threads_gave_back_and_not_of_its_own() {
        let meter = Meter::of(1, 0);
        let give = || {
            meter.allocate(10, || Ok(())).unwrap();
            meter.freed(10);
        };
        let before = meter.given_back_by_others();
        give();
        assert_eq!(meter.given_back_by_others(), before);
        std::thread::scope(|scope| _ = scope.spawn(give));
        assert_eq!(meter.given_back_by_others(), before + 1);
        let other = Meter::of(2, 0);
        other.allocate(10, || Ok(())).unwrap();
        other.freed(10);
        assert_eq!(meter.given_back_by_others(), before + 1, "this thread gave memory back to another device");
    }
}
