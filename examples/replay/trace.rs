//! A trace as it is replayed: checked as a whole before anything is allocated.
//!
//! Invariants: a slot holds one allocation at a time and is below `slots`; a free names a slot that holds one; a step has
//! at least one operation. Live bytes count each allocation rounded up to 256, as allocators of GPU memory do.

use std::collections::HashMap;

/// To what live bytes are rounded up.
const GRANULE: u64 = 256;
/// So many steps at the end are the steady state.
const STEADY: usize = 3;

/// The allocation history of a program.
#[derive(Debug)]
pub(crate) struct Trace {
    /// The file's name without its endings.
    pub(crate) name: String,
    pub(crate) steps: Vec<Vec<Op>>,
    /// How many slots the operations name.
    pub(crate) slots: usize,
    /// The largest sum of live bytes.
    pub(crate) peak_live_bytes: u64,
}

/// One line of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Allocate { slot: u32, bytes: usize },
    Free { slot: u32 },
}

/// A trace that is being read, line by line.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    steps: Vec<Vec<Op>>,
    number: u64,
    lives: HashMap<u64, Life>,
    free_slots: Vec<u32>,
    slots: u32,
    live_bytes: u64,
    peak_live_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Life {
    Going { slot: u32, bytes: u64 },
    Over,
}

impl Trace {
    /// How many lines the trace has: an allocation is one operation, and so is a free.
    pub(crate) fn operations(&self) -> usize {
        operations(&self.steps)
    }

    /// The steps before the steady state, and those in it.
    pub(crate) fn split_steady(&self) -> (&[Vec<Op>], &[Vec<Op>]) {
        self.steps.split_at(self.steps.len().saturating_sub(STEADY))
    }
}

/// The operations of some steps.
pub(crate) fn operations(steps: &[Vec<Op>]) -> usize {
    steps.iter().map(Vec::len).sum()
}

impl Builder {
    /// What follows belongs to the step with this number.
    pub(crate) fn step(&mut self, number: u64) -> Result<(), String> {
        if !self.steps.is_empty() && number < self.number {
            return Err(format!("step {number} comes after step {}", self.number));
        }
        if self.steps.is_empty() || number != self.number {
            self.steps.push(Vec::new());
            self.number = number;
        }
        Ok(())
    }

    /// A new allocation; no other one of the trace has this id.
    pub(crate) fn allocate(&mut self, id: u64, bytes: u64) -> Result<(), String> {
        if self.lives.contains_key(&id) {
            return Err(format!("{id} was allocated before: an id names one allocation"));
        }
        let size = isize::try_from(bytes).map_err(|_| format!("{bytes} bytes are more than a machine can address"))?;
        let live_bytes = self.live_bytes.checked_add(rounded(bytes));
        self.live_bytes = live_bytes.ok_or("more bytes are alive than a machine can count")?;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);

        let slot = self.free_slot()?;
        self.lives.insert(id, Life::Going { slot, bytes });
        self.push(Op::Allocate { slot, bytes: size.unsigned_abs() })
    }

    /// The end of an allocation of this and of earlier steps.
    pub(crate) fn free(&mut self, id: u64, bytes: u64) -> Result<(), String> {
        let life = self.lives.get_mut(&id).ok_or_else(|| format!("{id} is freed, but was never allocated"))?;
        let Life::Going { slot, bytes: allocated } = *life else { return Err(format!("{id} is freed twice")) };
        if bytes != allocated {
            return Err(format!("{id} is freed with {bytes} bytes, but was allocated with {allocated}"));
        }
        *life = Life::Over;
        self.live_bytes -= rounded(bytes);
        self.free_slots.push(slot);
        self.push(Op::Free { slot })
    }

    /// The slot that was freed last, which is likely still in the processor's cache, or a new one.
    fn free_slot(&mut self) -> Result<u32, String> {
        if let Some(slot) = self.free_slots.pop() {
            return Ok(slot);
        }
        let slot = self.slots;
        self.slots = slot.checked_add(1).ok_or("too many allocations are alive")?;
        Ok(slot)
    }

    fn push(&mut self, op: Op) -> Result<(), String> {
        self.steps.last_mut().ok_or("it belongs to no step")?.push(op);
        Ok(())
    }

    pub(crate) fn finish(self, name: String) -> Result<Trace, String> {
        if self.steps.iter().all(Vec::is_empty) {
            return Err("there is nothing to replay".to_owned());
        }
        let Self { steps, slots, peak_live_bytes, .. } = self;
        Ok(Trace { name, steps, slots: slots as usize, peak_live_bytes })
    }
}

/// No allocation is larger than `isize::MAX`, so this does not overflow.
fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRANULE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_of_what_lives_at_once_each_rounded_up() {
        let mut builder = Builder::default();
        builder.step(3).unwrap();
        builder.allocate(10, 1).unwrap(); // 256
        builder.allocate(11, 257).unwrap(); // 768
        builder.free(10, 1).unwrap(); // 512
        builder.step(4).unwrap();
        builder.allocate(12, 256).unwrap(); // 768
        builder.allocate(13, 0).unwrap();
        builder.free(11, 257).unwrap(); // 256
        builder.allocate(14, 300).unwrap(); // 768
        let trace = builder.finish("tiny".to_owned()).unwrap();
        assert_eq!((trace.peak_live_bytes, trace.operations(), trace.steps.len()), (768, 7, 2));
    }

    #[test]
    fn a_slot_is_used_again_once_it_is_free() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        for id in 0..100 {
            builder.allocate(id, 8).unwrap();
            builder.free(id, 8).unwrap();
        }
        let trace = builder.finish(String::new()).unwrap();
        assert_eq!(trace.slots, 1);
        assert_eq!(trace.steps[0][6..8], [Op::Allocate { slot: 0, bytes: 8 }, Op::Free { slot: 0 }]);
    }

    #[test]
    fn sums_that_do_not_fit_are_refused() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        assert!(builder.allocate(0, u64::MAX).unwrap_err().contains("address"));
        builder.allocate(1, isize::MAX as u64 - 255).unwrap();
        builder.allocate(2, isize::MAX as u64 - 255).unwrap();
        assert!(builder.allocate(3, 1 << 20).unwrap_err().contains("count"));
    }

    #[test]
    fn a_trace_without_operations_is_refused() {
        assert!(Builder::default().finish(String::new()).is_err());
    }
}
