//! The time of an entry by a schedule, once many entries went before it.

use super::machine::Machine;
use super::types::{Link, Order, Schedule};

/// Entries that are simulated: what the first ones find free or idle is not so in the others.
const ENTRIES: u32 = 4;

/// Seconds from the begin of an entry to that of the next one: infinite if the schedule does not hold.
pub fn simulate(order: &Order, budget: u64, link: Link, schedule: &Schedule) -> f64 {
    let mut machine = Machine::new(order, budget, link, &schedule.resident_at_begin);
    let mut begin = 0.0;
    let mut seconds = f64::INFINITY;
    for _ in 0..ENTRIES {
        let mut moves = schedule.moves.iter().peekable();
        for place in 0..=order.end() {
            while let Some(each) = moves.next_if(|each| each.before == place) {
                machine.issue(each);
            }
            machine.pass(place);
        }
        (seconds, begin) = (machine.now - begin, machine.now);
    }
    if seconds.is_nan() { f64::INFINITY } else { seconds }
}
