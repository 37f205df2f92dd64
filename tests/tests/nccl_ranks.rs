//! Several ranks of NCCL as threads of one process: results, order, and ranks that fail. On the made-up driver, all ranks share GPU 0. With
//! a real driver each rank needs a GPU of its own, so the tests need as many GPUs as ranks, and are skipped with fewer.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used)]

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use gpucache::nccl::{Communicator, Id, Reduction};
use gpucache::prelude::*;
use gpucache::{Result, cache_scope as scope};
use gpucache_tests::gpu::{Gpu, Kernels, is_made_up, skip};
use gpucache_tests::madeup::load_nccl_unless_there_is_another;

const LEN: usize = 600;
const TIMEOUT: Duration = Duration::from_secs(20);

/// One rank, on a thread of its own.
struct Rank {
    /// The stream of the computation.
    gpu: Cuda,
    all: Communicator,
    kernels: Kernels,
    /// Where all ranks meet.
    meeting: Arc<Meeting>,
}

/// A barrier at which nobody waits forever: a rank that panicked does not come.
struct Meeting {
    ranks: usize,
    came: Mutex<usize>,
    changed: Condvar,
}

impl Meeting {
    fn wait(&self) {
        let mut came = self.came.lock().unwrap();
        *came += 1;
        self.changed.notify_all();
        let all = came.next_multiple_of(self.ranks);
        let (came, _) = self.changed.wait_timeout_while(came, 3 * TIMEOUT, |came| *came < all).unwrap();
        assert!(*came >= all, "a rank did not come");
    }
}

/// Runs `work` on each of `ranks` ranks at once. Returns their results, or nothing if there are too few GPUs.
fn on_ranks<R: Send>(ranks: usize, timeout: Duration, work: impl Fn(Rank) -> R + Sync) -> Vec<R> {
    let Some(gpu) = Gpu::get() else { return Vec::new() };
    load_nccl_unless_there_is_another();
    let id = match Id::new() {
        Ok(id) if is_made_up() || Cuda::new(ranks - 1).is_ok() => id,
        Ok(_) => {
            eprintln!("SKIPPED: there are fewer than {ranks} GPUs");
            return Vec::new();
        }
        Err(error) => {
            skip(error);
            return Vec::new();
        }
    };
    let Some(_) = gpu.kernels() else { return Vec::new() };
    let meeting = Arc::new(Meeting { ranks, came: Mutex::new(0), changed: Condvar::new() });
    let rank = |number: usize| {
        let device = Cuda::new(if is_made_up() { 0 } else { number }).unwrap();
        let context = device.stream().context();
        let stream = || Cuda::with_stream(context.new_stream().unwrap()).unwrap();
        let kernels = Kernels::load(context).unwrap();
        let all = Communicator::connect(&stream(), &id, number, ranks, timeout).unwrap();
        work(Rank { gpu: stream(), all, kernels, meeting: meeting.clone() })
    };
    thread::scope(|threads| {
        let running: Vec<_> = (0..ranks).map(|number| threads.spawn(move || rank(number))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// The numbers `rank`, `rank + 1`, ..
fn own(rank: &Rank) -> Array<f32, Cuda> {
    let values: Vec<f32> = (0..LEN).map(|at| (rank.all.rank() + at) as f32).collect();
    Array::from_slice(&rank.gpu, LEN, &values).unwrap()
}

#[test]
fn three_ranks_reduce_gather_and_scatter() {
    on_ranks(3, TIMEOUT, |rank| reduce_gather_and_scatter(&rank).unwrap());
}

fn reduce_gather_and_scatter(rank: &Rank) -> Result<()> {
    let (all, gpu, me) = (&rank.all, &rank.gpu, rank.all.rank());
    let (from, part) = (own(rank), LEN / 3);
    for (by, expected) in [
        (Reduction::Sum, |at: f32| 3.0 * at + 3.0),
        (Reduction::Mean, |at: f32| at + 1.0),
        (Reduction::Min, |at: f32| at),
        (Reduction::Max, |at: f32| at + 2.0),
        (Reduction::Product, |at: f32| at * (at + 1.0) * (at + 2.0)),
    ] as [(Reduction, fn(f32) -> f32); 5]
    {
        let expected: Vec<f32> = (0..LEN).map(|at| expected(at as f32)).collect();
        let mut to = Array::<f32, _>::zeros(gpu, LEN)?;
        all.all_reduce(&from, &mut to, by)?;
        assert_eq!(to.to_vec()?, expected, "{by:?}");
        let mut at_root = Array::<f32, _>::zeros(gpu, LEN)?;
        all.reduce(&from, &mut at_root, by, 1)?;
        assert_eq!(at_root.to_vec()?, if me == 1 { expected.clone() } else { vec![0.0; LEN] });
        let mut scattered = Array::<f32, _>::zeros(gpu, part)?;
        all.reduce_scatter(&from, &mut scattered, by)?;
        assert_eq!(scattered.to_vec()?, expected[me * part..(me + 1) * part]);
        let mut in_place = from.try_clone()?;
        all.reduce_scatter_in_place(&mut in_place, by)?;
        assert_eq!(in_place.to_vec()?[me * part..(me + 1) * part], expected[me * part..(me + 1) * part]);
        all.all_gather_in_place(&mut in_place)?;
        assert_eq!(in_place.to_vec()?, expected);
    }
    let mut gathered = Array::<f32, _>::zeros(gpu, [3, LEN])?;
    all.all_gather(&from, &mut gathered)?;
    let rows: Vec<f32> = (0..3).flat_map(|rank| (0..LEN).map(move |at| (rank + at) as f32)).collect();
    assert_eq!(gathered.to_vec()?, rows);
    let mut weights = from.try_clone()?;
    all.broadcast(&mut weights, 2)?;
    assert_eq!(weights.to_vec()?[0], 2.0);
    Ok(())
}

#[test]
fn a_ring_shifts_its_rows_in_groups() {
    on_ranks(4, TIMEOUT, |rank| {
        let (me, ranks) = (rank.all.rank(), rank.all.ranks());
        let mut row = own(&rank);
        for step in 1..=ranks {
            let mut next = Array::<f32, _>::zeros(&rank.gpu, LEN).unwrap();
            let mut group = rank.all.group();
            group.send(&row, (me + 1) % ranks).unwrap().recv(&mut next, (me + ranks - 1) % ranks).unwrap();
            group.launch().unwrap();
            row = next;
            let from = (me + ranks * 2 - step) % ranks;
            assert_eq!(row.to_vec().unwrap()[..2], [from as f32, from as f32 + 1.0]);
        }
    });
}

/// `STEPS` says how many steps.
#[test]
fn buckets_are_reduced_beside_the_computation() {
    let steps = gpucache_tests::process::number("STEPS").unwrap_or(100) as u32;
    let sums = on_ranks(2, TIMEOUT, |rank| (0..steps).map(|step| step_of(&rank, step).unwrap()).collect::<Vec<u32>>());
    for (rank, sums) in sums.iter().enumerate() {
        for (step, sum) in (0..).zip(sums) {
            assert_eq!(*sum, 4 * (2 * step + 1) + 12, "rank {rank}, step {step}");
        }
    }
    let _ = invalidate("a_step_of_a_rank");
}

/// Four gradients, each reduced while later ones are computed. Their memory serves the arrays behind them.
fn step_of(rank: &Rank, step: u32) -> Result<u32> {
    scope!(a_step_of_a_rank, {
        let mut sums = Vec::new();
        for bucket in 0..4 {
            let mut gradient = Array::<u32, _>::zeros(&rank.gpu, LEN)?;
            let late = if step.is_multiple_of(10) { 2_000_000 } else { 0 };
            rank.kernels.fill_on(&rank.gpu, &mut gradient, step + bucket + rank.all.rank() as u32, late);
            let mut sum = Array::<u32, _>::zeros(&rank.gpu, LEN)?;
            rank.all.all_reduce(&gradient, &mut sum, Reduction::Sum)?;
            drop(gradient);
            let mut canary = Array::<u32, _>::zeros(&rank.gpu, LEN)?;
            rank.kernels.fill_on(&rank.gpu, &mut canary, u32::MAX, 0);
            sums.push(sum);
        }
        sums.iter().map(|sum| sum.to_vec().map(|sum| sum[LEN - 1])).sum()
    })
}

#[test]
fn registered_buckets_are_summed_like_others() {
    on_ranks(2, TIMEOUT, |rank| {
        let mut bucket = rank.all.registered_zeros::<f32>(&rank.gpu, LEN).unwrap();
        for _ in 0..3 {
            bucket.copy_from(&own(&rank)).unwrap();
            rank.all.all_reduce_in_place(&mut bucket, Reduction::Sum).unwrap();
            assert_eq!(bucket.to_vec().unwrap()[..3], [1.0, 3.0, 5.0]);
        }
        rank.meeting.wait();
        if is_made_up() && rank.all.rank() == 0 {
            gpucache_tests::madeup::refuse_registrations(true);
            let held = rank.gpu.memory().bytes;
            let refused = rank.all.registered_zeros::<f32>(&rank.gpu, LEN).unwrap_err();
            gpucache_tests::madeup::refuse_registrations(false);
            assert!(refused.is_unavailable() && refused.to_string().contains("Array::zeros"), "{refused}");
            assert_eq!(rank.gpu.memory().bytes, held, "its memory went back");
        }
        rank.meeting.wait();
    });
}

#[test]
fn a_rank_that_leaves_is_noticed_by_the_others() {
    let timeout = Duration::from_secs(3);
    on_ranks(2, timeout, |rank| {
        let mut array = own(&rank);
        rank.all.all_reduce_in_place(&mut array, Reduction::Sum).unwrap();
        rank.all.wait(TIMEOUT).unwrap();
        rank.meeting.wait();
        if rank.all.rank() == 1 {
            // Without a word: the other rank's next collective never ends.
            rank.all.abort("rank 1 has no more data");
            rank.meeting.wait();
            return;
        }
        let queued = rank.all.all_reduce_in_place(&mut array, Reduction::Sum);
        let late = queued.and_then(|()| rank.all.wait(Duration::from_millis(200))).unwrap_err();
        assert!(late.is_device_failure() && late.to_string().contains("not done"), "{late}");
        let start = Instant::now();
        rank.all.abort("rank 1 was not heard of");
        assert!(rank.all.wait(timeout).unwrap_err().to_string().contains("not heard of"));
        // The stream is free again, and so is the array.
        drop(array);
        rank.gpu.synchronize().unwrap();
        rank.all.stream().synchronize().unwrap();
        assert!(start.elapsed() < Duration::from_secs(10));
        rank.meeting.wait();
    });
}

#[test]
fn a_registered_array_does_not_wait_forever_either() {
    on_ranks(2, Duration::from_secs(1), |rank| {
        let mut bucket = rank.all.registered_zeros::<f32>(&rank.gpu, LEN).unwrap();
        rank.all.all_reduce_in_place(&mut bucket, Reduction::Sum).unwrap();
        rank.all.wait(TIMEOUT).unwrap();
        rank.meeting.wait();
        if rank.all.rank() == 0 {
            // The other rank takes no part in this one.
            let _ = rank.all.all_reduce_in_place(&mut bucket, Reduction::Sum);
            let (done, is_done) = std::sync::mpsc::channel();
            thread::spawn(move || {
                drop(bucket);
                let _ = done.send(());
            });
            let is_dropped = is_done.recv_timeout(TIMEOUT).is_ok();
            rank.all.abort("the test is over");
            assert!(is_dropped, "the drop still waits");
        }
        rank.meeting.wait();
    });
}
