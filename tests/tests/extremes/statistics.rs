//! Statistics with extreme numbers, as a file may contain them. They are shown and summed like any others.

use gpucache::device::Virtual;
use gpucache::{ProcessStats, ScopeStats, cache_scope, prelude::*, process_stats};
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
            .filter(|(name, _)| !matches!(name.as_str(), "nanos" | "placed"))
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
    let text = serde_json::to_value(process_stats()).unwrap();
    for number in [0, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX] {
        let mut text = text.clone();
        replaced(&mut text, number);
        let stats: ProcessStats = serde_json::from_value(text).unwrap();
        assert!(stats.to_string().lines().count() > 3);
        let scopes = stats.scopes.iter().filter(|scope| scope.name == "extreme_statistics");
        for scope in scopes {
            assert_eq!(scope.stats.allocations(), number.saturating_mul(3));
            assert!(!format!("{} {:#} {}", scope.stats, scope.stats, scope.plans).is_empty());
            assert_eq!(scope.plans.deviations.total(), number.saturating_mul(5));
            assert!(scope.reclaim.shortages() >= number && !scope.reclaim.to_string().is_empty());
            let mut sum = ScopeStats::default();
            (0..3).for_each(|_| sum += scope.stats);
            assert_eq!(sum.busy_bytes, number.saturating_mul(3));
            let mut plans = scope.plans;
            plans += scope.plans;
            assert_eq!(plans.planned, number.saturating_mul(2));
        }
        for device in &stats.devices {
            assert!(device.memory.times_taken() >= number && device.memory.times_given_back() >= number);
            assert!(!device.to_string().is_empty() && device.range.fragmentation() <= 1.0);
        }
        assert!(stats.held_bytes() >= number && stats.scopes().entries >= number);
    }
}
