//! The cost of a scope with many large arrays beside plain allocations of cudarc. The figures are printed, and not checked.
//!
//! `cargo test --release -p gpucache-tests --test cuda_attack -- --ignored --nocapture cost`. `GIGABYTES` selects one size only.

use std::time::{Duration, Instant};

use cudarc::driver::result::device::get_mem_pool;
use cudarc::driver::result::mem_pool;
use cudarc::driver::sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
use cudarc::driver::{CudaSlice, sys};
use gpucache::prelude::*;
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::Gpu;
use gpucache_tests::process::{median, number};
use serde_json::json;

use crate::Service;

const ARRAYS: usize = 200;
const ROUNDS: usize = 5;
const NAME: &str = "many large arrays";

/// The source of the memory.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Subject {
    Scope(Service),
    /// The driver's pool. By default it gives its memory back at every synchronization.
    Pool,
    /// The driver's pool, which keeps all memory until it is trimmed.
    PoolKept,
}

const SUBJECTS: [Subject; 4] =
    [Subject::Scope(Service::Planned), Subject::Scope(Service::Ranged), Subject::Pool, Subject::PoolKept];

/// The times of one round, and a scope's device calls.
#[derive(Default)]
struct Figures {
    first: Vec<Duration>,
    again: Vec<Duration>,
    growth: Vec<Duration>,
    give_back: Vec<Duration>,
    calls: Vec<[u64; 4]>,
}

impl Subject {
    /// Sets how much the pool keeps from now on.
    fn prepare(self, gpu: &Cuda) {
        let context = gpu.stream().context();
        context.bind_to_thread().unwrap();
        let mut threshold = if self == Subject::PoolKept { u64::MAX } else { 0 };
        // SAFETY: the device is that of a live context, the pool is its current one, and the attribute is a 64-bit integer.
        unsafe {
            let pool = get_mem_pool(context.cu_device()).unwrap();
            mem_pool::set_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, (&raw mut threshold).cast()).unwrap();
        }
    }

    /// Allocates all arrays, drops them, and waits for the stream.
    fn entry(self, gpu: &Cuda, bytes: usize) {
        match self {
            Subject::Scope(service) => service.enter(NAME, || {
                // SAFETY: nobody reads the arrays.
                let new = |_| unsafe { Array::<u8, _>::uninit(gpu, bytes).unwrap() };
                drop((0..ARRAYS).map(new).collect::<Vec<_>>());
            }),
            Subject::Pool | Subject::PoolKept => {
                // SAFETY: nobody reads the arrays.
                let new = |_| unsafe { gpu.stream().alloc::<u8>(bytes).unwrap() };
                drop((0..ARRAYS).map(new).collect::<Vec<CudaSlice<u8>>>());
            }
        }
        gpu.synchronize().unwrap();
    }

    /// Gives all memory back.
    fn give_back(self, gpu: &Cuda) {
        match self {
            Subject::Scope(_) => _ = invalidate(NAME),
            Subject::Pool | Subject::PoolKept => {
                let device = gpu.stream().context().cu_device();
                // SAFETY: the pool is the current one of a live context's device, and none of its memory is in use.
                unsafe { sys::cuMemPoolTrimTo(get_mem_pool(device).unwrap(), 0) }.result().unwrap();
            }
        }
        gpu.synchronize().unwrap();
    }

    fn round(self, gpu: &Cuda, bytes: usize, figures: &mut Figures) {
        self.prepare(gpu);
        let calls = || gpu.memory().times_taken() + gpu.memory().times_given_back();
        let mut made = Vec::new();
        let mut timed = |times: &mut Vec<Duration>, act: &dyn Fn()| {
            let (before, start) = (calls(), Instant::now());
            act();
            times.push(start.elapsed());
            made.push(calls() - before);
        };
        timed(&mut figures.first, &|| self.entry(gpu, bytes));
        timed(&mut figures.again, &|| self.entry(gpu, bytes));
        timed(&mut figures.growth, &|| self.entry(gpu, bytes / 10 * 11));
        timed(&mut figures.give_back, &|| self.give_back(gpu));
        figures.calls.extend(<[u64; 4]>::try_from(made).ok());
        // Memory that a scope's invalidation left for other scopes goes back outside of the measured times.
        gpu.trim();
        gpu.synchronize().unwrap();
    }
}

/// All subjects in turn, after one round that does not count.
fn measured(gpu: &Cuda, gigabytes: usize) -> serde_json::Value {
    let bytes = gigabytes * 1_000_000_000 / ARRAYS;
    let mut figures: Vec<Figures> = SUBJECTS.iter().map(|_| Figures::default()).collect();
    for round in 0..=ROUNDS {
        for (subject, figures) in SUBJECTS.iter().zip(&mut figures) {
            let mut warm_up = Figures::default();
            subject.round(gpu, bytes, if round == 0 { &mut warm_up } else { figures });
        }
    }
    let milliseconds = |times: &Vec<Duration>| 1000.0 * median(times.clone()).as_secs_f64();
    let rows: Vec<[f64; 4]> = figures
        .iter()
        .map(|figures| [&figures.first, &figures.again, &figures.growth, &figures.give_back].map(milliseconds))
        .collect();
    let kept = rows[SUBJECTS.len() - 1];
    let pool = rows[SUBJECTS.len() - 2];
    let over = |row: &[f64; 4], other: [f64; 4]| -> Vec<f64> { row.iter().zip(other).map(|(a, b)| a / b).collect() };
    let subjects = SUBJECTS.iter().zip(&figures).zip(&rows).map(|((subject, figures), row)| {
        json!({
            "subject": format!("{subject:?}"),
            "ms": row,
            "over_pool": over(row, pool),
            "over_pool_kept": over(row, kept),
            "device_calls": figures.calls.last(),
        })
    });
    json!({
        "gigabytes": gigabytes,
        "arrays": ARRAYS,
        "columns": ["first entry", "the same again", "growth by 10%", "give back"],
        "subjects": subjects.collect::<Vec<_>>(),
    })
}

#[test]
#[ignore = "a measurement"]
fn many_large_arrays() {
    alone(600, || {
        let Some(gpu) = Gpu::get() else { return };
        let free = gpu.cuda.stream().context().mem_get_info().unwrap().0;
        let sizes = number("GIGABYTES").map_or(vec![20, 60], |size| vec![size as usize]);
        // An entry after the growth needs a tenth more memory, and gathering it somewhat more.
        for gigabytes in sizes.into_iter().filter(|size| size * 1_150_000_000 < free) {
            println!("{}", measured(&gpu.cuda, gigabytes));
        }
    });
}
