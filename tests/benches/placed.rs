//! The time to use an array that can be offloaded and is on the device, in nanoseconds, beside the use of a plain array.
//!
//! `cargo bench --bench placed -- --json`. Each figure is the median over rounds that alternate between the subjects, so that a
//! machine whose speed drifts treats them alike.

use std::hint::black_box;
use std::time::Instant;

use gpucache::{offload::Placed, prelude::*};
use gpucache_tests::timing::{Options, median};

const ROUNDS: usize = 1601;
/// The uses of each subject in a round: so few that they take a tenth of a millisecond, and other programs seldom interrupt them.
const USES: usize = 4 * 1024;
/// As many arrays as a model has parameters.
const ARRAYS: usize = 64;

fn nanoseconds_per_use(mut subject: impl FnMut(usize) -> gpucache::Result<()>) -> gpucache::Result<f64> {
    let start = Instant::now();
    for index in 0..USES {
        subject(index % ARRAYS)?;
    }
    Ok(start.elapsed().as_nanos() as f64 / USES as f64)
}

fn main() -> gpucache::Result<()> {
    let wants_json = Options::wants_json();
    let host = Host::new();
    let arrays = (0..ARRAYS).map(|_| host.zeros::<f32>(1024)).collect::<gpucache::Result<Vec<_>>>()?;
    let mut placed = Vec::new();
    for array in &arrays {
        placed.push(Placed::new(array.try_clone()?)?);
    }
    let mut rounds: [Vec<f64>; 5] = Default::default();
    for _ in 0..ROUNDS {
        rounds[0].push(nanoseconds_per_use(|index| {
            black_box(black_box(&arrays[index]).address());
            Ok(())
        })?);
        rounds[1].push(nanoseconds_per_use(|index| {
            black_box(black_box(&placed[index]).fetch()?.address());
            Ok(())
        })?);
        rounds[2].push(nanoseconds_per_use(|index| {
            black_box(black_box(&mut placed[index]).fetch_mut()?.address());
            Ok(())
        })?);
        rounds[3].push(gpucache::cache_scope!(placed_uses, {
            nanoseconds_per_use(|index| {
                black_box(black_box(&placed[index]).fetch()?.address());
                Ok(())
            })?
        }));
        rounds[4].push(gpucache::cache_scope!(placed_writes, {
            nanoseconds_per_use(|index| {
                black_box(black_box(&mut placed[index]).fetch_mut()?.address());
                Ok(())
            })?
        }));
    }
    print(wants_json, rounds.map(median));
    Ok(())
}

fn print(wants_json: bool, [array, fetch, fetch_mut, in_scope, mut_in_scope]: [f64; 5]) {
    match wants_json {
        true => println!(
            "{{\"array_ns\": {array:.1}, \"fetch_ns\": {fetch:.1}, \"fetch_mut_ns\": {fetch_mut:.1}, \"fetch_in_scope_ns\": {in_scope:.1}, \"fetch_mut_in_scope_ns\": {mut_in_scope:.1}}}"
        ),
        false => println!(
            "the array itself {array:.1} ns; fetch and drop {fetch:.1} ns, to write {fetch_mut:.1} ns; in a scope {in_scope:.1} ns, to write {mut_in_scope:.1} ns"
        ),
    }
}
