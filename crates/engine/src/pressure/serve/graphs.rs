//! The step that takes the executables of graphs away.

use std::sync::Arc;

use super::{LEAST, Reclaim};
use crate::base::amounts::total;
use crate::base::error::Result;
use crate::device::{Memory, process};
use crate::pressure::request::{Ask, Asked};
use crate::pressure::steps::ReclaimStep;
use crate::range::{DeviceRange, WaitFor};

impl<A: Ask> Reclaim<'_, A> {
    /// Takes executables away until the request is served. Those with the fewest launches lately go first. None go if all of them together
    /// have less than the request lacks.
    pub(super) fn drop_graphs(&mut self) -> Result<Option<A::Memory>> {
        let devices = self.devices_with_graphs();
        // A captured stream gets no memory from the device.
        if devices.is_empty() || self.asked.stream.is_capturing() {
            return Ok(None);
        }
        let mut bytes = self.least_missing();
        if total(devices.iter().map(|device| device.graph_bytes())) < bytes {
            return Ok(None);
        }
        loop {
            let mut freed = 0;
            for device in &devices {
                freed += device.drop_graphs(bytes.max(1).saturating_sub(freed));
            }
            if freed == 0 {
                return Ok(None);
            }
            self.freed(ReclaimStep::Graphs, freed);
            if let Some(memory) = self.retry(WaitFor::Nothing, true)? {
                return Ok(Some(memory));
            }
            // The free memory lies apart, or the request needs whole pages.
            bytes = bytes.saturating_mul(2).max(LEAST);
        }
    }

    /// The devices whose graphs have executables: the own one, and all others if the process has reached its limit.
    fn devices_with_graphs(&self) -> Vec<Arc<Memory>> {
        let own = self.asked.stream.memory();
        let others = if self.error.is_of_process() { Memory::every() } else { Vec::new() };
        let others = others.into_iter().filter(|other| other.id() != own.id());
        std::iter::once(own.clone()).chain(others).filter(|device| device.graph_bytes() > 0).collect()
    }

    /// The bytes that the request lacks at least. It lacks more if free memory lies apart.
    fn least_missing(&self) -> u64 {
        let Asked { stream, bytes, .. } = self.asked;
        let memory = stream.memory();
        let allowed = memory.most().saturating_sub(memory.meter().held()).min(process::room());
        let available = memory.pages().and_then(|pages| pages.available()).unwrap_or(u64::MAX);
        let idle = DeviceRange::of(stream).map_or(0, DeviceRange::idle_bytes);
        bytes.saturating_sub(allowed.min(available)).saturating_sub(idle)
    }
}
