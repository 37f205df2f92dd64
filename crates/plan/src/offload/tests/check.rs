//! A naive model that goes through a schedule move by move, with every byte and every copy.

use crate::offload::{Access, Order, Schedule, What};

/// What is wrong with the schedule, in an entry that begins as it says and in the one behind that.
pub(super) fn check(order: &Order, budget: u64, schedule: &Schedule) -> Result<(), String> {
    let count = order.bytes.len();
    let mut here = schedule.resident_at_begin.clone();
    // Whether the host's copy is as good; at the begin that is not known, and told by the second entry.
    let mut clean = vec![true; count];
    let mut moved = (0, 0);
    for entry in 0..2 {
        let mut dead = vec![false; count];
        for place in 0..=order.uses.len() {
            for each in schedule.moves.iter().filter(|each| each.before as usize == place) {
                let array = each.array as usize;
                let last = order.uses.iter().rposition(|each| each.array as usize == array).unwrap();
                dead[array] = order.dies[array] && place >= (order.uses[last].until as usize).max(last + 1);
                // What is held by a use that changes it has no settled contents, and what is held at all must stay.
                let holds = |changes: bool| {
                    order.uses[..place].iter().enumerate().any(|(at, each)| {
                        each.array as usize == array
                            && place < (each.until as usize).max(at + 1)
                            && (!changes || each.access != Access::Read)
                    })
                };
                let wrong = match each.what {
                    What::WriteBack => !here[array] || dead[array] || holds(true),
                    What::Evict => !here[array] || holds(false) || !(clean[array] || dead[array]),
                    What::Prefetch => here[array] || dead[array],
                };
                if wrong {
                    return Err(format!(
                        "entry {entry}: {each:?} when here {} and clean {}",
                        here[array], clean[array]
                    ));
                }
                match each.what {
                    What::WriteBack => (clean[array], moved.1) = (true, moved.1 + order.bytes[array]),
                    What::Evict => here[array] = false,
                    What::Prefetch => (here[array], moved.0) = (true, moved.0 + order.bytes[array]),
                }
                fits(order, budget, &here).map_err(|used| format!("entry {entry}: {used} bytes after {each:?}"))?;
            }
            if let Some(each) = order.uses.get(place) {
                let array = each.array as usize;
                if each.access != Access::Fill && !here[array] {
                    return Err(format!("entry {entry}: use {place} of {array} finds nothing"));
                }
                here[array] = true;
                clean[array] &= each.access == Access::Read;
                fits(order, budget, &here).map_err(|used| format!("entry {entry}: {used} bytes in use {place}"))?;
            }
        }
        if here != schedule.resident_at_begin {
            return Err(format!("entry {entry} ends otherwise than it began"));
        }
        // What dies is another array in the next entry, which the host has.
        (0..count).filter(|&array| order.dies[array]).for_each(|array| clean[array] = true);
    }
    let told = (2 * schedule.moved_in, 2 * schedule.moved_out);
    if moved == told { Ok(()) } else { Err(format!("moved {moved:?} and told {told:?}")) }
}

fn fits(order: &Order, budget: u64, here: &[bool]) -> Result<(), u64> {
    let used: u64 = order.bytes.iter().zip(here).filter(|(_, here)| **here).map(|(bytes, _)| bytes).sum();
    if used <= budget { Ok(()) } else { Err(used) }
}
