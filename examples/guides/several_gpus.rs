//! Two ranks compute gradients and take their mean: on two GPUs by NCCL, or else on the host.

use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use gpucache::nccl::{self, Communicator, Id, Reduction};
use gpucache::{Result, prelude::*};

const RANKS: usize = 2;
const STEPS: usize = 100;
const NUMBERS: usize = 1 << 16;

/// The device of one rank, and its connection to the other ranks.
trait Rank {
    type Device: Device;
    fn device(&self) -> &Self::Device;
    fn mean(&self, gradient: &mut Array<f32, Self::Device>) -> Result<()>;
}

/// One step. A scope belongs to a thread, so each rank has its own.
#[cache_scope(train_step)]
fn step<R: Rank>(own: &R, rank: usize, number: usize) -> Result<f32> {
    let mut gradient = Array::full(own.device(), NUMBERS, (rank * number) as f32)?; // of this rank's part of the batch
    own.mean(&mut gradient)?; // the memory is that of the scope, also while other ranks read it
    Ok(gradient.to_vec()?[0]) // waits for the mean
}

fn train<R: Rank>(own: &R, rank: usize) -> Result<f32> {
    (0..STEPS).try_fold(0.0, |_, number| step(own, rank, number))
}

struct Gpu {
    device: Cuda,
    ranks: Communicator,
}

impl Gpu {
    fn new(rank: usize, id: &Id) -> Result<Self> {
        let device = Cuda::new(rank)?;
        let side = Cuda::with_stream(device.stream().context().new_stream()?)?; // communication runs beside the kernels
        Ok(Self { device, ranks: Communicator::connect(&side, id, rank, RANKS, Duration::from_secs(30))? })
    }
}

impl Rank for Gpu {
    type Device = Cuda;

    fn device(&self) -> &Cuda {
        &self.device
    }

    fn mean(&self, gradient: &mut Array<f32, Cuda>) -> Result<()> {
        self.ranks.all_reduce_in_place(gradient, Reduction::Mean)
    }
}

/// A rank of the host: all ranks add to one sum, and then all read it.
struct OnHost<'a> {
    device: Host,
    sum: &'a Mutex<Vec<f32>>,
    all_here: &'a Barrier,
}

impl Rank for OnHost<'_> {
    type Device = Host;

    fn device(&self) -> &Host {
        &self.device
    }

    fn mean(&self, gradient: &mut Array<f32, Host>) -> Result<()> {
        let add =
            |sum: &mut Vec<f32>| sum.iter_mut().zip(gradient.iter()).for_each(|(sum, x)| *sum += x / RANKS as f32);
        self.sum.lock().map(|mut sum| add(&mut sum)).unwrap_or_default();
        self.all_here.wait();
        self.sum.lock().map(|sum| gradient.copy_from_slice(&sum)).unwrap_or(Ok(()))?;
        if self.all_here.wait().is_leader() {
            self.sum.lock().map(|mut sum| sum.fill(0.0)).unwrap_or_default();
        }
        self.all_here.wait();
        Ok(())
    }
}

fn main() -> Result<()> {
    let id = if nccl::is_available() && Cuda::new(RANKS - 1).is_ok() { Some(Id::new()?) } else { None };
    let (sum, all_here) = (Mutex::new(vec![0.0; NUMBERS]), Barrier::new(RANKS));
    let run = &|rank: usize| match &id {
        Some(id) => train(&Gpu::new(rank, id)?, rank),
        None => train(&OnHost { device: Host::new(), sum: &sum, all_here: &all_here }, rank),
    };
    let means: Vec<Result<f32>> = thread::scope(|threads| {
        let ranks: Vec<_> = (0..RANKS).map(|rank| threads.spawn(move || run(rank))).collect();
        ranks.into_iter().filter_map(|rank| rank.join().ok()).collect()
    });
    for (rank, mean) in means.into_iter().enumerate() {
        println!("rank {rank}: the mean of the last step is {}", mean?);
    }
    let stats = gpucache::stats("train_step").unwrap_or_default();
    println!("{} steps, {} allocations by the device", stats.entries, stats.misses);
    Ok(())
}
