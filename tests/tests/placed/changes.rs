//! Offloaded arrays whose circumstances change: limits, other memory, sizes. The moves then follow from the new ones.

use gpucache::device::{Device, Virtual};
use gpucache::offload::{OffloadStats, Placed, Placement};
use gpucache::{Scope, prelude::*};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

fn device(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 40);
    device.set_limit((pages * PAGE) as u64).unwrap();
    device
}

fn arrays(device: &Virtual, count: usize) -> Vec<Placed<u8, Virtual>> {
    (0..count).map(|_| Placed::zeros(device, PAGE).unwrap()).collect()
}

fn fetch_all<'a>(arrays: impl IntoIterator<Item = &'a Placed<u8, Virtual>>) {
    arrays.into_iter().for_each(|array| drop(array.fetch().unwrap()));
}

/// The moves in so many entries.
fn moved(device: &Virtual, entries: u64, mut entry: impl FnMut()) -> OffloadStats {
    let before = device.stats().offload;
    (0..entries).for_each(|_| entry());
    device.stats().offload.since(&before)
}

/// How many arrays are fetched on demand in 100 entries of a new scope that has learned its order.
fn demanded_anew(device: &Virtual, name: &str, entry: impl Fn()) -> u64 {
    let fresh = Scope::new(name);
    moved(device, 20, || fresh.run(&entry));
    moved(device, 100, || fresh.run(&entry)).demanded
}

#[test]
fn nothing_moves_once_the_limit_allows_all_arrays() {
    let _turn = turn();
    let device = device(8);
    let (arrays, scope) = (arrays(&device, 12), Scope::new("changes: raised"));
    let entry = || scope.run(|| fetch_all(&arrays));
    moved(&device, 20, entry);
    assert!(moved(&device, 20, entry).prefetched > 0);
    device.set_limit((100 * PAGE) as u64).unwrap();
    moved(&device, 20, entry);
    let moves = moved(&device, 100, entry);
    assert_eq!((moves.bytes_in, moves.evictions), (0, 0));
}

#[test]
fn arrays_are_prefetched_in_the_room_beside_a_new_array() {
    let _turn = turn();
    let device = device(40);
    let (arrays, scope) = (arrays(&device, 48), Scope::new("changes: less room"));
    let entry = || scope.run(|| fetch_all(&arrays));
    moved(&device, 20, entry);
    let other = device.zeros::<u8>(20 * PAGE).unwrap();
    moved(&device, 40, entry);
    let demanded = moved(&device, 100, entry).demanded;
    let anew = demanded_anew(&device, "changes: less room, anew", || fetch_all(&arrays));
    assert!(demanded <= anew + 10, "{demanded}, and {anew} in a new scope");
    drop(other);
}

#[test]
fn smaller_arrays_of_an_entry_need_fewer_moves() {
    let _turn = turn();
    let device = device(16);
    let weights = arrays(&device, 12);
    // Forward and backward, with activations of so many bytes.
    let step = |bytes: usize| {
        let mut activations = Vec::new();
        for weights in &weights {
            drop(weights.fetch().unwrap());
            activations.push(Placed::<u8, _>::zeros(&device, bytes).unwrap());
        }
        for weights in weights.iter().rev() {
            drop(weights.fetch().unwrap());
            drop(activations.pop().unwrap().fetch().unwrap());
        }
    };
    let scope = Scope::new("changes: smaller");
    assert!(moved(&device, 50, || scope.run(|| step(3 << 20))).bytes_in > 0);
    moved(&device, 50, || scope.run(|| step(512 << 10)));
    let moves = moved(&device, 100, || scope.run(|| step(512 << 10)));
    assert_eq!((moves.bytes_in, moves.evictions), (0, 0));
}

/// An array that rests on the host is prefetched for each use.
#[test]
fn arrays_that_rest_on_the_host_are_prefetched() {
    let _turn = turn();
    let device = device(8);
    let (weights, moments) = (arrays(&device, 10), arrays(&device, 10));
    moments.iter().for_each(|array| array.set_placement(Placement::Host).unwrap());
    let scope = Scope::new("changes: resting");
    let entry = || {
        scope.run(|| {
            for _ in 0..2 {
                for (weights, moments) in weights.iter().zip(&moments) {
                    drop((weights.fetch().unwrap(), moments.fetch().unwrap()));
                }
            }
        });
    };
    moved(&device, 50, entry);
    let moves = moved(&device, 100, entry);
    assert!(moves.demanded <= 10 && moves.prefetched >= 2000, "{moves}");
}

/// The first moves are for more room than there is, once the scope has an arena for its plain arrays. Then less room is planned with.
#[test]
fn moves_beside_plain_arrays_settle() {
    let _turn = turn();
    let device = device(64);
    let mut random = fastrand::Rng::with_seed(17);
    let placed: Vec<Placed<u8, Virtual>> =
        (0..30).map(|_| Placed::zeros(&device, random.usize(1..8 * PAGE)).unwrap()).collect();
    // Of each step: a placed array, the bytes of a plain array, and the steps for which that one lives.
    let steps: Vec<(usize, usize, usize)> =
        (0..40).map(|_| (random.usize(0..30), random.usize(1..4 * PAGE), random.usize(0..6))).collect();
    let entry = || {
        let mut plain: Vec<(usize, Array<u8, Virtual>)> = Vec::new();
        for (place, &(array, bytes, life)) in steps.iter().enumerate() {
            plain.retain(|(until, _)| *until > place);
            let _here = placed[array].fetch().unwrap();
            plain.push((place + life, device.zeros::<u8>(bytes).unwrap()));
        }
    };
    let scope = Scope::new("changes: plain arrays");
    moved(&device, 100, || scope.run(entry));
    assert_eq!(moved(&device, 200, || scope.run(entry)).demanded, 0);
}

/// Two scopes that undo each other's moves learn once that they do, and compute no moves for ever.
#[test]
fn moves_in_vain_are_not_computed_again_and_again() {
    let _turn = turn();
    let device = device(15);
    let arrays = arrays(&device, 30);
    let (forward, backward) = (Scope::new("changes: forward"), Scope::new("changes: backward"));
    let both = || {
        forward.run(|| fetch_all(&arrays));
        backward.run(|| fetch_all(arrays.iter().rev()));
    };
    moved(&device, 400, both);
    assert_eq!(moved(&device, 200, both).layout_time, std::time::Duration::ZERO);
}
