//! A naive model that executes a schedule move by move, and tracks every byte and every copy.

use crate::offload::{Access, Order, Schedule, What};

/// Returns the first error of the schedule, in an entry that begins as the schedule says, or in the next entry.
pub(super) fn check(order: &Order, budget: u64, schedule: &Schedule) -> Result<(), String> {
    let count = order.bytes.len();
    let mut here = schedule.resident_at_begin.clone();
    // Whether the host's copy is up to date. The first entry assumes it at its beginning; the second one knows.
    let mut clean = vec![true; count];
    for entry in 0..2 {
        let mut dead = vec![false; count];
        for place in 0..=order.uses.len() {
            for each in schedule.moves.iter().filter(|each| each.before as usize == place) {
                let array = each.array as usize;
                let last = order.uses.iter().rposition(|each| each.array as usize == array).unwrap();
                dead[array] = order.dies[array] && place >= (order.uses[last].until as usize).max(last + 1);
                // While a use that changes an array holds it, its contents are not final. Arrays that any use holds must stay.
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
                    What::WriteBack => clean[array] = true,
                    What::Evict => here[array] = false,
                    What::Prefetch => here[array] = true,
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
        // The next entry has a new array in place of each dead one, and its contents are on the host.
        (0..count).filter(|&array| order.dies[array]).for_each(|array| clean[array] = true);
    }
    Ok(())
}

/// The bytes that a schedule copies in an entry, to the device and to the host.
pub(super) fn moved(order: &Order, schedule: &Schedule) -> [u64; 2] {
    let bytes = |what: What| {
        let moves = schedule.moves.iter().filter(|each| each.what == what);
        moves.map(|each| order.bytes[each.array as usize]).sum()
    };
    [bytes(What::Prefetch), bytes(What::WriteBack)]
}

fn fits(order: &Order, budget: u64, here: &[bool]) -> Result<(), u64> {
    let used: u64 = order.bytes.iter().zip(here).filter(|(_, here)| **here).map(|(bytes, _)| bytes).sum();
    if used <= budget { Ok(()) } else { Err(used) }
}
