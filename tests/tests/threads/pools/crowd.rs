//! Sixty-four threads that enter all kinds of scopes, allocate, send arrays to each other, drop them, and invalidate, at
//! random from a seed. The machine decides how they interleave.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};

use gpucache::device::{Device, Virtual};
use gpucache::prelude::Host;
use gpucache::{Error, invalidate};
use gpucache::{Recycle, Scope, ScopeGuard};
use gpucache_tests::conformance::stats_of;
use gpucache_tests::model::SHAPES;
use gpucache_tests::{Faulty, Marked, marked, turn};

const THREADS: usize = 64;
const STEPS: usize = 1200;
const KINDS: [Recycle; 4] = [Recycle::Auto, Recycle::Range, Recycle::Keyed, Recycle::Off];

/// The state that the threads of a crowd share.
struct Crowd<'a, D: Device> {
    device: &'a D,
    names: [String; 4],
    /// Whether contents of the device can be read.
    has_contents: bool,
    marks: AtomicU32,
    allocations: [AtomicU64; 4],
}

struct Member<'a, D: Device> {
    crowd: &'a Crowd<'a, D>,
    random: fastrand::Rng,
    senders: Vec<Sender<Marked<D>>>,
    inbox: Receiver<Marked<D>>,
    guards: Vec<(ScopeGuard, usize)>,
    arrays: Vec<Marked<D>>,
}

impl<D: Device> Member<'_, D> {
    fn step(&mut self) -> Result<(), Error> {
        match self.random.u32(..100) {
            0..15 if self.guards.len() < 4 => {
                let name = self.random.usize(..4);
                self.guards.push((Scope::new(&self.crowd.names[name]).recycle(KINDS[name]).enter(), name));
            }
            15..25 => drop(self.guards.pop()),
            25..55 => self.allocate()?,
            55..75 => self.take().into_iter().for_each(|array| self.check(&array)),
            75..85 => {
                let to = self.random.usize(..self.senders.len());
                // A thread that has ended receives nothing; the array is dropped here then.
                self.take().into_iter().for_each(|array| drop(self.senders[to].send(array)));
            }
            85..98 => self.arrays.extend(self.inbox.try_recv()),
            98 if self.random.u32(..10) == 0 => drop(invalidate(&self.crowd.names[self.random.usize(..4)]).bytes),
            _ => std::thread::yield_now(),
        }
        Ok(())
    }

    fn allocate(&mut self) -> Result<(), Error> {
        let (kind, shape) = (self.random.usize(..marked::TYPES), self.random.choice(SHAPES).unwrap());
        let mark = self.crowd.marks.fetch_add(1, Relaxed);
        self.arrays.push(Marked::new(self.crowd.device, kind, shape, mark)?);
        if let Some((_, name)) = self.guards.last() {
            self.crowd.allocations[*name].fetch_add(1, Relaxed);
        }
        Ok(())
    }

    fn take(&mut self) -> Option<Marked<D>> {
        (!self.arrays.is_empty()).then(|| self.arrays.swap_remove(self.random.usize(..self.arrays.len())))
    }

    fn check(&self, array: &Marked<D>) {
        if self.crowd.has_contents {
            array.check();
        }
    }

    /// Remaining arrays are dropped when the thread's caches may already be closed, or with the channel, on any thread.
    fn run(mut self) -> Result<(), Error> {
        for _ in 0..STEPS {
            self.step()?;
        }
        self.arrays.iter().for_each(|array| self.check(array));
        self.guards.drain(..).for_each(drop);
        Ok(())
    }
}

impl<'a, D: Device> Crowd<'a, D> {
    fn run(device: &'a D, label: &str, has_contents: bool) {
        let names = std::array::from_fn(|kind| format!("{label} {kind}"));
        let crowd = Crowd { device, names, has_contents, marks: AtomicU32::new(0), allocations: Default::default() };
        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
        std::thread::scope(|threads| {
            let started = (0..).zip(inboxes).map(|(number, inbox)| {
                let (crowd, senders, random) = (&crowd, senders.clone(), fastrand::Rng::with_seed(number));
                // Guards stay on their thread, so a member is created there.
                let member = || Member { crowd, random, senders, inbox, guards: Vec::new(), arrays: Vec::new() };
                threads.spawn(move || member().run().unwrap())
            });
            // A scope of threads does not wait for the end of their thread-locals, but a join does.
            started.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        });
        drop(senders);
        crowd.check_end();
    }

    fn check_end(&self) {
        for (name, allocations) in self.names.iter().zip(&self.allocations) {
            let stats = stats_of(name);
            assert_eq!(stats.allocations(), allocations.load(Relaxed), "{name}");
            assert_eq!((stats.busy_blocks, stats.busy_bytes), (0, 0), "{name}");
            assert_eq!(invalidate(name).busy_blocks, 0);
        }
    }
}

#[test]
fn on_a_device_that_checks() {
    let device = Faulty::new();
    Crowd::run(&device, "checks", true);
    device.assert_clean();
    assert_eq!(device.memory().bytes, 0);
}

/// A range of chunks, which mixes blocks of all threads.
#[test]
fn on_a_device_with_a_range() {
    let device = Faulty::with_chunks(1 << 32);
    Crowd::run(&device, "chunks", true);
    device.trim();
    device.assert_clean();
    assert_eq!(device.memory().bytes, 0);
}

/// The device has no contents, but it knows every block, and an overlap is an error.
#[test]
fn on_a_device_of_addresses() {
    let device = Virtual::new(1 << 40);
    Crowd::run(&device, "virtual", false);
    device.trim();
    device.synchronize().unwrap();
    assert_eq!(device.memory().bytes, 0);
}

#[test]
fn on_the_host() {
    // All tests share the host's memory.
    let _turn = turn();
    let host = Host::new();
    host.trim();
    let before = host.memory().bytes;
    Crowd::run(&host, "host", true);
    host.trim();
    assert_eq!(host.memory().bytes, before);
}
