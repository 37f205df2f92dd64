//! Statistics with extreme numbers, as a file may contain them. They are shown and summed like any others.

use gpucache::device::Virtual;
use gpucache::{
    cache_scope,
    prelude::*,
    stats,
    stats::{ProcessStats, ScopeStats},
};
use gpucache_tests::turn;
use serde_json::Value;

/// Replaces all whole numbers of the text.
fn replaced(value: &mut Value, number: u64) {
    match value {
        Value::Number(found) if found.is_u64() => *found = number.into(),
        Value::Array(values) => values.iter_mut().for_each(|value| replaced(value, number)),
        // A duration's nanoseconds are less than one second.
        Value::Object(fields) => fields
            .iter_mut()
            .filter(|(name, _)| !matches!(name.as_str(), "nanos" | "offload"))
            .for_each(|(_, value)| replaced(value, number)),
        _ => {}
    }
}

#[test]
fn any_statistics_are_shown_and_summed() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    for _ in 0..10 {
        cache_scope!(extreme_statistics, { drop(device.zeros::<u8>(1 << 20).unwrap()) });
    }
    assert!(device.zeros::<u8>(1 << 31).is_err());
    let text = serde_json::to_value(stats::process()).unwrap();
    for number in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        let mut text = text.clone();
        replaced(&mut text, number);
        let stats: ProcessStats = serde_json::from_value(text).unwrap();
        assert!(stats.to_string().lines().count() > 3);
        let scopes = stats.scopes.iter().filter(|scope| scope.name == "extreme_statistics");
        for scope in scopes {
            assert_eq!(scope.allocations(), number.saturating_mul(3));
            assert!(!format!("{scope} {scope:#} {}", scope.plan).is_empty());
            assert_eq!(scope.plan.deviations.total(), number.saturating_mul(5));
            assert!(scope.reclaim.shortages() >= number && !scope.reclaim.to_string().is_empty());
            let mut sum = ScopeStats::default();
            (0..3).for_each(|_| sum += scope);
            assert_eq!(sum.busy_bytes, number.saturating_mul(3));
            assert_eq!((sum.plan.carried, sum.plan.plans), (sum.busy_bytes, sum.busy_bytes));
            assert_eq!(sum.since(scope).entries, sum.entries - number);
        }
        for device in &stats.devices {
            assert!(device.memory.times_taken() >= number && device.memory.times_given_back() >= number);
            assert!(!device.to_string().is_empty() && device.range.fragmentation() <= 1.0);
        }
        assert!(stats.held_bytes() >= number);
    }
}
