//! Many names: an operation on one name does not depend on how many names exist, and an operation on all of them takes linear time.
//!
//! Names are shared by the whole process, so there is one test, which adds more and more of them.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use gpucache::device::Virtual;
use gpucache::{Array, cache_scope, invalidate, invalidate_all};
use gpucache_tests::names::{Names, request, requests};
use gpucache_tests::process::{in_one_of, median};

/// The number of names that is compared with four times as many, and the number of other names when one name is measured.
const NAMES: usize = if cfg!(debug_assertions) { 2_500 } else { 25_000 };
const OTHERS: usize = 20_000;
/// Factors: the most time that four times as many names may take, and that one name may take among many.
const MANY: u32 = 6;
const ONE: u32 = 5;

fn time(act: impl FnOnce()) -> Duration {
    let start = Instant::now();
    act();
    start.elapsed()
}

/// The shortest of three times of `invalidate_all`, while all of these names have memory to free.
fn invalidates_all(device: &Virtual, names: &[Names]) -> Duration {
    let once = |_| {
        let each = names.iter().flat_map(|names| (0..NAMES).map(|number| names.name(number)));
        each.for_each(|name| request(device, &name));
        time(|| _ = invalidate_all())
    };
    (0..3).map(once).min().unwrap()
}

/// The median time to invalidate one name that has memory to free.
fn invalidates_one(device: &Virtual, name: &str) -> Duration {
    let once = |_| {
        request(device, name);
        time(|| _ = invalidate(name))
    };
    median((0..51).map(once).collect())
}

/// The median time of an allocation for which the device's memory has to grow.
fn grows(device: &Virtual, name: &str) -> Duration {
    let mut held = Vec::new();
    let page = || Array::<u8, _>::zeros(device, 2 << 20).unwrap();
    let once = |_| cache_scope!(name = name, recycle = "range", { time(|| held.push(page())) });
    median((0..51).map(once).collect())
}

#[test]
fn what_many_names_take() {
    let device = Virtual::unchecked(1 << 46);
    let first = requests(&device, 100);
    let one = |is: fn(&Virtual, &str) -> Duration| is(&device, &first.name(50));
    let among_few = [one(invalidates_one), one(grows)];
    let mut names = vec![requests(&device, NAMES)];
    let few = invalidates_all(&device, &names);
    names.extend((1..4).map(|_| requests(&device, NAMES)));
    let many = invalidates_all(&device, &names);
    println!("to invalidate {NAMES} names: {few:?}, four times as many: {many:?}");
    let is_linear = many <= MANY * few || (0..4).any(|_| invalidates_all(&device, &names) <= MANY * few);
    names.extend((4 * NAMES..OTHERS).step_by(NAMES).map(|_| requests(&device, NAMES)));
    in_one_of(5, || {
        let among_many = [one(invalidates_one), one(grows)];
        println!("one name, and memory that grows, among few: {among_few:?}, among {OTHERS}: {among_many:?}");
        for (few, many) in among_few.into_iter().zip(among_many) {
            assert!(many <= ONE * few, "one name among few: {few:?}, among {OTHERS} names: {many:?}");
        }
    });
    assert!(is_linear, "to invalidate {NAMES} names takes {few:?}, four times as many {many:?}");
    // The times of a debug build mean nothing.
    assert!(cfg!(debug_assertions) || many < Duration::from_secs(1), "to invalidate {} names: {many:?}", 4 * NAMES);
}
