//! Entries that deviate from a plan, in every way at every position. No memory is handed out twice, the statistics are right, and
//! the scope soon follows a plan again.
//!
//! `POSITIONS` sets at how many positions of an entry each deviation is tried: by default 6 or 20 of a trace, and up to 40 of a random
//! entry.

use fastrand::Rng;
use gpucache::Recycle;
use gpucache::device::{Host, Virtual};
use gpucache_tests::play::deviation::Deviation;
use gpucache_tests::play::entries::{Style, of_trace, plannable, varied};
use gpucache_tests::play::{Checked, Op, Player};

/// The scope that plans, and below, the scope that is entered inside it.
const SCOPE: usize = 0;
const OTHER: usize = 1;
/// The most entries until a scope follows a plan again.
const SOON: usize = 24;
const PLANNED: f64 = 0.95;
/// A device with more memory than any of these tests needs.
const PLENTY: usize = 1 << 46;

/// The number of positions to try, of at most `all`.
fn positions(default: usize, all: usize) -> usize {
    let number = std::env::var("POSITIONS").ok().and_then(|number| number.parse().ok());
    number.unwrap_or(default).min(all)
}

/// One scope with its usual entry.
struct Subject<'a, D: Checked> {
    player: Player<D>,
    /// Makes the usual entries, one after the other.
    usual: &'a dyn Fn(&mut Rng) -> Vec<Op>,
    rng: Rng,
    what: String,
}

impl<D: Checked> Subject<'_, D> {
    /// Plays a usual entry. Returns the share of the plannable allocations that the plan served. Two allocations may be missing,
    /// those that once outlived their entry; in a small entry they may be most of what is missing.
    fn usual(&mut self) -> f64 {
        let entry = (self.usual)(&mut self.rng);
        let before = self.player.planned(SCOPE);
        self.player.entry(SCOPE, Recycle::Auto, &entry).unwrap();
        let planned = self.player.planned(SCOPE) - before;
        (planned + 2) as f64 / plannable(&entry) as f64
    }

    /// Plays usual entries until one is planned.
    fn settle(&mut self) -> usize {
        let mut shares = Vec::new();
        for entries in 1..=SOON {
            shares.push(self.usual());
            if shares.last().is_some_and(|&share| share >= PLANNED) {
                return entries;
            }
        }
        let stats = self.player.plan_stats(SCOPE);
        let held = self.player.device().memory();
        panic!("{}: no plan after {SOON} entries, shares {shares:.2?}, {stats:?}, {held:?}", self.what);
    }

    fn deviate(&mut self, deviation: Deviation, position: usize) {
        let entry = (self.usual)(&mut self.rng);
        let Some(entry) = deviation.of(&entry, position % entry.len(), SCOPE, OTHER) else { return };
        self.what = format!("{deviation:?} at {position}");
        self.player.entry(SCOPE, Recycle::Auto, &entry).unwrap();
        match deviation {
            // The array lies in the block until the end.
            Deviation::KeptForEver => drop([self.usual(), self.usual()]),
            _ => drop(self.settle()),
        }
        self.player.device().synchronize().unwrap();
    }
}

/// Tries every deviation at `number` positions of entries that `usual` makes.
fn sweep<D: Checked>(device: D, name: &str, seed: u64, number: usize, usual: &dyn Fn(&mut Rng) -> Vec<Op>) {
    let names = [name.to_owned(), format!("{name}, other")];
    let mut rng = Rng::with_seed(seed);
    let length = usual(&mut rng.fork()).len();
    let what = "at first".to_owned();
    let mut subject = Subject { player: Player::new(device, names), usual, rng: rng.fork(), what };
    subject.settle();
    for deviation in Deviation::ALL {
        let number = if deviation.is_slow() { number.min(60) } else { number };
        let step = length as f64 / number as f64;
        for place in 0..number {
            let within = rng.f64() * step;
            subject.deviate(deviation, (place as f64 * step + within) as usize);
        }
        subject.player.drop_kept();
        subject.what = format!("after {deviation:?}");
        subject.settle();
    }
    subject.player.finish();
}

fn sweep_trace(name: &str, number: usize) {
    let entry = of_trace(name, 3);
    assert!(plannable(&entry) > 100, "{name}");
    let number = positions(number, entry.len());
    sweep(Virtual::new(PLENTY), &format!("deviations, {name}"), 1, number, &|_| entry.clone());
}

/// A plan with the sizes of some deviations finds no arena, and is learned anew.
#[test]
fn gcn_sampled() {
    sweep_trace("gcn_sampled", 20);
}

#[test]
fn gpt2() {
    sweep_trace("gpt2", 6);
}

#[test]
fn gpt2_varlen() {
    sweep_trace("gpt2_varlen", 6);
}

#[test]
fn mixtral() {
    sweep_trace("mixtral", 6);
}

#[test]
fn resnet50() {
    sweep_trace("resnet50", 6);
}

#[test]
fn splat() {
    sweep_trace("splat", 6);
}

#[test]
fn vit_b_16() {
    sweep_trace("vit_b_16", 6);
}

/// Random entries whose sizes are the same each time.
#[test]
fn random_entries() {
    for seed in 0..6 {
        let style = Style { allocations: (3, 60), bytes: (1, 64 << 20), escapes: (12, 64) };
        let entry = style.entry(&mut Rng::with_seed(seed), 0);
        let number = positions(40, entry.len());
        sweep(Virtual::new(PLENTY), &format!("deviations, random {seed}"), seed, number, &|_| entry.clone());
    }
}

/// Random entries whose sizes vary a little, in real memory.
#[test]
fn random_entries_on_the_host() {
    for seed in 100..106 {
        let style = Style { allocations: (3, 60), bytes: (16, 16 << 10), escapes: (12, 64) };
        let entry = style.entry(&mut Rng::with_seed(seed), 0);
        let number = positions(40, entry.len());
        let usual = |rng: &mut Rng| varied(rng, &entry, 1.0 + 0.02 * (seed % 2) as f64);
        sweep(Host::new(), &format!("deviations, host {seed}"), seed, number, &usual);
    }
}
