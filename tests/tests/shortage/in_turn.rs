//! Two scopes of one thread that together need more than the limit, entered in turn. No request is refused, the limit is never
//! exceeded, and pages are not mapped anew at each turn.
//!
//! `IN_TURN_ENTRIES` sets how many entries the host makes, 20 by default. `--nocapture` shows how long they take, which is
//! meaningful only in a release build.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::time::{Duration, Instant};

use gpucache::device::{Device, Host, Virtual};
use gpucache::prelude::*;
use gpucache::{Recycle, Scope};
use gpucache_tests::process::number;
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;
const LIMIT: u64 = 100 * PAGE as u64;
const POLICIES: [Recycle; 3] = [Recycle::Auto, Recycle::Range, Recycle::Keyed];

/// Uses 60 of the limit's 100 pages at once.
fn entry<D: Device>(device: &D, name: &str, recycle: Recycle) {
    let _inside = Scope::new(name).recycle(recycle).enter();
    drop([20, 10, 25, 5].map(|pages| device.zeros::<u8>(pages * PAGE).unwrap()));
    assert!(device.memory().bytes <= LIMIT);
}

/// Runs `entries` entries of some scopes in turn. Returns the time of one entry.
fn in_turn<D: Device>(device: &D, names: &[String], recycle: Recycle, entries: usize) -> Duration {
    let start = Instant::now();
    names.iter().cycle().take(entries).for_each(|name| entry(device, name, recycle));
    start.elapsed() / entries as u32
}

fn names(tag: &str, recycle: Recycle) -> [String; 2] {
    ["one", "other"].map(|which| format!("in turn: {tag} {recycle:?} {which}"))
}

#[test]
fn pages_stay_where_they_are_from_turn_to_turn() {
    let _turn = turn();
    for recycle in POLICIES {
        let (device, names) = (Virtual::new(1 << 40), names("virtual", recycle));
        device.set_limit(LIMIT).unwrap();
        in_turn(&device, &names, recycle, 100);
        let before = device.memory().mapped_pieces;
        in_turn(&device, &names, recycle, 1000);
        let mapped = device.memory().mapped_pieces - before;
        println!("{recycle:?}: {mapped} pieces mapped in 1000 entries; {}", device.stats().reclaim);
        assert!(mapped <= 100, "{recycle:?}: {mapped} pieces");
        assert_eq!(device.stats().reclaim.failed, 0);
        device.synchronize().unwrap();
        names.iter().for_each(|name| _ = invalidate(name));
    }
}

#[test]
fn the_host_tells_what_a_turn_costs() {
    let _turn = turn();
    let (host, entries) = (Host::new(), number("IN_TURN_ENTRIES").unwrap_or(20) as usize);
    host.set_limit(LIMIT).unwrap();
    for recycle in POLICIES {
        let names = names("host", recycle);
        in_turn(&host, &names[..1], recycle, 4);
        let alone = in_turn(&host, &names[..1], recycle, entries);
        in_turn(&host, &names, recycle, 8);
        let both = in_turn(&host, &names, recycle, entries);
        println!("{recycle:?}: {alone:?} an entry alone, {both:?} in turn");
        names.iter().for_each(|name| _ = invalidate(name));
        host.trim();
    }
    host.set_limit(u64::MAX).unwrap();
}
