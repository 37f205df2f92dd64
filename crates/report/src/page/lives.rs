//! Arrays from their allocation to their free, by the places of both among the events.

use std::collections::HashMap;

use crate::run::{Event, Op, Run};

/// An array.
#[derive(Clone, Copy, Debug)]
pub(super) struct Life<'r> {
    pub(super) allocation: &'r Event,
    /// Where that stands among the events.
    pub(super) start: usize,
    /// Where its free stands; none if it was alive as the trace ended.
    pub(super) free: Option<usize>,
}

impl Life<'_> {
    /// Whether it is alive once this event has happened.
    pub(super) fn is_alive_after(&self, event: usize) -> bool {
        self.start <= event && self.free.is_none_or(|free| free > event)
    }

    pub(super) fn end_address(&self) -> u64 {
        self.allocation.address.saturating_add(self.allocation.bytes)
    }
}

/// All arrays of a run, in the order of their allocations.
pub(super) fn lives(run: &Run) -> Vec<Life<'_>> {
    let (mut lives, mut places) = (Vec::new(), HashMap::new());
    for (place, event) in run.events.iter().enumerate() {
        match event.op {
            Op::Allocate => {
                places.insert(event.id, lives.len());
                lives.push(Life { allocation: event, start: place, free: None });
            }
            Op::Free => {
                if let Some(life) = places.remove(&event.id) {
                    lives[life].free = Some(place);
                }
            }
            Op::Enter | Op::Leave | Op::Short => {}
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn arrays_live_from_their_allocation_to_their_free() {
        let run = example();
        let lives = lives(&run);
        let ends: Vec<_> = lives.iter().map(|life| (life.start, life.free)).collect();
        assert_eq!(ends, [(0, None), (2, Some(7)), (4, Some(9))]);
        let is_alive: Vec<bool> = [1, 2, 6, 7].map(|event| lives[1].is_alive_after(event)).into();
        assert_eq!((is_alive, lives[0].is_alive_after(9)), (vec![false, true, true, false], true));
    }
}
