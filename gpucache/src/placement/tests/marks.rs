//! Figures.

use std::time::Instant;

use super::demand::{Farthest, on_demand};
use super::sequences::{Optimizer, gpt, peak};
use super::check::check;
use crate::placement::*;
use crate::placement::gaps::Gaps;
use crate::placement::packing::Packing;
use crate::placement::prices::Prices;
use crate::placement::keep::Keep;

#[test]
fn figures() {
    let mib = 1 << 20;
    let link = Link { bytes_per_second: 55e9, latency: 10e-6 };
    for optimizer in [Optimizer::AtTheEnd, Optimizer::Fused] {
        for seconds in [0.5, 1.0, 2.0] {
            let order = gpt(48, &[27 * mib, 9 * mib, 36 * mib, 36 * mib], &[130*mib, 100 * mib, 40 * mib, 160 * mib, 170 * mib], optimizer, seconds);
            let peak = peak(&order);
            let budget = peak / 10 * 8;
            println!("\n{optimizer:?} {seconds}: uses {} peak {:.1} GB", order.uses.len(), peak as f64 / 1e9);
            let gaps = Gaps::of(&order);
            let packing = Packing::new(&order, &gaps, budget).unwrap();
            let keep = Keep::best(&packing);
            let mut prices = Prices::new(&packing);
            for _ in 0..2000 { prices.step(&packing, keep.saved) }
            let bound = packing.at_stake() as f64 - prices.bound;
            let moved = packing.at_stake() - keep.saved;
            println!("moved {:.3} bound {:.3} ratio {:.4}", moved as f64 / 1e9, bound / 1e9, moved as f64 / bound);
            for (name, policy) in [("lru", &mut Lru::default() as &mut dyn super::demand::Victims), ("farthest", &mut Farthest::default())] {
                let s = on_demand(&order, budget, policy).unwrap();
                let t = simulate(&order, budget, link, &s);
                println!("{name}: {:.3} in {:.2} out {:.2}", t / seconds, s.moved_in as f64 / 1e9, s.moved_out as f64 / 1e9);
            }
            let begin = Instant::now();
            let s = schedule(&order, budget, link).unwrap();
            println!("plan {:?}: {:.3} in {:.2} out {:.2}", begin.elapsed(), s.seconds / seconds, s.moved_in as f64 / 1e9, s.moved_out as f64 / 1e9);
            check(&order, budget, &s).unwrap();
        }
    }
}

fn random(seed: u64, arrays: usize, uses: usize, equal: bool) -> Order {
    use super::sequences::Recorder;
    let mut state = seed;
    let mut next = move |below: u64| { state = state.wrapping_add(0x9e37_79b9_7f4a_7c15); let mut z = state; z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9); z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb); (z ^ z >> 31) % below };
    let mut r = Recorder::default();
    let ids: Vec<(u32, bool)> = (0..arrays).map(|_| { let dies = next(3) == 0; (r.array(if equal {100} else {10 + next(200)}, dies), dies) }).collect();
    let mut begun = vec![false; arrays];
    for _ in 0..uses {
        let (a, dies) = ids[next(arrays as u64) as usize];
        let mut access = [Access::Read, Access::Read, Access::Read, Access::Write, Access::Fill][next(5) as usize];
        if dies && !begun[a as usize] { access = Access::Fill; }
        begun[a as usize] = true;
        r.work(1.0, &[(a, access)]);
    }
    r.stretched(uses as f64)
}

#[test]
fn randoms() {
    for (arrays, uses) in [(6, 12), (8, 20), (20, 60), (60, 300), (300, 2000)] {
        for equal in [true, false] {
            let (mut sum, mut worst, mut n, mut nz) = (0.0, 1.0f64, 0, 0);
            let begin = Instant::now();
            for seed in 0..if uses > 200 {5} else {100} {
                let order = random(seed * 7919, arrays, uses, equal);
                let link = Link { bytes_per_second: 100.0, latency: 0.0 };
                let budget = peak(&order) * 6 / 10;
                let gaps = Gaps::of(&order);
                let Some(packing) = Packing::new(&order, &gaps, budget) else { continue };
                let keep = Keep::best(&packing);
                let mut prices = Prices::new(&packing);
                for _ in 0..3000 { prices.step(&packing, keep.saved) }
                let bound = packing.at_stake() as f64 - prices.bound;
                let moved = packing.at_stake() - keep.saved;
                let s = schedule(&order, budget, link).unwrap();
                check(&order, budget, &s).unwrap();
                if moved == 0 { nz += 1; continue; }
                let ratio = moved as f64 / bound.max(1e-3);
                n += 1; sum += ratio; worst = worst.max(ratio);
            }
            println!("{arrays} {uses} {equal}: mean {:.4} worst {:.4} of {n}, {nz} zero, {:?}", sum / n as f64, worst, begin.elapsed());
        }
    }
}
