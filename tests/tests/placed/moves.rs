//! Arrays that can be offloaded to host memory. Each array keeps its contents through all moves, and the device never has more memory
//! in use than its limit allows.
//!
//! `PLACED_STEPS` sets the total number of steps of the random programs, 4,000 by default. A million takes minutes in a release build.

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{
    offload::{Placed, Placement},
    prelude::*,
    stats::ReclaimStep,
};
use gpucache_tests::process::number;
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

/// A host stream with a limit of this many bytes beyond the memory that is held now.
fn limited(bytes: u64) -> Host {
    let host = Host::new_stream().unwrap();
    host.set_limit(u64::MAX).unwrap();
    host.trim();
    host.set_limit(host.memory().bytes + bytes).unwrap();
    host
}

/// An array and its contents: one value everywhere, plus the index in the first elements.
struct Known {
    array: Placed<u64, Host>,
    shape: Vec<usize>,
    value: u64,
}

/// The number of elements that contain their index.
const TOLD: usize = 16;

fn assert_contents(values: &[u64], value: u64) {
    let (told, same) = values.split_at(TOLD.min(values.len()));
    assert!(told.iter().zip(value..).all(|(found, expected)| *found == expected), "{value}: {told:?}");
    assert!(same.iter().all(|found| *found == value), "{value}");
}

impl Known {
    fn new(host: &Host, len: usize, value: u64) -> Known {
        let mut known = Known { array: Placed::zeros(host, len).unwrap(), shape: vec![len], value };
        known.write(value);
        known
    }

    fn check(&self) {
        assert_eq!(self.array.shape(), self.shape);
        let here = self.array.fetch().unwrap();
        assert_eq!(here.shape(), self.shape);
        assert_contents(&here, self.value);
    }

    fn write(&mut self, value: u64) {
        let mut here = self.array.fetch_mut().unwrap();
        here.fill(value);
        here.iter_mut().take(TOLD).zip(value..).for_each(|(element, value)| *element = value);
        drop(here);
        self.value = value;
    }

    /// The same array after it was a plain array and got another shape.
    fn reshaped(mut self, rng: &mut Rng) -> Known {
        let len: usize = self.shape.iter().product();
        self.shape = if len.is_multiple_of(2) && rng.bool() { vec![2, len / 2] } else { vec![1, len] };
        let array = self.array.into_array().unwrap().reshape(&self.shape[..]).unwrap();
        Known { array: Placed::new(array).unwrap(), ..self }
    }

    /// The same array after it was a plain array.
    fn converted(self) -> Known {
        let array = self.array.into_array().unwrap();
        assert_eq!(array.shape(), self.shape);
        assert_contents(&array, self.value);
        Known { array: Placed::new(array).unwrap(), ..self }
    }
}

const PLACEMENTS: [Placement; 4] = [Placement::Auto, Placement::Auto, Placement::Host, Placement::Device];

/// A random operation on one of the program's arrays; it does not affect the others.
fn step(rng: &mut Rng, alive: &mut Vec<Known>, place: usize, value: u64) {
    match rng.u8(..14) {
        0..3 => alive[place].write(value),
        3 => drop(alive.swap_remove(place)),
        4 => {
            let placement = PLACEMENTS[rng.usize(..PLACEMENTS.len())];
            // At most two of them may require the device.
            let insist = alive.iter().filter(|known| known.array.placement() == Placement::Device).count();
            if placement != Placement::Device || insist < 2 {
                alive[place].array.set_placement(placement).unwrap();
            }
        }
        5 => {
            let Known { array, shape, value } = &alive[place];
            // The device has no room for a copy beside an array that must stay there.
            alive[place].array.set_placement(Placement::Auto).unwrap();
            let copy = Known { array: array.try_clone().unwrap(), shape: shape.clone(), value: *value };
            alive.push(copy);
        }
        6 => {
            let known = alive.swap_remove(place).reshaped(rng);
            alive.push(known);
        }
        7 => {
            let known = alive.swap_remove(place).converted();
            alive.push(known);
        }
        8 => assert_contents(&alive[place].array.to_vec().unwrap(), alive[place].value),
        9 => {
            // Two guards of one array, and one guard of another array meanwhile.
            let (first, second) = (alive[place].array.fetch().unwrap(), alive[place].array.fetch().unwrap());
            alive[rng.usize(..alive.len())].check();
            assert_eq!(first[..], second[..]);
        }
        _ => alive[place].check(),
    }
}

fn random_program(seed: u64, steps: u64, threads: u64) {
    // A chunk of the range stays whole as long as any block lies in it.
    let (rng, host) = (&mut Rng::with_seed(seed), limited(24 * PAGE as u64));
    let mut alive: Vec<Known> = Vec::new();
    for number in 0..steps {
        let value = number * 2 * TOLD as u64;
        if alive.is_empty() || alive.len() < 40 && rng.u8(..8) == 0 {
            // Most arrays are small, and some are larger than a page.
            let most = if rng.u8(..8) == 0 { PAGE / 4 } else { 1 << 12 };
            alive.push(Known::new(&host, rng.usize(1..most), value));
        } else {
            let place = rng.usize(..alive.len());
            step(rng, &mut alive, place, value);
        }
        if number % (steps / 8).max(1) == 0 {
            shared(&alive, seed ^ number, threads);
        }
        assert!(host.memory().bytes <= host.memory().limit.unwrap());
    }
    alive.iter().for_each(Known::check);
    let stats = host.stats().offload;
    println!("{stats}");
    assert!(stats.evictions > 0 && stats.bytes_in > 0, "{stats}");
    drop(alive);
    assert_eq!(host.stats().offload.resident_bytes, 0);
    host.set_limit(u64::MAX).unwrap();
}

/// Threads read the same arrays and change their placement at the same time.
fn shared(alive: &[Known], seed: u64, threads: u64) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let rng = &mut Rng::with_seed(seed.wrapping_add(thread));
                for _ in 0..2 * alive.len() {
                    let known = &alive[rng.usize(..alive.len())];
                    match rng.u8(..8) {
                        0 => known.array.set_placement(Placement::Host).unwrap(),
                        1 => known.array.set_placement(Placement::Auto).unwrap(),
                        _ => known.check(),
                    }
                }
            });
        }
    });
}

#[test]
fn whatever_moves_each_array_has_its_own_contents() {
    let _turn = turn();
    let steps = number("PLACED_STEPS").unwrap_or(4_000);
    (0..4).for_each(|seed| random_program(seed, steps / 4, 3));
}

#[test]
fn what_is_fetched_stays_and_the_least_recently_used_leaves() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    device.set_limit(4 * PAGE as u64).unwrap();
    let mut arrays: Vec<Placed<u8, _>> = (0..4).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let (kept, _) = (arrays[0].fetch().unwrap(), arrays[1].fetch().unwrap());
    let fifth = Placed::<u8, _>::zeros(&device, PAGE).unwrap();
    assert_eq!((device.stats().offload.evictions, device.memory().bytes), (1, 4 * PAGE as u64));
    drop(kept);
    let demanded = || device.stats().offload.demanded;
    drop((arrays[0].fetch().unwrap(), arrays[1].fetch().unwrap(), arrays[3].fetch().unwrap(), fifth.fetch().unwrap()));
    assert_eq!(demanded(), 0, "the third one left");
    drop(arrays[2].fetch_mut().unwrap());
    assert_eq!(demanded(), 1);
}

#[test]
fn what_is_not_written_is_copied_out_once() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let mut array = Placed::<u8, _>::zeros(&device, PAGE).unwrap();
    array.set_placement(Placement::Host).unwrap();
    (0..3).for_each(|_| drop(array.fetch().unwrap()));
    let stats = device.stats().offload;
    assert_eq!((stats.bytes_out, stats.bytes_in, stats.evictions), (PAGE as u64, 3 * PAGE as u64, 4));
    drop(array.fetch_mut().unwrap());
    assert_eq!(device.stats().offload.bytes_out, 2 * PAGE as u64);
    let same = array.into_array().unwrap();
    assert_eq!((same.shape(), device.stats().offload.resident_bytes), (&[PAGE][..], 0));
}

#[test]
fn what_may_leave_does_before_an_allocation_fails() {
    let _turn = turn();
    let device = Virtual::new(8 * PAGE);
    let placed: Vec<Placed<u8, _>> = (0..6).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let array = device.zeros::<u8>(4 * PAGE).unwrap();
    let (reclaim, stats) = (device.stats().reclaim, device.stats().offload);
    assert_eq!((reclaim.step(ReclaimStep::Offload).served, stats.evictions), (1, 2), "{reclaim}; {stats}");
    placed[0].set_placement(Placement::Device).unwrap();
    drop(array);
    drop(placed);
    assert_eq!(device.stats().offload.resident_bytes, 0);
}

#[test]
fn threads_fetch_the_same_arrays() {
    let _turn = turn();
    let host = limited(8 * PAGE as u64);
    let arrays: Vec<Known> = (0..16).map(|value| Known::new(&host, PAGE / 8, value)).collect();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let arrays = &arrays;
            threads.spawn(move || {
                let rng = &mut Rng::with_seed(thread);
                (0..300).for_each(|_| arrays[rng.usize(..arrays.len())].check());
            });
        }
    });
    host.set_limit(u64::MAX).unwrap();
}

/// The limit in the environment is the device's: arrays that leave it find room on the host. This runs in its own process.
#[test]
fn the_environment_does_not_limit_the_host() {
    let _turn = turn();
    const LIMIT: &str = "GPUCACHE_LIMIT";
    if std::env::var_os(LIMIT).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "moves::the_environment_does_not_limit_the_host"]).env(LIMIT, "4MiB");
        let output = child.output().unwrap();
        let is_run = String::from_utf8_lossy(&output.stdout).contains("1 passed");
        return assert!(output.status.success() && is_run, "{output:?}");
    }
    let device = Virtual::new(1 << 30);
    let arrays: Vec<Placed<u8, _>> = (0..6).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    assert_eq!((device.memory().bytes, device.stats().offload.evictions), (2 * PAGE as u64, 4));
    arrays.iter().for_each(|array| array.set_placement(Placement::Host).unwrap());
    assert!(device.stats().offload.host_bytes >= 6 * PAGE as u64);
}

/// Several hundred uses, which are more than one layout covers, with another use in place of one of them.
#[test]
fn an_order_is_followed_and_a_deviation_is_noticed() {
    const USES: usize = 200;
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let arrays: Vec<Placed<u8, _>> = (0..4).map(|_| Placed::zeros(&device, 100).unwrap()).collect();
    let entry = |uses: usize, other: usize| {
        gpucache::cache_scope!(an_order, {
            (0..uses).for_each(|place| drop(arrays[(place + usize::from(place == other)) % 4].fetch().unwrap()));
        });
    };
    let noticed = || device.stats().offload.mispredictions;
    (0..4).for_each(|_| entry(USES, USES));
    assert_eq!(noticed(), 0);
    for (before, place) in [0, 1, 63, 64, 65, 66, 130, USES - 1].into_iter().enumerate() {
        entry(USES, place);
        assert_eq!(noticed(), before as u64 + 1, "use {place}");
        (0..4).for_each(|_| entry(USES, USES));
    }
    let before = noticed();
    entry(USES + 1, USES);
    assert_eq!(noticed(), before + 1, "one use more");
}

/// Prefetches are made wherever in the order they are due.
#[test]
fn moves_are_made_in_the_midst_of_an_order() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    device.set_limit(4 * PAGE as u64).unwrap();
    let arrays: Vec<Placed<u8, _>> = (0..8).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let entry = || {
        gpucache::cache_scope!(moves_in_an_order, {
            (0..160).for_each(|place| drop(arrays[place / 20].fetch().unwrap()));
        });
    };
    (0..8).for_each(|_| entry());
    let before = device.stats().offload;
    (0..4).for_each(|_| entry());
    let stats = device.stats().offload;
    assert!(stats.prefetched >= before.prefetched + 8, "{before}, then {stats}");
    assert_eq!((stats.demanded, stats.mispredictions), (before.demanded, 0), "{before}, then {stats}");
}

/// An array that cannot be copied, since the work that should have written it panicked, stays where it is.
#[test]
fn a_lost_array_in_the_way_of_a_large_one_stays() {
    let _turn = turn();
    let host = limited(32 << 20);
    let mut arrays: Vec<_> = (0..16).map(|_| Placed::<u8, _>::zeros(&host, 2 << 20).unwrap()).collect();
    host.launch(&mut *arrays[1].fetch_mut().unwrap(), |_| panic!("the array is lost")).unwrap();
    assert!(host.synchronize().unwrap_err().is_deferred());
    arrays.iter().step_by(2).for_each(|array| array.set_placement(Placement::Host).unwrap());
    let large = Placed::<u8, _>::zeros(&host, 12 << 20);
    assert!(large.is_ok_and(|large| large.to_vec().unwrap() == vec![0; 12 << 20]));
    for (number, array) in arrays.iter().enumerate() {
        array.choose_placement(Placement::Auto);
        let values = array.to_vec();
        assert!(if number == 1 { values.is_err() } else { values.unwrap() == vec![0; 2 << 20] }, "{number}");
    }
}

/// Small arrays that stay lie between those that leave, so free memory is in pieces. For a large array, arrays move on the device, and
/// each keeps its contents.
#[test]
fn what_lies_apart_is_moved_for_a_large_array() {
    let _turn = turn();
    let host = limited(32 << 20);
    let make = |bytes: usize, value: u8| {
        let mut array = Placed::<u8, _>::zeros(&host, bytes).unwrap();
        array.fetch_mut().unwrap().fill(value);
        array
    };
    let arrays: Vec<_> = (0..16).map(|number| make(2 << 20, number)).collect();
    // Every other array leaves: 16 MiB are free, in pieces of 2 MiB.
    arrays.iter().step_by(2).for_each(|array| array.set_placement(Placement::Host).unwrap());
    let (before, taken) = (host.stats().offload, host.memory().times_taken());
    let large = make(12 << 20, 77);
    let stats = host.stats().offload.since(&before);
    assert!(stats.shifted_bytes > 0 && stats.shifted_bytes <= 16 << 20, "{stats:?}");
    assert_eq!((stats.evictions, host.memory().times_taken()), (0, taken), "no other one leaves, and no pages move");
    for (array, value) in arrays.iter().zip(0..) {
        array.choose_placement(Placement::Auto);
        assert!(array.to_vec().unwrap().iter().all(|&byte| byte == value), "{value}");
    }
    assert!(large.to_vec().unwrap().iter().all(|&byte| byte == 77));
    host.set_limit(u64::MAX).unwrap();
}

/// Memory that was allocated outside of scopes leaves less room for placed arrays, and the moves are computed for that.
#[test]
fn moves_leave_room_for_memory_outside_of_scopes() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    device.set_limit(8 * PAGE as u64).unwrap();
    let outside = device.zeros::<u8>(4 * PAGE).unwrap();
    let arrays: Vec<Placed<u8, _>> = (0..8).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let entry = || {
        gpucache::cache_scope!(beside_others, {
            (0..160).for_each(|place| drop(arrays[place / 20].fetch().unwrap()));
        });
    };
    (0..16).for_each(|_| entry());
    let before = device.stats().offload;
    (0..4).for_each(|_| entry());
    let since = device.stats().offload.since(&before);
    assert!(since.demanded == 0 && since.prefetched >= 8, "{since}");
    drop(outside);
}

/// A training step: each layer makes arrays of several sizes, which the backward pass reads in the reverse order and then drops.
fn training_step(device: &Virtual, weights: &[Placed<u8, Virtual>]) {
    const SIZES: [usize; 4] = [4 * PAGE, PAGE, 2 * PAGE, PAGE / 2];
    gpucache::cache_scope!(training_step, {
        let mut made: Vec<Vec<Placed<u8, Virtual>>> = Vec::new();
        for weight in weights {
            drop(weight.fetch().unwrap());
            made.push(SIZES.iter().map(|&bytes| Placed::zeros(device, bytes).unwrap()).collect());
            for array in made.iter_mut().flat_map(|layer| layer.last_mut()) {
                drop(array.fetch_mut().unwrap());
            }
        }
        for (weight, layer) in weights.iter().zip(made).rev() {
            layer.iter().for_each(|array| drop(array.fetch().unwrap()));
            drop(weight.fetch().unwrap());
        }
    });
}

/// Arrays of several sizes come and go. Each of them finds the place that was computed for it, so no array is moved aside or comes late.
#[test]
fn arrays_of_several_sizes_find_their_places() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let weights: Vec<_> = (0..8).map(|_| Placed::zeros(&device, 2 * PAGE).unwrap()).collect();
    // All arrays together have 76 pages.
    device.set_limit(36 * PAGE as u64).unwrap();
    (0..24).for_each(|_| training_step(&device, &weights));
    let before = device.stats().offload;
    (0..8).for_each(|_| training_step(&device, &weights));
    let since = device.stats().offload.since(&before);
    assert_eq!((since.demanded, since.shifted_bytes, since.mispredictions), (0, 0, 0), "{since}");
    assert!(since.prefetched >= 8 * 4 && since.evictions >= 8 * 4, "{since}");
}
