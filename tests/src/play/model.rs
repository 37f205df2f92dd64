//! The expected statistics of one scope, on one thread.

use gpucache::stats;

/// How often the statistics are read until they are right.
const PATIENCE: usize = 100_000;

/// A naive account of one scope.
pub(super) struct Scope {
    pub(super) name: String,
    /// The allocations so far, including those before the player came.
    allocations: u64,
    blocks: u64,
    bytes: u64,
    high_water: u64,
}

impl Scope {
    /// A scope in which nothing is in use.
    pub(super) fn new(name: String) -> Scope {
        let before = stats(&name).unwrap_or_default();
        let allocations = before.allocations();
        Scope { name, allocations, blocks: 0, bytes: 0, high_water: before.high_water_bytes }
    }

    /// Bytes in use.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn allocated(&mut self, bytes: u64) {
        self.allocations += 1;
        self.blocks += 1;
        self.bytes += bytes;
        self.high_water = self.high_water.max(self.bytes);
    }

    /// An allocation may have succeeded, with its array dropped at once.
    pub(super) fn allocated_and_failed(&mut self) {
        let now = stats(&self.name).unwrap_or_default();
        self.allocations = now.allocations();
        self.high_water = self.high_water.max(now.high_water_bytes);
    }

    pub(super) fn dropped(&mut self, bytes: u64) {
        self.blocks -= 1;
        self.bytes -= bytes;
    }

    /// # Panics
    /// If the statistics differ from this model, unless another thread is just taking idle memory out of the scope. If the scope
    /// `is_disturbed`, only what is in use counts.
    pub(super) fn verify(&self, is_disturbed: bool) {
        let expected = (self.allocations, self.blocks, self.bytes, self.high_water);
        let is_soon = (0..PATIENCE).any(|_| {
            let found = self.found();
            let is_now = if is_disturbed { (found.1, found.2) == (self.blocks, self.bytes) } else { found == expected };
            if !is_now {
                std::thread::yield_now();
            }
            is_now
        });
        let what = "allocations, blocks and bytes in use, and the high-water mark of";
        assert!(is_soon, "{what} {:?} are {:?} instead of {expected:?}", self.name, self.found());
    }

    fn found(&self) -> (u64, u64, u64, u64) {
        let now = stats(&self.name).unwrap_or_default();
        (now.allocations(), now.busy_blocks, now.busy_bytes, now.high_water_bytes)
    }
}
