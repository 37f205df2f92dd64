//! An out-of-memory error is true, on a device whose memory is idle somewhere, or nearly all in use.
//!
//! `OPERATIONS` sets how many operations the long tests make, 8,000 by default and 2,400 over the made-up driver. `SEED` selects
//! which ones.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fastrand::Rng;
use gpucache::prelude::*;
use gpucache::uncached;
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::process::number;

use crate::Service;

type Bytes = Array<u8, Cuda>;

fn uninit(gpu: &Cuda, bytes: usize) -> gpucache::Result<Bytes> {
    // SAFETY: nobody reads the array.
    unsafe { Array::uninit(gpu, bytes) }
}

fn free(gpu: &Cuda) -> usize {
    gpu.stream().context().mem_get_info().unwrap().0
}

/// Memory that plain arrays freed lies in the driver's pool until somebody synchronizes. It must be available all the same.
#[test]
fn what_plain_arrays_freed_is_to_be_had() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let gpu = &gpu.cuda;
        for service in Service::SCOPES {
            let big = free(gpu) / 10 * 7;
            drop(uncached!({ Bytes::zeros(gpu, big).unwrap() }));
            let served = service.enter("behind plain arrays", || Bytes::zeros(gpu, big).map(|array| array.len()));
            assert_eq!(served.unwrap_or_else(|error| panic!("{service:?}: {error}")), big);
            let _ = invalidate("behind plain arrays");
            gpu.trim();
            gpu.synchronize().unwrap();
        }
    });
}

/// The same for memory that cudarc's own slices freed, on this stream and on another one.
#[test]
fn what_slices_freed_is_to_be_had() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let other = gpu.new_stream();
        for (service, stream) in Service::SCOPES.iter().flat_map(|service| [(service, &gpu.cuda), (service, &other)]) {
            let big = free(&gpu.cuda) / 10 * 7;
            drop(stream.stream().alloc_zeros::<u8>(big).unwrap());
            let served = service.enter("behind slices", || Bytes::zeros(&gpu.cuda, big).map(|array| array.len()));
            assert_eq!(served.unwrap_or_else(|error| panic!("{service:?}: {error}")), big);
            let _ = invalidate("behind slices");
            gpu.cuda.trim();
            gpu.cuda.stream().context().synchronize().unwrap();
        }
    });
}

/// Plain arrays can get memory that a scope freed.
#[test]
fn what_scopes_freed_is_to_be_had_by_plain_arrays() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let gpu = &gpu.cuda;
        for service in Service::SCOPES {
            let big = free(gpu) / 10 * 7;
            service.enter("before plain arrays", || drop(Bytes::zeros(gpu, big).unwrap()));
            let plain = uncached!({ Bytes::zeros(gpu, big) });
            drop(plain.unwrap_or_else(|error| panic!("{service:?}: {error}")));
            let _ = invalidate("before plain arrays");
            gpu.trim();
            gpu.synchronize().unwrap();
        }
    });
}

/// A thread is inside a scope and has nothing alive. Others can get the memory that its cache keeps.
#[test]
fn what_is_idle_inside_a_scope_is_to_be_had() {
    alone(120, || {
        let Some(gpu) = Gpu::get() else { return };
        let gpu = &gpu.cuda;
        for service in HAD_BY_OTHERS {
            let all = free(gpu);
            let (inside, is_inside) = channel();
            let (go, gone) = channel::<()>();
            let served = std::thread::scope(|threads| {
                threads.spawn(move || {
                    for entry in 0..8 {
                        service.enter("idle inside", || {
                            (0..7).for_each(|_| drop(uninit(gpu, all / 10 * 7).unwrap()));
                            if entry == 7 {
                                inside.send(()).unwrap();
                                gone.recv().unwrap();
                            }
                        });
                    }
                });
                is_inside.recv().unwrap();
                let served = service.enter("asked for", || uninit(gpu, all / 10 * 6).map(|array| array.len()));
                go.send(()).unwrap();
                served
            });
            served.unwrap_or_else(|error| panic!("{service:?}: {error}"));
            let _ = (invalidate("idle inside"), invalidate("asked for"));
            gpu.trim();
        }
    });
}

/// While a thread is inside a scope, others cannot get the idle memory in its keyed lists. So these services are left out.
const HAD_BY_OTHERS: [Service; 2] = [Service::Planned, Service::Ranged];

const PAGE: u64 = 2 << 20;
/// The number of arrays that live at once in all threads.
const ALIVE: usize = 28;
/// This share of the free memory may be lost to pages that nobody uses.
///
/// Pages are mapped by handles of 1/1024 of the peak, and a handle that contains part of an array cannot go back. Each end of an
/// array wastes at most a part of one handle, so 28 arrays and the request waste 58 parts: less than 1/16. The share also covers
/// the driver's page tables, and pools of some megabytes.
const MARGIN: u64 = 16;
const LONGEST: Duration = Duration::from_secs(200);

/// An array, from the request to the drop, in ticks of the model.
struct Life {
    address: u64,
    bytes: u64,
    end: Option<u64>,
}

/// The arrays and the open requests of all threads.
#[derive(Default)]
struct Model {
    lives: Vec<Life>,
    asking: BTreeMap<usize, (u64, u64)>,
    tick: u64,
    requests: u64,
    shortages: u64,
    wrong: Vec<String>,
}

impl Model {
    /// Notes a request of the thread. Arrays that ended before all open requests began do not matter any more.
    fn ask(&mut self, thread: usize, bytes: u64) {
        self.tick += 1;
        self.requests += 1;
        self.asking.insert(thread, (self.tick, bytes));
        let oldest = self.asking.values().map(|(tick, _)| *tick).min().unwrap_or(self.tick);
        self.lives.retain(|life| life.end.is_none_or(|end| end >= oldest));
    }

    fn had(&mut self, thread: usize, address: u64, bytes: u64) {
        self.asking.remove(&thread);
        self.lives.push(Life { address, bytes, end: None });
    }

    fn dropped(&mut self, address: u64) {
        self.tick += 1;
        let tick = self.tick;
        let mut alive = self.lives.iter_mut().filter(|life| life.address == address && life.end.is_none());
        // A thread that got this memory since then is noted later.
        alive.next().unwrap().end = Some(tick);
    }

    /// Notes a failed request, if there was enough memory all the time that it took, whatever the others did.
    fn refused(&mut self, thread: usize, capacity: u64, error: &gpucache::Error) {
        self.shortages += 1;
        let Some((begun, bytes)) = self.asking.remove(&thread) else { return };
        let of_others: u64 = self.asking.values().map(|(_, bytes)| bytes.next_multiple_of(PAGE) + PAGE).sum();
        let taken = PAGE * self.pages_since(begun) + of_others;
        let needed = bytes.next_multiple_of(PAGE);
        if taken + needed <= capacity - capacity / MARGIN {
            let part = (taken + needed) as f64 / capacity as f64;
            let alive = self.lives.iter().filter(|life| life.end.is_none()).count();
            let text = format!("{alive} arrays take {taken} of {capacity}, {needed} more make {part:.3}: {error}");
            println!("FALSE SHORTAGE: {text}");
            self.wrong.push(text);
        }
    }

    /// The pages of arrays that lived at that tick or later.
    fn pages_since(&self, tick: u64) -> u64 {
        let is_of_interest = |life: &&Life| life.end.is_none_or(|end| end >= tick);
        let pages = |life: &Life| (life.address / PAGE, (life.address + life.bytes - 1) / PAGE + 1);
        let mut spans: Vec<(u64, u64)> = self.lives.iter().filter(is_of_interest).map(pages).collect();
        spans.sort_unstable();
        let (mut count, mut counted_to) = (0, 0);
        for (start, end) in spans {
            count += end.saturating_sub(start.max(counted_to));
            counted_to = counted_to.max(end);
        }
        count
    }
}

/// Three of four sizes are a good part of the device, and the others are small.
fn size(rng: &mut Rng, capacity: u64) -> u64 {
    match rng.u8(..4) {
        0 => 1 << rng.u64(8..26),
        _ => rng.u64(1..capacity / 10),
    }
}

fn give(model: &Mutex<Model>, array: Bytes) {
    let address = array.address();
    drop(array);
    model.lock().unwrap().dropped(address);
}

/// The work of one thread: entries of a scope, with arrays that outlive them. Returns the arrays that are left.
fn churn(gpu: &Cuda, model: &Mutex<Model>, thread: usize, threads: usize, capacity: u64) -> Vec<Bytes> {
    let rng = &mut Rng::with_seed(number("SEED").unwrap_or(1) * 100 + thread as u64);
    // The made-up driver writes all requested memory.
    let operations = number("OPERATIONS").unwrap_or(if is_made_up() { 2400 } else { 8000 }) / threads as u64;
    let (mut alive, start) = (Vec::<Bytes>::new(), Instant::now());
    let mut done = 0;
    while done < operations && start.elapsed() < LONGEST {
        let services = if threads == 1 { &Service::SCOPES[..] } else { &HAD_BY_OTHERS };
        let service = services[rng.usize(..services.len())];
        service.enter(&format!("nearly full, {thread}, {service:?}"), || {
            for _ in 0..rng.u64(1..60) {
                done += 1;
                if alive.len() >= ALIVE / threads || !alive.is_empty() && rng.u8(..4) == 0 {
                    give(model, alive.swap_remove(rng.usize(..alive.len())));
                    continue;
                }
                let bytes = size(rng, capacity);
                model.lock().unwrap().ask(thread, bytes);
                match uninit(gpu, bytes as usize) {
                    Ok(array) => {
                        model.lock().unwrap().had(thread, array.address(), bytes);
                        alive.push(array);
                    }
                    Err(error) => {
                        assert!(error.is_out_of_memory(), "{error}");
                        model.lock().unwrap().refused(thread, capacity, &error);
                        (0..2.min(alive.len())).for_each(|_| give(model, alive.swap_remove(rng.usize(..alive.len()))));
                    }
                }
            }
        });
    }
    if done < operations {
        println!("thread {thread} ends after {done} of {operations} operations, as its time is over");
    }
    alive
}

fn nearly_full(threads: usize) {
    let Some(gpu) = Gpu::get() else { return };
    // Memory that the driver keeps for good after its first use is not free.
    Service::Ranged.enter("first", || drop(Bytes::zeros(&gpu.cuda, (1 << 30).min(free(&gpu.cuda) / 2)).unwrap()));
    let _ = invalidate("first");
    gpu.cuda.trim();
    gpu.cuda.synchronize().unwrap();
    let before = free(&gpu.cuda);
    let model = Mutex::new(Model::default());
    std::thread::scope(|scope| {
        let (gpu, model) = (&gpu.cuda, &model);
        let churn = |thread| scope.spawn(move || churn(gpu, model, thread, threads, before as u64));
        let working: Vec<_> = (0..threads).map(churn).collect();
        // On a busy processor, a thread may end before the next one begins. Its arrays stay, so that the device is full all the same.
        let left: Vec<Bytes> = working.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        left.into_iter().for_each(|array| give(model, array));
    });
    let Model { requests, shortages, wrong, .. } = model.into_inner().unwrap();
    let _ = gpucache::invalidate_all();
    gpu.cuda.trim();
    gpu.cuda.synchronize().unwrap();
    let after = free(&gpu.cuda);
    println!("{threads} threads: {requests} requests, {shortages} shortages, {} of them false", wrong.len());
    println!("{}; free before and after: {before}, {after}; held: {:?}", gpu.cuda.stats().reclaim, gpu.cuda.memory());
    assert!(wrong.is_empty(), "{} false shortages, the first: {}", wrong.len(), wrong[0]);
    assert!(after + (8 << 20) >= before, "{} bytes did not come back", before - after);
    assert!(shortages > 0, "the device was never full");
}

#[test]
fn one_thread_on_a_device_that_is_nearly_full() {
    alone(300, || nearly_full(1));
}

#[test]
fn three_threads_on_a_device_that_is_nearly_full() {
    alone(300, || nearly_full(3));
}
