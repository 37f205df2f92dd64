//! What the ladder did, kept for each device, and told to the scope that asked.

#[cfg(feature = "tracing")]
use std::fmt;
use std::sync::{Arc, PoisonError, Weak};

use super::ask::Asked;
use super::climbs::Climbs;
use super::ladder::Rung;
use crate::base::amounts::{add, total};
#[cfg(feature = "tracing")]
use crate::base::subscriber::{self, TARGET};
use crate::base::sync::{Mutex, MutexGuard};
use crate::device::process;
use crate::device::{Device, Memory};

/// How often the memory of a device was short so far, and which rung of the ladder served those who asked.
///
/// ```
/// use gpucache::{climbs, device::Virtual};
///
/// assert_eq!(climbs(&Virtual::new(1 << 30)).begun(), 0);
/// ```
pub fn climbs(device: &impl Device) -> Climbs {
    climbs_of_memory(device.stream_handle().memory())
}

/// The same of a device's memory.
pub(super) fn climbs_of_memory(memory: &Arc<Memory>) -> Climbs {
    let known = tallies().iter().find(|(other, _)| is(other, memory)).map(|(_, climbs)| *climbs);
    known.unwrap_or_default()
}

type Tallies = Vec<(Weak<Memory>, Climbs)>;

fn tallies() -> MutexGuard<'static, Tallies> {
    static TALLIES: Mutex<Tallies> = Mutex::new(Vec::new());
    TALLIES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is(known: &Weak<Memory>, memory: &Arc<Memory>) -> bool {
    std::ptr::eq(known.as_ptr(), Arc::as_ptr(memory))
}

/// What one allocation did so far; its device and its scope have it when the climb is over.
#[derive(Debug, Default)]
pub(super) struct Tally(Climbs);

impl Tally {
    pub(super) fn tried(&mut self, rung: Rung) {
        self.0.rungs[rung as usize].tried = 1;
    }

    pub(super) fn freed(&mut self, rung: Rung, bytes: u64) {
        add(&mut self.0.rungs[rung as usize].freed_bytes, bytes);
    }

    /// What scopes gave back so far.
    pub(super) fn freed_bytes(&self) -> u64 {
        total(self.0.rungs.iter().map(|rung| rung.freed_bytes))
    }

    /// The climb is over: it was served, or not.
    pub(super) fn end(mut self, asked: &Asked<'_>, served: Option<Rung>) {
        match served {
            Some(rung) => self.0.rungs[rung as usize].served = 1,
            None => self.0.failed = 1,
        }
        self.count(asked);
        #[cfg(feature = "tracing")]
        self.tell(asked, served.map_or("none", Rung::name));
    }

    /// Nothing idle served it, and more than the soft limit is to be held.
    pub(super) fn end_beyond(mut self, asked: &Asked<'_>) {
        self.0.beyond_soft = 1;
        self.count(asked);
        #[cfg(feature = "tracing")]
        self.tell(asked, "none, beyond the soft limit");
    }

    /// Tells a subscriber of `tracing`, once no lock is held.
    #[cfg(feature = "tracing")]
    fn tell(&self, asked: &Asked<'_>, served_by: &str) {
        let (device, bytes, freed_bytes) = (asked.stream.memory_id(), asked.bytes, self.freed_bytes());
        let name = asked.holder.and_then(|holder| holder.name());
        let (scope, gave) = (name.as_deref(), Gave(&self.0));
        let tell =
            || tracing::debug!(target: TARGET, scope, device, bytes, served_by, %gave, freed_bytes, "climb for memory");
        subscriber::tell(tell);
    }

    /// For the scope that asked, and for the device.
    fn count(&self, asked: &Asked<'_>) {
        let is_limited = asked.stream.meter().limit() < u64::MAX || process::limit() < u64::MAX;
        asked.holder.into_iter().for_each(|holder| holder.count_climb(&self.0, is_limited));
        let memory = asked.stream.memory();
        let mut tallies = tallies();
        let place = tallies.iter().position(|(other, _)| is(other, memory));
        let place = place.unwrap_or_else(|| {
            tallies.retain(|(other, _)| other.strong_count() > 0);
            tallies.push((Arc::downgrade(memory), Climbs::default()));
            tallies.len() - 1
        });
        if let Some((_, sum)) = tallies.get_mut(place) {
            sum.add(&self.0);
        }
    }
}

/// The rungs on which somebody gave something, with the bytes of each.
#[cfg(feature = "tracing")]
struct Gave<'a>(&'a Climbs);

#[cfg(feature = "tracing")]
impl fmt::Display for Gave<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gave = Rung::ALL.into_iter().filter(|&rung| self.0.of(rung).freed_bytes > 0);
        gave.enumerate().try_for_each(|(place, rung)| {
            let comma = if place > 0 { ", " } else { "" };
            write!(f, "{comma}{rung}: {}", self.0.of(rung).freed_bytes)
        })
    }
}
