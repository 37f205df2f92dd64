//! The step that takes the executables of graphs away, and that gives up captures of the host.

use std::sync::Arc;

use super::{MOST_ATTEMPTS, Reclaim};
use crate::base::amounts::total;
use crate::base::error::Result;
use crate::device::{Memory, process};
use crate::pressure::request::Ask;
use crate::pressure::steps::ReclaimStep;
use crate::range::WaitFor;

impl<A: Ask> Reclaim<'_, A> {
    /// Gives up the capture in which the request is made, if that frees memory and the work is done all the same. Then takes executables away.
    pub(super) fn give_up_graphs(&mut self) -> Result<Option<A::Memory>> {
        let served = if self.asked.stream.give_up_listing() { self.retry(WaitFor::Nothing, true)? } else { None };
        if served.is_some() { Ok(served) } else { self.drop_graphs() }
    }

    /// Takes executables away until the request lacks nothing. Those with the fewest launches lately go first. None go if all of them
    /// together have less than the request lacks, or if it only waits for work.
    pub(super) fn drop_graphs(&mut self) -> Result<Option<A::Memory>> {
        // Other threads may take the memory meanwhile.
        for _ in 0..MOST_ATTEMPTS {
            let freed = self.drop_enough_graphs();
            if freed == 0 {
                break;
            }
            self.freed(ReclaimStep::Graphs, freed);
            if let Some(memory) = self.retry(WaitFor::Nothing, true)? {
                return Ok(Some(memory));
            }
        }
        Ok(None)
    }

    /// Takes executables away once, if they suffice. Returns their bytes.
    fn drop_enough_graphs(&self) -> u64 {
        let own = self.asked.stream.memory();
        let devices = self.devices_with_graphs();
        if devices.is_empty() {
            return 0;
        }
        let (lacks, all) = self.lacks();
        if own.graphs().bytes() < lacks || total(devices.iter().map(|device| device.graphs().bytes())) < all {
            return 0;
        }
        let mut freed = 0;
        for device in devices {
            if freed < all {
                freed = total([freed, device.graphs().give_way(all - freed)]);
            }
        }
        freed
    }

    /// The devices whose graphs have executables: first the own one, and all others if the process has reached its limit.
    fn devices_with_graphs(&self) -> Vec<Arc<Memory>> {
        let own = self.asked.stream.memory();
        let others = if process::limit() < u64::MAX { Memory::every() } else { Vec::new() };
        let others = others.into_iter().filter(|other| other.id() != own.id());
        std::iter::once(own.clone()).chain(others).filter(|device| device.graphs().bytes() > 0).collect()
    }

    /// The bytes that the request lacks: of its device, by the limit of the device and by what the device has left; and of all devices, by
    /// these and by the limit of the process.
    fn lacks(&self) -> (u64, u64) {
        let (memory, needs) = (self.asked.stream.memory(), self.ask.needs(&self.asked));
        if needs == 0 {
            return (0, 0);
        }
        let meter = memory.meter();
        let allowed = meter.most().min(memory.capacity().unwrap_or(u64::MAX)).saturating_sub(meter.held());
        // Other processes and libraries have memory of the device too. Only the driver knows how much.
        let left = match memory.pages().and_then(|pages| pages.available()) {
            Some(bytes) => bytes,
            None if meter.room_of_device() < needs => 0,
            None => u64::MAX,
        };
        let own = needs.saturating_sub(left.min(allowed));
        (own, own.max(needs.saturating_sub(process::room())))
    }
}
