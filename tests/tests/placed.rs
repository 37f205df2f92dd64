//! Arrays that may rest on the host: whatever moves when, each has its own contents, and no more is on the device than may be.
//!
//! `PLACED_STEPS` says how many steps a random program makes, 20,000 by default.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::{Placed, Placement, Rung, climbs, limit, placed_stats, prelude::*};
use gpucache_tests::process::number;
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

/// A stream of the host with a limit of so many bytes beside what is held now.
fn limited(bytes: u64) -> Host {
    let host = Host::new_stream().unwrap();
    limit(&host, u64::MAX);
    gpucache::trim(&host).unwrap();
    limit(&host, host.memory().bytes + bytes);
    host
}

fn value(id: u64, place: usize) -> u64 {
    id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ place as u64
}

/// An array, and what is in it.
struct Known {
    array: Placed<u64, Host>,
    id: u64,
}

impl Known {
    fn check(&self) {
        let here = self.array.fetch().unwrap();
        let len = here.shape()[0];
        assert_eq!(
            (here[0], here[len / 2], here[len - 1]),
            (value(self.id, 0), value(self.id, len / 2), value(self.id, len - 1))
        );
    }

    fn write(&mut self, id: u64) {
        let mut here = self.array.fetch_mut().unwrap();
        here.iter_mut().enumerate().for_each(|(place, x)| *x = value(id, place));
        drop(here);
        self.id = id;
    }
}

fn random_program(seed: u64, steps: u64, most: usize) {
    let (rng, host) = (&mut Rng::with_seed(seed), limited(most as u64));
    let mut alive: Vec<Known> = Vec::new();
    for id in 0..steps {
        let place = rng.usize(..alive.len().max(1));
        let has_room = alive.len() < 40;
        match (rng.u8(..10), alive.get_mut(place)) {
            (0..2, _) | (_, None) if has_room => {
                let elements = rng.usize(1..most / 8 / 8);
                let mut known = Known { array: Placed::zeros(&host, elements).unwrap(), id };
                known.array.set_placement([Placement::Auto, Placement::Auto, Placement::Host][rng.usize(..3)]).unwrap();
                known.write(id);
                alive.push(known);
            }
            (2..4, Some(known)) => known.write(id),
            (4, Some(_)) => drop(alive.swap_remove(place)),
            (5, Some(known)) => known.array.set_placement(Placement::Auto).unwrap(),
            (6, Some(known)) => known.array = known.array.try_clone().unwrap(),
            (_, Some(known)) => known.check(),
            (_, None) => {}
        }
        assert!(host.memory().bytes <= host.memory().limit.unwrap());
    }
    alive.iter().for_each(Known::check);
    let stats = placed_stats(&host);
    assert!(stats.evictions > 0 && stats.bytes_in > 0, "{stats}");
    println!("{stats}");
    drop(alive);
    limit(&host, u64::MAX);
}

#[test]
fn whatever_moves_each_array_has_its_own_contents() {
    let _turn = turn();
    let steps = number("PLACED_STEPS").unwrap_or(20_000);
    (0..4).for_each(|seed| random_program(seed, steps / 4, 64 * PAGE));
}

#[test]
fn what_is_fetched_stays_and_the_least_recently_used_leaves() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    limit(&device, 4 * PAGE as u64);
    let mut arrays: Vec<Placed<u8, _>> = (0..4).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let (kept, _) = (arrays[0].fetch().unwrap(), arrays[1].fetch().unwrap());
    let fifth = Placed::<u8, _>::zeros(&device, PAGE).unwrap();
    assert_eq!((placed_stats(&device).evictions, device.memory().bytes), (1, 4 * PAGE as u64));
    drop(kept);
    let demanded = || placed_stats(&device).demanded;
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
    let stats = placed_stats(&device);
    assert_eq!((stats.bytes_out, stats.bytes_in, stats.evictions), (PAGE as u64, 3 * PAGE as u64, 4));
    drop(array.fetch_mut().unwrap());
    assert_eq!(placed_stats(&device).bytes_out, 2 * PAGE as u64);
    let same = array.into_array().unwrap();
    assert_eq!((same.shape(), placed_stats(&device).resident_bytes), (&[PAGE][..], 0));
}

#[test]
fn what_may_leave_does_before_an_allocation_fails() {
    let _turn = turn();
    let device = Virtual::new(8 * PAGE);
    let placed: Vec<Placed<u8, _>> = (0..6).map(|_| Placed::zeros(&device, PAGE).unwrap()).collect();
    let array = device.zeros::<u8>(4 * PAGE).unwrap();
    let (climbs, stats) = (climbs(&device), placed_stats(&device));
    assert_eq!((climbs.of(Rung::Spill).served, stats.evictions), (1, 2), "{climbs}; {stats}");
    placed[0].set_placement(Placement::Device).unwrap();
    drop(array);
    drop(placed);
    assert_eq!(placed_stats(&device).resident_bytes, 0);
}

#[test]
fn threads_fetch_the_same_arrays() {
    let _turn = turn();
    let host = limited(8 * PAGE as u64);
    let arrays: Vec<Known> = (0..16)
        .map(|id| {
            let mut known = Known { array: Placed::zeros(&host, PAGE / 8).unwrap(), id };
            known.write(id);
            known
        })
        .collect();
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let arrays = &arrays;
            threads.spawn(move || {
                let rng = &mut Rng::with_seed(thread);
                (0..300).for_each(|_| arrays[rng.usize(..arrays.len())].check());
            });
        }
    });
    limit(&host, u64::MAX);
}
