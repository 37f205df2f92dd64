//! The cost and the effect of entries within many open entries, in whatever order guards are dropped.

use std::hint::black_box;
use std::time::{Duration, Instant};

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{
    Recycle, Scope, ScopeGuard,
    offload::{Placed, Placement},
    prelude::*,
    stats,
};

/// The number of open entries. A program has so many if it forgets a guard in each of that many requests.
const MANY: usize = 100_000;
/// If an entry within [`MANY`] others looked at each of them, it would take 260 times as long as an entry alone. The test takes the
/// shortest of several times, so that a busy machine does not matter.
const FACTOR: u32 = 20;
const ROUNDS: usize = 15;

fn shortest(mut act: impl FnMut()) -> Duration {
    let times = (0..ROUNDS).map(|_| {
        let begun = Instant::now();
        act();
        begun.elapsed()
    });
    times.min().unwrap()
}

fn entries(name: &str) {
    (0..200).for_each(|_| drop(black_box(Scope::new(name).enter())));
}

/// Enters the scopes of [`MANY`] guards. One of sixteen guards leaves all scopes.
fn open(name: impl Fn(usize) -> String) -> Vec<ScopeGuard> {
    let enter = |number: usize| match number % 16 {
        15 => ScopeGuard::outside(),
        _ => Scope::new(&name(number)).enter(),
    };
    (0..MANY).map(enter).collect()
}

#[test]
fn an_entry_takes_no_longer_within_many_others() {
    let alone = shortest(|| entries("alone"));
    type Name = fn(usize) -> String;
    let names: [(&str, Name); 2] =
        [("of one name", |_| "deep".into()), ("of many names", |number| format!("deep {}", number % 300))];
    for (what, name) in names {
        let guards = open(name);
        for inner in ["alone", "deep", "deep 7"] {
            let within = shortest(|| entries(inner));
            assert!(within < FACTOR * alone, "`{inner}` within {MANY} {what}: {within:?}, alone {alone:?}");
        }
        // As if they were forgotten, and on another thread too.
        drop(guards);
        let after = shortest(|| entries("alone"));
        assert!(after < FACTOR * alone, "after {MANY} {what}: {after:?}, before {alone:?}");
    }
}

#[test]
fn guards_are_dropped_in_any_order_at_one_price() {
    let drop_all = |order: fn(&mut Vec<ScopeGuard>)| {
        let mut guards = open(|number| format!("dropped {}", number % 3));
        order(&mut guards);
        let begun = Instant::now();
        drop(guards);
        begun.elapsed()
    };
    let newest_first = drop_all(|guards| guards.reverse());
    let oldest_first = drop_all(|_| {});
    let shuffled = drop_all(|guards| Rng::with_seed(1).shuffle(guards));
    // If each of them looked at all others, this would take as long as some thousand.
    let most = 30 * newest_first.max(Duration::from_millis(10));
    assert!(oldest_first.max(shuffled) < most, "{newest_first:?}, {oldest_first:?}, {shuffled:?}");
}

/// The settings of an open entry. The scope is `None` for an entry outside of all scopes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    scope: Option<usize>,
    placement: Option<Placement>,
    is_limited: bool,
}

const NAMES: [&str; 3] = ["any order, first", "any order, second", "any order, third"];
const LIMIT: usize = 1 << 20;

impl Said {
    fn at_random(rng: &mut Rng) -> Said {
        let scope = (rng.usize(..5) > 0).then(|| rng.usize(..NAMES.len()));
        let placement = [None, None, Some(Placement::Host), Some(Placement::Device)][rng.usize(..4)];
        Said { scope, placement: placement.filter(|_| scope.is_some()), is_limited: scope.is_some() && rng.bool() }
    }

    fn enter(self, recycle: Recycle) -> ScopeGuard {
        let Some(scope) = self.scope else { return ScopeGuard::outside() };
        let scope = Scope::new(NAMES[scope]).recycle(recycle);
        let scope = self.placement.map_or(scope, |placement| scope.placement(placement));
        if self.is_limited { scope.limit(LIMIT as u64).enter() } else { scope.enter() }
    }
}

/// The scope that serves, the setting for where arrays rest, and whether the limit applies.
fn seen(device: &Virtual) -> Said {
    let served = || NAMES.map(|name| stats(name).map_or(0, |stats| stats.allocations()));
    let before = served();
    drop(device.zeros::<u8>(100));
    let scope = std::iter::zip(before, served()).position(|(before, after)| before != after);
    let placement = Placed::<u8, _>::zeros(device, 8).unwrap().placement();
    let placement = Some(placement).filter(|&placement| placement != Placement::Auto);
    Said { scope, placement, is_limited: device.zeros::<u8>(2 * LIMIT).is_err() }
}

fn expected(open: &[Said]) -> Said {
    open.last().copied().unwrap_or(Said { scope: None, placement: None, is_limited: false })
}

/// The settings in a scope that is entered now. If it has no placement of its own, it has that of the scope around it.
fn entered(said: Said, open: &[Said]) -> Said {
    let inherited = if said.scope.is_some() { expected(open).placement } else { None };
    Said { placement: said.placement.or(inherited), ..said }
}

#[test]
fn what_is_open_decides_whatever_was_left_first() {
    for seed in 0..20 {
        let (mut rng, device) = (Rng::with_seed(seed), Virtual::new(1 << 30));
        let recycle = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off][seed as usize % 4];
        let (mut guards, mut open) = (Vec::new(), Vec::new());
        for step in 0..300 {
            let comes = rng.usize(..100) < 40 + step / 50 % 2 * 20;
            if comes || guards.is_empty() {
                let said = Said::at_random(&mut rng);
                guards.push(said.enter(recycle));
                open.push(entered(said, &open));
            } else {
                let place = rng.usize(..guards.len());
                drop(guards.remove(place));
                open.remove(place);
            }
            assert_eq!(seen(&device), expected(&open), "seed {seed}, step {step}, {open:?}");
        }
        guards.clear();
        assert_eq!(seen(&device), expected(&[]));
        NAMES.iter().for_each(|name| _ = gpucache::invalidate(*name));
    }
}
