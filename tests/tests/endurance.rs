//! A small scope runs as long as a training run, without an error, and the process does not grow.
//!
//! `ENTRIES` sets the number of entries, 100,000 by default; the ignored test plays ten million.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use fastrand::Rng;
use gpucache::Recycle;
use gpucache::device::Virtual;
use gpucache_tests::play::Player;
use gpucache_tests::play::deviation::Deviation;
use gpucache_tests::play::entries::Style;
use gpucache_tests::process::{number, resident};

/// The bytes by which the process may grow.
const GROWTH: u64 = 1 << 20;

/// Plays entries, of which every tenth deviates. Compares the size of the process after a tenth of them with its size at the end.
fn endure(name: &str, entries: u64) {
    let rng = &mut Rng::with_seed(7);
    let style = Style { allocations: (10, 20), bytes: (256, 64 << 20), escapes: (12, 16) };
    let usual = style.entry(rng, 0);
    let mut player = Player::new(Virtual::unchecked(1 << 46), ["own", "other"].map(|scope| format!("{name}, {scope}")));
    let deviations: Vec<Deviation> = Deviation::ALL.into_iter().filter(|deviation| !deviation.is_slow()).collect();
    let mut early = None;
    for number in 0..entries {
        if number == entries / 10 {
            early = resident();
        }
        let deviation = deviations[rng.usize(0..deviations.len())];
        let deviates = rng.usize(0..10) == 0;
        let deviating = deviates.then(|| deviation.of(&usual, rng.usize(0..usual.len()), 0, 1)).flatten();
        player.entry(0, Recycle::Auto, deviating.as_ref().unwrap_or(&usual)).unwrap();
        if number % 64 == 0 {
            player.drop_kept();
        }
    }
    if let Some((early, late)) = early.zip(resident()) {
        println!("{name}: {early} bytes after a tenth, {late} at the end, {:?}", player.plan_stats(0));
        assert!(late <= early + GROWTH, "the process grew from {early} to {late} bytes");
    }
    player.finish();
}

#[test]
fn a_hundred_thousand_entries() {
    endure("endurance", number("ENTRIES").unwrap_or(100_000));
}

#[test]
#[ignore = "takes minutes; for release builds"]
fn ten_million_entries() {
    endure("long endurance", 10_000_000);
}
