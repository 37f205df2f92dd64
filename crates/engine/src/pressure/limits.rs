//! The program's settings for a memory that may run short: how much may be reserved, how much may stay idle when scopes are left,
//! and how long a request waits. Also the limit of the process over all devices.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use super::reclaim::{self, Holder, Idle, Releaser};
use super::steps::ReclaimStats;
use crate::base::error::{Error, Result};
use crate::base::limit::Limit;
use crate::base::sync::{Mutex, lock};
use crate::device::{Memory, Stream, process};
use crate::range::{DeviceRange, WaitFor, give_back_elsewhere};

/// The settings and counts of a memory, beside those of its meter.
#[derive(Default)]
pub(super) struct Account {
    /// How requests were served that found no memory.
    pub(super) reclaim: ReclaimStats,
    idle_limit: Option<u64>,
    /// How long a request waits for other threads.
    pub(super) allocation_timeout: Duration,
}

/// Runs `act` on the account of a memory, under the account's lock.
pub(super) fn account<R: Default>(memory: &Memory, act: impl FnOnce(&mut Account) -> R) -> R {
    let account = memory.attached::<Mutex<Account>>();
    account.map_or_else(R::default, |account| act(&mut lock(account)))
}

/// The functions that front ends call on a memory that may run short. It is a device's memory, or the host's memory beside a
/// device.
impl Memory {
    /// Limits how much of it the process holds. Idle memory beyond the limit goes back at once.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for a share of a device that does not tell its size.
    #[doc(hidden)]
    pub fn set_limit(&self, limit: Limit) -> Result<()> {
        self.apply(limit)?;
        shrink_to(self, self.meter().limit().min(self.meter().soft_limit()));
        Ok(())
    }

    /// Limits how many bytes scopes keep idle once they are left.
    ///
    /// # Errors
    /// As for [`set_limit`](Memory::set_limit), and for a soft limit.
    #[doc(hidden)]
    pub fn set_idle_limit(&self, limit: Limit) -> Result<()> {
        let bytes = limit.bytes(self.size())?;
        refuse_soft(limit, "idle memory goes back at the limit anyway")?;
        // Dropped after the lock, since these may be the last handles.
        let every;
        // Of two threads that set limits at once, the later one must see the earlier one's limit.
        static CHANGE: Mutex<()> = Mutex::new(());
        let _change = lock(&CHANGE);
        account(self, |account| account.idle_limit = Some(bytes).filter(|&bytes| bytes < u64::MAX));
        every = Memory::every();
        IS_LIMITED.store(every.iter().any(|memory| idle_limit(memory).is_some()), Relaxed);
        Ok(())
    }

    /// Limits the host's memory for what leaves this device.
    ///
    /// # Errors
    /// As for [`set_limit`](Memory::set_limit), and for a soft limit.
    #[doc(hidden)]
    pub fn set_host_limit(&self, limit: Limit) -> Result<()> {
        refuse_soft(limit, "an array that leaves the device needs its place on the host")?;
        self.host_side().set_limit(limit)
    }

    /// Lets a request that finds no memory wait at most this long for other threads.
    #[doc(hidden)]
    pub fn set_allocation_timeout(&self, most: Duration) {
        account(self, |account| account.allocation_timeout = most);
    }

    /// Gives pages in which no block lies back to the device. Returns the bytes, and the failure of the device, or of work on it, that
    /// kept others from going back.
    #[doc(hidden)]
    pub fn trim(&self) -> (u64, Option<Error>) {
        self.trim_after(Idle::Budgeted, 0)
    }

    /// As [`trim`](Memory::trim), and scopes that the calling thread is inside give up the blocks of their plans too.
    #[doc(hidden)]
    pub fn trim_all(&self) -> (u64, Option<Error>) {
        self.trim_after(Idle::All, u64::MAX)
    }

    fn trim_after(&self, which: Idle, need: u64) -> (u64, Option<Error>) {
        reclaim::release_idle(which, self.id(), need, Releaser::Trim);
        let (own, host) = (DeviceRange::known(self), self.known_host_side().and_then(|host| DeviceRange::known(host)));
        let [(bytes, failure), (_, host_failure)] = [own, host].map(|range| range.map_or((0, None), trimmed));
        own.into_iter().chain(host).for_each(DeviceRange::drop_ended);
        (bytes, failure.or(host_failure))
    }

    /// Drops streams that ended, if the device has a new stream since the last call. So a program that makes a stream for each task keeps
    /// few of them, also if it needs no memory from the range. Does nothing during a capture, which a question about work may end.
    #[doc(hidden)]
    pub fn drop_ended_streams(&self) {
        if !Stream::is_any_in_capture() && self.take_new_stream() {
            DeviceRange::known(self).into_iter().for_each(DeviceRange::drop_ended);
        }
    }

    /// The bytes in use in all scopes.
    #[doc(hidden)]
    pub fn busy(&self) -> u64 {
        reclaim::busy(self.id())
    }

    /// How requests were served that found no memory.
    #[doc(hidden)]
    pub fn reclaim(&self) -> ReclaimStats {
        account(self, |account| account.reclaim)
    }

    /// Limits how much this process holds of all devices together, hosts included.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) for a share, and for a soft limit.
    #[doc(hidden)]
    pub fn set_process_limit(limit: Limit) -> Result<()> {
        refuse_soft(limit, "the process has a hard limit only")?;
        if !limit.parts().1.is_in_bytes() {
            let detail = "a share is of one device, and this limit is for all devices of the process";
            return Err(Error::unavailable(
                format_args!("the limit `{limit}`"),
                detail,
                "set a number of bytes, as `20GiB`",
            ));
        }
        let bytes = limit.bytes(None)?;
        process::set_limit(bytes);
        let excess = || process::held().saturating_sub(bytes);
        let trim = || _ = give_back_elsewhere(NO_DEVICE, excess());
        shrink(|| reclaim::by_age(None, None), Releaser::Request(None), excess, trim);
        Ok(())
    }
}

/// # Errors
/// [`is_unavailable`](crate::Error::is_unavailable) for a soft limit, for this reason.
fn refuse_soft(limit: Limit, reason: &str) -> Result<()> {
    if limit.is_soft() {
        let remedy = "set the same limit without `soft`";
        return Err(Error::unavailable(format_args!("the limit `{limit}`"), reason, remedy));
    }
    Ok(())
}

/// Gives free pages of a range back, whatever scopes may need again. Returns the bytes, and why others stayed.
fn trimmed(range: &DeviceRange) -> (u64, Option<Error>) {
    let before = range.occupancy().reserved;
    match range.trim(0, WaitFor::AnyWork) {
        Ok(bytes) => (bytes, None),
        Err(error) => (before.saturating_sub(range.occupancy().reserved), Some(error)),
    }
}

/// No device has this id.
const NO_DEVICE: u64 = 0;

/// Makes idle memory of a device go back while more than `bytes` bytes of it are reserved.
fn shrink_to(memory: &Memory, bytes: u64) {
    let excess = || memory.meter().held().saturating_sub(bytes);
    // A failure is the device's own, and the next call meets it as well.
    let trim = || _ = DeviceRange::known(memory).map(|range| range.give_back(excess()));
    shrink(|| reclaim::by_age(Some(memory.id()), None), Releaser::Request(None), excess, trim);
}

/// Gives free memory back by `trim`, and then idle memory of scopes, one after the other, until there is no `excess`.
fn shrink(holders: impl FnOnce() -> Vec<&'static dyn Holder>, by: Releaser, excess: impl Fn() -> u64, trim: impl Fn()) {
    if excess() > 0 {
        trim();
    }
    if excess() > 0 {
        for holder in holders() {
            while excess() > 0 && holder.release_some(excess(), by) > 0 {
                trim();
            }
        }
    }
}

/// Whether any memory has an idle limit.
static IS_LIMITED: AtomicBool = AtomicBool::new(false);

fn idle_limit(memory: &Memory) -> Option<u64> {
    account(memory, |account| account.idle_limit)
}

/// Notes that the thread left the outermost entry of a scope. It may have dropped arrays of other scopes in it, so all devices count.
#[inline]
pub(crate) fn left() {
    if IS_LIMITED.load(Relaxed) {
        give_back();
    }
}

#[cold]
fn give_back() {
    for memory in Memory::every() {
        let device = memory.id();
        if let Some(bytes) = idle_limit(&memory)
            && memory.meter().held() > bytes
            && let Some(range) = DeviceRange::known(&memory)
        {
            let most = || reclaim::busy(device).saturating_add(bytes);
            // A failure is the device's own, and the next call meets it as well.
            let trim = || _ = range.trim(most(), WaitFor::Nothing);
            let excess = || range.occupancy().reserved.saturating_sub(most());
            shrink(|| reclaim::by_age(Some(device), None), Releaser::IdleLimit, excess, trim);
        }
    }
}
