//! Sixty-four threads with a stream each. They hand arrays to one another, read and write them by late work on their own streams,
//! and drop them anywhere. Every element is checked.

use std::sync::mpsc::{Receiver, Sender, channel};

use gpucache::prelude::*;
#[cfg(feature = "cuda")]
use gpucache_tests::late::LateGpu;
use gpucache_tests::late::{Late, LateHost};

const THREADS: usize = 64;
const STEPS: usize = 60;
const LEN: usize = 256;

/// An array, and the value of all its elements once the work so far is done.
struct Parcel<M: Late>(Array<u32, M::Device>, u32);

struct Member<'m, M: Late> {
    machine: &'m M,
    stream: M::Device,
    others: Vec<Sender<Parcel<M>>>,
    inbox: Receiver<Parcel<M>>,
    random: fastrand::Rng,
    /// Copies of arrays, to be checked.
    seen: Vec<Parcel<M>>,
}

impl<M: Late> Member<'_, M> {
    fn run(mut self) {
        let name = format!("stream crowd {}", std::any::type_name::<M>());
        for _ in 0..STEPS {
            gpucache::cache_scope!(name = &name, { self.step() });
        }
        self.check();
    }

    fn step(&mut self) {
        let value = self.random.u32(..);
        let mut array = Array::full(&self.stream, LEN, value).unwrap();
        if self.random.bool() {
            self.machine.fill(&self.stream, &mut array, !value, self.random.u8(..) < 8);
            self.hand_on(Parcel(array, !value));
        } else {
            self.hand_on(Parcel(array, value));
        }
        while let Ok(Parcel(mut array, mut value)) = self.inbox.try_recv() {
            match self.random.u8(..4) {
                0 => {
                    value = value.wrapping_add(1);
                    self.machine.fill(&self.stream, &mut array, value, self.random.u8(..) < 8);
                    self.hand_on(Parcel(array, value));
                }
                1 => self.look(&array, value),
                2 => {
                    self.look(&array, value);
                    self.hand_on(Parcel(array, value));
                }
                _ => {
                    self.look(&array, value);
                    assert_eq!(array.to_vec().unwrap(), [value; LEN], "read by its own stream");
                }
            }
        }
        if self.seen.len() > 8 {
            self.check();
        }
    }

    /// Copies an array by work on this stream. Drops the array or not while that work is under way.
    fn look(&mut self, array: &Array<u32, M::Device>, value: u32) {
        let mut copy = Array::zeros(&self.stream, LEN).unwrap();
        self.machine.copy(&self.stream, &mut copy, array, self.random.u8(..) < 8);
        self.seen.push(Parcel(copy, value));
    }

    fn hand_on(&mut self, parcel: Parcel<M>) {
        // A thread that has ended takes nothing more. The array is then dropped here.
        let _ = self.others[self.random.usize(..THREADS)].send(parcel);
    }

    fn check(&mut self) {
        self.seen.drain(..).for_each(|Parcel(copy, value)| assert_eq!(copy.to_vec().unwrap(), [value; LEN]));
    }
}

fn crowd<M: Late + Sync>(machine: &M) {
    let (others, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    std::thread::scope(|threads| {
        for (number, inbox) in inboxes.into_iter().enumerate() {
            let (others, stream) = (others.clone(), machine.new_stream());
            let random = fastrand::Rng::with_seed(number as u64);
            let member = Member { machine, stream, others, inbox, random, seen: Vec::new() };
            threads.spawn(move || member.run());
        }
        drop(others);
    });
    let _ = invalidate(format!("stream crowd {}", std::any::type_name::<M>()));
}

#[test]
fn a_crowd_of_streams_on_the_host() {
    let _turn = gpucache_tests::turn();
    crowd(&LateHost);
}

#[test]
#[cfg(feature = "cuda")]
fn a_crowd_of_streams_on_a_gpu() {
    for by_cudarc in [false, true] {
        LateGpu::get(by_cudarc).inspect(crowd);
    }
}

/// A warm scope on one stream makes no event, no query and no wait.
fn one_stream_costs_nothing<D: Device>(device: &D) {
    let name = format!("one stream {device:?}");
    let step = || {
        gpucache::cache_scope!(name = &name, {
            let arrays: Vec<Array<u32, D>> = (1..20).map(|n| Array::zeros(device, n * LEN).unwrap()).collect();
            drop(arrays);
            Array::full(device, LEN, 1u32).unwrap().try_clone().unwrap()
        })
    };
    (0..8).for_each(|_| drop(step()));
    device.synchronize().unwrap();
    let before = (device.ordering(), device.memory());
    (0..100).for_each(|_| drop(step()));
    assert_eq!((device.ordering(), device.memory()), before);
    let _ = invalidate(&name);
}

#[test]
fn one_stream_of_the_host_costs_nothing() {
    // Alone, since other tests on the host would be counted too.
    let _turn = gpucache_tests::turn();
    one_stream_costs_nothing(&Host::new());
    one_stream_costs_nothing(&Host::new_stream().unwrap());
}

#[test]
#[cfg(feature = "cuda")]
fn one_stream_of_a_gpu_costs_nothing() {
    let Some(gpu) = gpucache_tests::gpu::Gpu::get() else { return };
    one_stream_costs_nothing(&gpu.cuda);
    one_stream_costs_nothing(&gpu.new_stream());
}
