//! The allocations of a device that found no memory.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::run::{Event, Op, Run};

/// The allocations that failed on each device, as numbers among the events of the run.
pub(super) fn failed(run: &Run) -> HashMap<u64, Vec<usize>> {
    let mut devices: HashMap<u64, Vec<usize>> = HashMap::new();
    for (place, event) in run.events.iter().enumerate().filter(|(_, event)| event.op == Op::Short) {
        devices.entry(event.device).or_default().push(place);
    }
    devices
}

/// Failed allocations in groups: scope, dtype, shape, failures, bytes of one, source line and the first event. The earliest come first.
pub(super) fn groups(run: &Run, failed: &[usize]) -> Vec<Value> {
    let mut groups: HashMap<_, (usize, u64)> = HashMap::new();
    for &place in failed {
        let Event { scope, dtype, shape, site, bytes, .. } = &run.events[place];
        groups.entry((scope, dtype, shape, site, bytes)).or_insert((place, 0)).1 += 1;
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_unstable_by_key(|(_, (first, _))| *first);
    let row = |((scope, dtype, shape, site, bytes), (first, failures)): &(_, _)| {
        json!([scope, dtype, shape, failures, bytes, site, first])
    };
    groups.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn equal_failures_of_a_device_are_counted() {
        let mut run = example();
        run.events[4] = run.events[5].clone();
        let devices = failed(&run);
        assert_eq!(devices, HashMap::from([(7, vec![4, 5])]));
        let row = json!(["inner", "u8", "99999999", 2, 99_999_999, "src/main.rs:11:9", 4]);
        assert_eq!(groups(&run, &devices[&7]), [row]);
        run.events[5].bytes = 1;
        assert_eq!(groups(&run, &devices[&7]).len(), 2);
    }
}
