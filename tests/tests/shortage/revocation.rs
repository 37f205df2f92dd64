//! A device is short of memory while a thread is inside a planned scope. If nothing in the plan's block is alive, the block is
//! taken away from that thread. Otherwise it is left alone.
//!
//! Only for systems with a barrier for all threads of a process. The tests take turns, since a shortage on one device takes the
//! idle memory of all scopes of the process.
#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::mpsc::{Receiver, Sender, channel};

use gpucache::device::{Device, Virtual};
use gpucache::{Array, Result, cache_scope, invalidate, stats};
use gpucache_tests::turn;

type Bytes = Array<u8, Virtual>;

/// The capacity of a device.
const ALL: usize = 1000 << 20;
/// From this entry on, a scope plans and is not recorded any more.
const WARM: usize = 40;

/// This many thousandths of the device.
fn part(device: &Virtual, thousandths: usize) -> Result<Bytes> {
    Array::zeros(device, ALL / 1000 * thousandths)
}

/// A line between two threads, to tell each other when to go on.
struct Line(Sender<()>, Receiver<()>);

impl Line {
    fn new() -> [Line; 2] {
        let ((here, there), (to, from)) = (channel(), channel());
        [Line(here, from), Line(to, there)]
    }

    fn tell(&self) {
        self.0.send(()).unwrap();
    }

    fn wait(&self) {
        self.1.recv().unwrap();
    }
}

/// A device that checks each block, and a device that lets a scope take the fastest path.
fn devices() -> [Virtual; 2] {
    [Virtual::new(ALL), Virtual::unchecked(ALL)]
}

/// Runs `inside` and `outside` on a thread each.
fn on_two_threads(inside: impl FnOnce(Line) + Send, outside: impl FnOnce(Line)) {
    let [one, other] = Line::new();
    std::thread::scope(|threads| {
        let inside = threads.spawn(move || inside(one));
        outside(other);
        inside.join().unwrap();
    });
}

/// Warms a scope up to a plan, by entries that do this.
fn warm(name: &str, entry: impl Fn()) {
    (0..WARM).for_each(|_| cache_scope!(name = name, { entry() }));
    assert!(stats(name).unwrap().served.planned.allocations > 0, "{:?}", stats(name));
}

fn end(device: &Virtual, names: &[&str]) {
    names.iter().for_each(|name| _ = invalidate(name));
    device.synchronize().unwrap();
    assert_eq!(device.memory().bytes, 0);
}

#[test]
fn a_block_in_which_nothing_is_alive_is_taken() {
    let _turn = turn();
    for device in devices() {
        let entry = || (0..7).for_each(|_| drop(part(&device, 700).unwrap()));
        let inside = |line: Line| {
            warm("idle inside", entry);
            cache_scope!("idle inside", {
                entry();
                line.tell();
                line.wait();
                let error = part(&device, 700).unwrap_err();
                assert!(error.is_out_of_memory(), "{error}");
                drop(part(&device, 300).expect("there is room for that beside the other thread's"));
                line.tell();
                line.wait();
                drop(part(&device, 700).expect("the other thread has dropped"));
            });
            let planned = || stats("idle inside").unwrap().served.planned.allocations;
            let before = planned();
            (0..WARM).for_each(|_| cache_scope!("idle inside", { entry() }));
            assert!(planned() - before >= 7 * (WARM as u64 - 2), "planned again: {} more", planned() - before);
            assert_eq!(stats("idle inside").unwrap().busy_blocks, 0);
        };
        on_two_threads(inside, |line| {
            line.wait();
            let taken = cache_scope!("in need", { part(&device, 600).expect("nothing is alive") });
            line.tell();
            line.wait();
            drop(taken);
            line.tell();
        });
        end(&device, &["idle inside", "in need"]);
    }
}

/// The arrays that a thread has when another thread is in need.
struct Held(#[expect(dead_code, reason = "held")] Vec<Bytes>);

/// Whether another thread gets 600 thousandths while this thread is inside a warm scope: once while it holds the result of `hold`,
/// and once after that is dropped. Entries allocate these sizes, in thousandths. If `one_leaves`, the entry before leaves the last
/// of them to `hold`.
fn is_taken_while(sizes: &[usize], one_leaves: bool, hold: impl Fn(&Virtual, Vec<Bytes>) -> Held + Sync) -> [bool; 2] {
    let mut answers = Vec::new();
    for device in devices() {
        let all = || sizes.iter().map(|&size| part(&device, size).unwrap()).collect::<Vec<Bytes>>();
        let inside = |line: Line| {
            warm("busy inside", || drop(all()));
            let before = cache_scope!("busy inside", { all().split_off(sizes.len() - usize::from(one_leaves)) });
            cache_scope!("busy inside", {
                let held = hold(&device, before);
                line.tell();
                line.wait();
                drop(held);
                // Takes back the blocks that other threads dropped.
                drop(part(&device, 1));
                line.tell();
                line.wait();
            });
        };
        on_two_threads(inside, |line| {
            let answer = [(); 2].map(|()| {
                line.wait();
                let is_taken = cache_scope!("in need", { part(&device, 600).is_ok() });
                line.tell();
                is_taken
            });
            answers.push(answer);
        });
        end(&device, &["busy inside", "in need"]);
    }
    assert_eq!(answers[0], answers[1], "however the scope serves");
    answers[0]
}

#[test]
fn a_block_with_one_live_position_of_several_is_left() {
    let _turn = turn();
    let sizes = [300, 200, 200];
    let hold = |device: &Virtual, _: Vec<Bytes>| {
        let mut all: Vec<Bytes> = sizes.iter().map(|&size| part(device, size).unwrap()).collect();
        Held(vec![all.remove(1)])
    };
    assert_eq!(is_taken_while(&sizes, false, hold), [false, true]);
}

/// The array is such a small part of the block that it keeps its place there.
#[test]
fn a_block_with_an_array_of_an_entry_before_is_left() {
    let _turn = turn();
    assert_eq!(is_taken_while(&[695, 5], true, |_, before| Held(before)), [false, true]);
}

/// The array counts as alive until the thread inside takes it back.
#[test]
fn a_block_with_an_array_that_another_thread_dropped_is_left() {
    let _turn = turn();
    let hold = |_: &Virtual, before: Vec<Bytes>| {
        std::thread::scope(|threads| threads.spawn(|| drop(before)).join().unwrap());
        Held(Vec::new())
    };
    assert_eq!(is_taken_while(&[695, 5], true, hold), [false, true]);
}

/// A scope without a plan, for now or for good: other threads can take its idle memory as well.
#[test]
fn large_arrays_of_a_scope_without_a_plan_are_had() {
    let _turn = turn();
    for device in devices() {
        for entries in 1..2 * WARM {
            on_two_threads(
                |line| {
                    for entry in 1..=entries {
                        cache_scope!("inside, with or without a plan", {
                            (0..7).for_each(|_| drop(part(&device, 700).unwrap()));
                            if entry == entries {
                                line.tell();
                                line.wait();
                            }
                        });
                    }
                },
                |line| {
                    line.wait();
                    let served = cache_scope!("outside, in need", { part(&device, 600).map(drop) });
                    line.tell();
                    served.unwrap_or_else(|error| panic!("after {entries} entries: {error}"));
                },
            );
            let _ = (invalidate("inside, with or without a plan"), invalidate("outside, in need"));
            device.trim();
        }
    }
}
