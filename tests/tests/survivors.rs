//! Arrays of any sizes that outlive their entry by chance. A scope with plans reserves hardly more for them than the range would.
//!
//! `PROGRAMS` sets how many random programs run, 60 by default. A release build runs 10,000 of them in some minutes. `SEED=n` runs
//! only the n-th.
#![allow(clippy::unwrap_used)]

use gpucache::Recycle;
use gpucache_tests::survivors::{Outcome, Program};
use gpucache_tests::{seeds, turn};

/// Reserved memory with plans ÷ reserved memory of the range alone.
struct Ratio {
    seed: u64,
    mean: f64,
    peak: f64,
}

fn ratio(seed: u64, program: &Program) -> Ratio {
    let [auto, range]: [Outcome; 2] = [Recycle::Auto, Recycle::Range].map(|recycle| program.run(recycle));
    Ratio { seed, mean: auto.mean / range.mean, peak: auto.peak as f64 / range.peak as f64 }
}

fn mean(ratios: &[Ratio], of: impl Fn(&Ratio) -> f64) -> f64 {
    ratios.iter().map(of).sum::<f64>() / ratios.len() as f64
}

#[test]
fn plans_reserve_hardly_more_than_the_range() {
    // A layout is improved for a limited time. Tests at the same time would leave less of it, and the figures would vary.
    let _turn = turn();
    let mut ratios = Vec::new();
    seeds::each(60, 1, |seed| ratios.push(ratio(seed, &Program::random(seed))));
    ratios.sort_by(|one, other| other.mean.total_cmp(&one.mean));
    let worst = &ratios[0];
    let (whole, peak) = (mean(&ratios, |ratio| ratio.mean), mean(&ratios, |ratio| ratio.peak));
    let worst_peak = ratios.iter().map(|ratio| ratio.peak).fold(0.0, f64::max);
    println!(
        "{} programs: mean {whole:.3}, worst {:.3} (SEED={}); peaks: mean {peak:.3}, worst {worst_peak:.3}",
        ratios.len(),
        worst.mean,
        worst.seed
    );
    // The worst of 6,000 programs reserves 1.326.
    assert!(worst.mean <= 1.3, "SEED={} reserves {:.3} of what the range does", worst.seed, worst.mean);
    assert!(ratios.len() == 1 || whole <= 1.05, "the mean program reserves {whole:.3} of what the range does");
    assert!(ratios.len() == 1 || peak <= 1.1, "at its peak it reserves {peak:.3} of what the range does");
}

/// A ring for these arrays took 1.7 to 2.7 times the bytes that were ever alive, and kept them.
#[test]
fn a_random_quarter_replaced_is_not_carried_by_a_fat_ring() {
    let _turn = turn();
    for seed in [0, 1, 2, 3, 4, 5, 18, 33] {
        let Ratio { mean, .. } = ratio(seed, &Program::random_quarter(seed, 2_000));
        assert!(mean <= 1.1, "seed {seed}: {mean:.3} of what the range reserves");
    }
}

/// A new ring took pages while arrays that were served before lay elsewhere. The range kept their pages, and reserved 1.29 to 1.39
/// times what it needs without plans. Where rings served each slot again at once, programs 1846 and 4332 reserved 1.36 and 1.38 times as much.
#[test]
fn a_new_ring_leaves_no_pages_of_older_arrays() {
    let _turn = turn();
    for seed in [371, 895, 1846, 4316, 4332, 4925, 5400] {
        let Ratio { mean, .. } = ratio(seed, &Program::random(seed));
        assert!(mean <= 1.25, "seed {seed}: {mean:.3} of what the range reserves");
    }
}

/// A range that had no arena was looked at no more, nor was a range beside a new ring. Both kept the pages of older arrays, and reserved 1.36
/// and 1.29 times what the range alone needs.
#[test]
fn pages_of_older_arrays_go_back_without_an_arena() {
    let _turn = turn();
    for seed in [4180, 7813] {
        let Ratio { mean, .. } = ratio(seed, &Program::random(seed));
        assert!(mean <= 1.25, "seed {seed}: {mean:.3} of what the range reserves");
    }
}

/// Of few and huge arrays, hardly any was freed for each call that moved pages. So the range soon grew instead, to 1.33 times what it
/// needs without plans.
#[test]
fn a_range_of_few_huge_arrays_moves_their_pages() {
    let _turn = turn();
    let Ratio { mean, .. } = ratio(1006, &Program::random(1006));
    assert!(mean <= 1.2, "{mean:.3} of what the range reserves");
}
