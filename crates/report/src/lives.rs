//! The life of each array, from the event of its allocation to that of its free; and the peak of each device.

use std::collections::HashMap;

use crate::run::{Event, Op, Run};

/// An array.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life<'r> {
    pub(crate) allocation: &'r Event,
    /// The place of the allocation among the events.
    pub(crate) start: usize,
    /// The place of the free; `None` if the array was live as the trace ended.
    pub(crate) free: Option<usize>,
}

impl Life<'_> {
    /// Whether the array is live after this event.
    pub(crate) fn is_alive_after(&self, event: usize) -> bool {
        self.start <= event && self.free.is_none_or(|free| free > event)
    }

    pub(crate) fn end_address(&self) -> u64 {
        self.allocation.address.saturating_add(self.allocation.bytes)
    }
}

/// All arrays of a run, in the order of their allocations.
pub(crate) fn lives(run: &Run) -> Vec<Life<'_>> {
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

/// The moment of the most live bytes of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Peak {
    /// The event by which it is reached.
    pub(crate) event: usize,
    pub(crate) bytes: u64,
}

/// The peak of each device with allocations: the first of several equal ones.
pub(crate) fn peaks(run: &Run) -> HashMap<u64, Peak> {
    let mut devices: HashMap<u64, (u64, Peak)> = HashMap::new();
    for (place, event) in run.events.iter().enumerate() {
        match event.op {
            Op::Allocate => {
                let (live, peak) = devices.entry(event.device).or_default();
                *live = live.saturating_add(event.bytes);
                if *live > peak.bytes {
                    *peak = Peak { event: place, bytes: *live };
                }
            }
            Op::Free => {
                let (live, _) = devices.entry(event.device).or_default();
                *live = live.saturating_sub(event.bytes);
            }
            Op::Enter | Op::Leave | Op::Short => {}
        }
    }
    devices.into_iter().map(|(device, (_, peak))| (device, peak)).collect()
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

    #[test]
    fn the_peak_is_where_most_is_alive() {
        let run = example();
        assert_eq!(peaks(&run), HashMap::from([(7, Peak { event: 4, bytes: run.peak_bytes() })]));
    }
}
