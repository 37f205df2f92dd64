//! Programs made at random that use memory as frameworks do: several threads with streams of their own, which free memory while a second
//! stream still uses it, in scopes that are left in any order. Nobody may get memory that is in use.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use cudarc::driver::{CudaStream, result};
use fastrand::Rng;
use gpucache_capi::{allocate, enter, enter_uncached, free, invalidate, leave, record_stream, trim};
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, Kernels};

/// What a read copies: the beginning of the memory.
const READ: usize = 4096;
const READS: usize = 4096;
const NAMES: [&str; 4] = ["step", "batch", "loss", "eval"];

/// The memory that is live, and where reads go.
struct World {
    kernels: Kernels,
    live: Mutex<BTreeMap<u64, u64>>,
    sink: u64,
    /// What each read should have copied.
    expected: Mutex<Vec<u8>>,
    handed: Mutex<Vec<Memory>>,
    seed: AtomicU64,
}

#[derive(Clone, Copy)]
struct Memory {
    address: u64,
    value: u8,
    /// Whether it belongs to the thread's first stream or to the second one; memory of other threads is only freed.
    home: usize,
}

/// A thread of the program, with two streams.
struct Actor {
    world: Arc<World>,
    rng: Rng,
    streams: [Arc<CudaStream>; 2],
    live: Vec<Memory>,
    entries: Vec<u64>,
}

impl World {
    fn new(gpu: &Gpu, seed: u64) -> Option<Arc<World>> {
        // SAFETY: the memory is used by work of the actors' streams alone, and lives as long as the process.
        let sink = unsafe { result::malloc_sync(READ * READS) }.unwrap();
        let kernels = gpu.kernels()?;
        let (live, expected, handed) = <(Mutex<_>, Mutex<_>, Mutex<_>)>::default();
        Some(Arc::new(World { kernels, live, sink, expected, handed, seed: AtomicU64::new(seed) }))
    }

    /// Notes that memory is in use, which nobody else may have.
    fn begin(&self, address: u64, bytes: u64) {
        let mut live = self.live.lock().unwrap();
        let before = live.range(..address + bytes).next_back().map(|(&at, &length)| at + length);
        assert!(before.is_none_or(|end| end <= address), "{address:#x} is handed out twice");
        live.insert(address, bytes);
    }

    fn end(&self, address: u64) {
        assert!(self.live.lock().unwrap().remove(&address).is_some());
    }

    /// Checks what all reads copied.
    fn check(&self) {
        let mut expected = self.expected.lock().unwrap();
        let mut all = vec![0u8; READ * READS];
        // SAFETY: the sink has as many bytes, and no work uses it any more.
        unsafe { result::memcpy_dtoh_sync(&mut all, self.sink) }.unwrap();
        for (read, (copied, value)) in all.chunks(READ).zip(expected.drain(..)).enumerate() {
            assert!(copied.iter().all(|&byte| byte == value), "read {read}: {} and not {value}", copied[0]);
        }
    }
}

impl Actor {
    fn new(world: &Arc<World>, gpu: &Gpu) -> Actor {
        let rng = Rng::with_seed(world.seed.fetch_add(1, Relaxed));
        let streams = std::array::from_fn(|_| gpu.new_stream().stream().clone());
        Actor { world: world.clone(), rng, streams, live: Vec::new(), entries: Vec::new() }
    }

    fn act(&mut self) {
        match self.rng.u32(..100) {
            0..40 => self.allocate(),
            40..75 => self.free(),
            75..80 => self.read_random(),
            80..85 => self.hand_over(),
            85..98 => self.scope(),
            98 => _ = trim(0).unwrap(),
            _ => _ = invalidate(Some(NAMES[self.rng.usize(..4)])),
        }
    }

    fn raw(&self, home: usize) -> usize {
        self.streams[home].cu_stream() as usize
    }

    fn allocate(&mut self) {
        if self.live.len() > 20 {
            return self.free();
        }
        let home = usize::from(self.rng.u8(..4) == 0);
        let bytes = READ * [1, 1, 2, 64, 256, 300][self.rng.usize(..6)];
        let address = allocate(bytes, 0, self.raw(home)).unwrap();
        self.world.begin(address, bytes as u64);
        let value = self.rng.u8(1..);
        // SAFETY: the memory is live and has at least this many bytes.
        unsafe { result::memset_d8_async(address, value, READ, self.streams[home].cu_stream()) }.unwrap();
        self.live.push(Memory { address, value, home });
    }

    fn read_random(&mut self) {
        if let Some(&memory) = self.rng.choice(&self.live) {
            self.read(memory, memory.home, false);
        }
    }

    fn read(&mut self, memory: Memory, stream: usize, is_late: bool) {
        let stream = &self.streams[stream];
        if is_late {
            self.world.kernels.hold(stream, self.rng.u64(50..500));
        }
        let mut expected = self.world.expected.lock().unwrap();
        if expected.len() < READS {
            let to = self.world.sink + (READ * expected.len()) as u64;
            expected.push(memory.value);
            drop(expected);
            // SAFETY: both have this many bytes. The memory is not used otherwise before this work is done.
            unsafe { result::memcpy_dtod_async(to, memory.address, READ, stream.cu_stream()) }.unwrap();
        }
    }

    fn free(&mut self) {
        if self.live.is_empty() {
            return;
        }
        let memory = self.live.swap_remove(self.rng.usize(..self.live.len()));
        let (home, other) = (memory.home, 1 - memory.home);
        match self.rng.u8(..4) {
            0 => {
                self.streams[other].join(&self.streams[home]).unwrap();
                self.read(memory, other, true);
                self.release(memory);
                // As programs of PyTorch do: before the next allocation on its home.
                self.streams[home].join(&self.streams[other]).unwrap();
            }
            1 => {
                self.streams[other].join(&self.streams[home]).unwrap();
                record_stream(memory.address, self.raw(other)).unwrap();
                self.read(memory, other, true);
                self.release(memory);
            }
            2 => {
                self.read(memory, home, true);
                self.release(memory);
            }
            _ => self.release(memory),
        }
    }

    fn release(&self, memory: Memory) {
        self.world.end(memory.address);
        free(memory.address).unwrap();
    }

    /// Leaves memory to another thread, and frees some of another one.
    fn hand_over(&mut self) {
        if let Some(memory) = self.live.pop() {
            self.read(memory, memory.home, true);
            self.world.handed.lock().unwrap().push(memory);
        }
        let other = {
            let mut handed = self.world.handed.lock().unwrap();
            if handed.len() > 4 { Some(handed.remove(0)) } else { None }
        };
        other.into_iter().for_each(|memory| self.release(memory));
    }

    fn scope(&mut self) {
        if self.entries.len() > 3 || self.rng.bool() && !self.entries.is_empty() {
            let entry = self.entries.swap_remove(self.rng.usize(..self.entries.len()));
            end(entry);
        } else if self.rng.u8(..10) == 0 {
            self.entries.push(enter_uncached().unwrap());
        } else {
            self.entries.push(enter(NAMES[self.rng.usize(..4)]).unwrap());
        }
    }

    fn finish(&mut self) {
        while !self.live.is_empty() {
            self.free();
        }
        self.entries.drain(..).for_each(end);
        self.streams.iter().for_each(|stream| stream.synchronize().unwrap());
    }
}

/// Runs a program of so many threads; with memory for little more than what they use at once, if it is `tight`.
fn end(entry: u64) {
    let left = leave(entry);
    // The end of the thread for which a backward pass worked has ended this entry too.
    assert!(left.is_ok() || std::thread::current().name() == Some("pt_autograd_0"), "{left:?}");
}

fn run(threads: usize, tight: bool, seed: u64) {
    let Some(gpu) = Gpu::get() else { return };
    let Some(world) = World::new(&gpu, seed) else { return };
    if tight {
        gpucache_capi::set_limit(0, "96MiB").unwrap();
    }
    for _ in 0..rounds() {
        let mut actors: Vec<_> = (0..threads).map(|_| Actor::new(&world, &gpu)).collect();
        std::thread::scope(|scope| {
            for (place, mut actor) in actors.drain(..).enumerate() {
                // The fourth thread is one of a backward pass: it works for others, or for itself if nobody knows for whom.
                let name = if place == 3 { "pt_autograd_0" } else { "actor" };
                let run = move || {
                    actor.streams[0].context().bind_to_thread().unwrap();
                    (0..1500).for_each(|_| actor.act());
                    actor.finish();
                };
                std::thread::Builder::new().name(name.into()).spawn_scoped(scope, run).unwrap();
            }
        });
        world.handed.lock().unwrap().drain(..).for_each(|memory| {
            world.end(memory.address);
            free(memory.address).unwrap();
        });
        world.check();
    }
    let used = gpucache_capi::device_stats(0).unwrap();
    assert_eq!((used.allocated_bytes, used.allocations), (0, used.frees));
}

/// More rounds than usual, for a longer look.
fn rounds() -> u32 {
    std::env::var("ATTACK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3)
}

fn seed() -> u64 {
    std::env::var("ATTACK_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

#[test]
fn no_memory_in_use_is_handed_out_to_one_thread() {
    alone(600, || run(1, false, seed()));
}

#[test]
fn no_memory_in_use_is_handed_out_to_three_threads() {
    alone(600, || run(3, false, seed()));
}

#[test]
fn no_memory_in_use_is_handed_out_to_three_threads_in_little_memory() {
    alone(600, || run(3, true, seed()));
}

#[test]
fn no_memory_in_use_is_handed_out_beside_a_backward_pass() {
    alone(600, || run(4, false, seed()));
}
