//! One type of limit: the same texts for devices, hosts, scopes and the process, and an error for each limit that cannot hold.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use gpucache::device::{Device, Virtual, set_process_limit};
use gpucache::prelude::*;
use gpucache::{Limit, Recycle, Scope, error::Bound, invalidate_all, stats};
use gpucache_tests::faulty::Faulty;
use gpucache_tests::turn;

const MIB: u64 = 1 << 20;
const NOT_LIMITS: [&str; 6] = ["", "a lot", "20 gigs", "-1", "150%", "soft"];

#[test]
fn a_device_takes_bytes_a_limit_or_a_text() {
    let _turn = turn();
    let device = Virtual::new(1000 * MIB as usize);
    let limited = |answer: gpucache::Result<()>| answer.map(|()| device.memory().limit);
    assert_eq!(limited(device.set_limit(7)).unwrap(), Some(7));
    assert_eq!(limited(device.set_limit("512MiB")).unwrap(), Some(512 * MIB));
    assert_eq!(limited(device.set_limit(&String::from("80%"))).unwrap(), Some(800 * MIB));
    assert_eq!(limited(device.set_limit(Limit::soft(MIB))).unwrap(), Some(800 * MIB), "the hard limit stays");
    assert_eq!(limited(device.set_limit("none")).unwrap(), None);
    for text in NOT_LIMITS {
        let error = device.set_limit(text).unwrap_err();
        assert!(error.is_unavailable() && error.to_string().contains("`20GiB`"), "{error}");
    }
}

/// The soft limit in a text is the one of the type: more is held, once nothing idle is left.
#[test]
fn a_soft_limit_in_a_text_refuses_nothing() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    device.set_limit("soft 8MiB").unwrap();
    let keyed = |name| Scope::new(name).recycle(Recycle::Keyed);
    keyed("texts: idle").run(|| device.zeros::<u8>(6 << 20).map(drop)).unwrap();
    let first = keyed("texts: first").run(|| device.zeros::<u8>(6 << 20)).unwrap();
    assert_eq!(device.memory().bytes, 6 * MIB);
    let second = keyed("texts: second").run(|| device.zeros::<u8>(6 << 20)).unwrap();
    assert_eq!((device.memory().bytes, device.stats().reclaim.beyond_soft), (12 * MIB, 1));
    drop((first, second));
    let _ = invalidate_all();
}

/// A share of a host is one of the machine's memory, and is enforced.
#[test]
#[cfg(target_os = "linux")]
fn a_share_of_a_host_is_one_of_its_memory() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    host.set_limit("50%").unwrap();
    let half = host.memory().limit.unwrap();
    let error = host.zeros::<u8>(half as usize + 1).unwrap_err();
    assert_eq!((error.shortage().unwrap().bound, error.shortage().unwrap().most_bytes), (Bound::Limit, Some(half)));
    host.set_limit("100%").unwrap();
    let all = host.memory().limit.unwrap();
    assert!(all / 2 == half && all >= 64 * MIB, "{all}");
    host.set_limit(Limit::NONE).unwrap();
}

#[test]
fn a_limit_that_cannot_hold_is_refused() {
    let _turn = turn();
    let (device, unknown) = (Virtual::new(1 << 30), Faulty::new());
    let refused = [
        unknown.set_limit("50%"),
        unknown.set_idle_limit("50%"),
        device.set_idle_limit("soft 1MiB"),
        device.set_host_limit("soft 1MiB"),
        device.set_limit(Limit::share(f64::NAN)),
        set_process_limit("50%"),
        set_process_limit("soft 1GiB"),
    ];
    for answer in refused {
        let error = answer.unwrap_err();
        assert!(error.is_unavailable(), "{error}");
    }
    assert_eq!((device.memory().limit, unknown.memory().limit), (None, None));
}

/// The bytes that a scope reserved at once on this thread, and the errors of its allocations.
fn fill(scope: Scope<'_>, device: &impl Device) -> (u64, usize) {
    let arrays: Vec<_> = scope.run(|| (0..8).map(|_| device.zeros::<u8>(1 << 20)).collect());
    let errors = arrays.iter().filter(|array| array.is_err()).count();
    let known = stats(scope.name()).unwrap();
    drop(arrays);
    scope.invalidate();
    (known.busy_bytes + known.idle_bytes, errors)
}

#[test]
fn a_scope_takes_the_same_texts() {
    let _turn = turn();
    let device = Virtual::new(8 * MIB as usize);
    assert_eq!(fill(Scope::new("texts: hard").limit("2MiB"), &device), (2 * MIB, 6));
    assert_eq!(fill(Scope::new("texts: share").limit("50%"), &device), (4 * MIB, 4));
    assert_eq!(fill(Scope::new("texts: bytes").limit(3 << 20), &device), (3 * MIB, 5));
    assert_eq!(fill(Scope::new("texts: soft").limit("soft 2MiB"), &device), (8 * MIB, 0));
    assert_eq!(fill(Scope::new("texts: none").limit("none"), &device), (8 * MIB, 0));
    const STEP: Scope<'_> = Scope::new("texts: constant").with_limit(Limit::hard(5 << 20));
    assert_eq!(fill(STEP, &device), (5 * MIB, 3));
}

#[test]
fn a_scope_at_its_soft_limit_gives_idle_memory_back_first() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let scope = Scope::new("texts: soft and idle").recycle(Recycle::Keyed).limit("soft 4MiB");
    scope.run(|| {
        drop(device.zeros::<u8>(3 << 20).unwrap()); // idle from now on
        let array = device.zeros::<u8>(2 << 20).unwrap();
        let known = stats(scope.name()).unwrap();
        assert_eq!((known.busy_bytes, known.idle_bytes), (2 * MIB, 0), "the idle array went back");
        let more = device.zeros::<u8>(3 << 20).unwrap();
        assert_eq!(stats(scope.name()).unwrap().busy_bytes, 5 * MIB);
        drop((array, more));
    });
    scope.invalidate();
}

/// A text that is no limit is the error of the allocations of its scope that need memory, and of no other.
#[test]
fn a_scope_with_a_wrong_text_refuses_its_allocations() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    for text in NOT_LIMITS {
        let scope = Scope::new("texts: wrong").limit(text);
        for _ in 0..3 {
            let error = scope.run(|| device.zeros::<u8>(1000)).unwrap_err();
            assert!(error.is_unavailable() && error.to_string().contains("`20GiB`"), "{error}");
            assert!(error.to_string().contains("texts: wrong"), "{error}");
        }
        assert!(Scope::new("texts: wrong").run(|| device.zeros::<u8>(1000)).is_ok());
        scope.invalidate();
    }
    let unknown = Faulty::new();
    let error = Scope::new("texts: share of what").limit("50%").run(|| unknown.zeros::<u8>(8)).unwrap_err();
    assert!(error.is_unavailable() && error.to_string().contains("`50%`"), "{error}");
}

/// `Scope::limit` cannot return the error of a text, so the first allocation does, and again the next one. Each error has its own text.
#[test]
fn a_wrong_text_of_a_scope_is_in_the_error_of_its_first_allocation() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let told = |scope: &Scope<'_>| scope.run(|| device.zeros::<u8>(10).unwrap_err().to_string());
    let (apples, share) = (Scope::new("texts: apples").limit("12 apples"), Scope::new("texts: share").limit("120%"));
    for _ in 0..2 {
        let text = told(&apples);
        assert!(
            text.contains("the limit \"12 apples\" cannot be used here (it is neither bytes nor a share)"),
            "{text}"
        );
        assert!(text.contains("in the scope `texts: apples`") && text.contains("`20GiB`"), "{text}");
        let text = told(&share);
        assert!(text.contains("the limit \"120%\" cannot be used here (a share is at most 100%)"), "{text}");
    }
    // A program that makes such texts without end keeps only some of them.
    for number in 0..1000 {
        let text = told(&Scope::new("texts: many").limit(&format!("{number} pears")));
        assert!(text.contains("cannot be used here"), "{text}");
    }
    assert!(told(&apples).contains("12 apples"));
}
