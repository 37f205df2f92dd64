//! `storm`: many threads that allocate, hand on and free on any streams, in scopes of each policy and outside.

use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DriverError, result, sys::CUresult};

use crate::report::{Outcome, Report};
use crate::slices::{check, pattern};
use crate::{driver, front_end};

const THREADS: u64 = 16;
const ROUNDS: u64 = 60;
const LENGTHS: [usize; 6] = [1, 64, 5_000, 40_000, 9_999, 70_000];

struct Shared {
    context: Arc<CudaContext>,
    streams: Mutex<Vec<Arc<CudaStream>>>,
    parcels: Mutex<Vec<(CudaSlice<u32>, u32)>>,
}

/// Pseudorandom numbers from a seed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `None` if a request was refused only because there was no memory.
fn served<T>(answer: Result<T, DriverError>) -> Outcome<Option<T>> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(DriverError(CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Shared {
    fn stream(&self, dice: &mut Dice) -> Arc<CudaStream> {
        match dice.roll(8) {
            0 => self.context.default_stream(),
            1 | 2 => self.context.per_thread_stream(),
            _ => {
                let streams = lock(&self.streams);
                streams[dice.roll(streams.len() as u64) as usize].clone()
            }
        }
    }

    fn act(&self, dice: &mut Dice, mine: &mut Vec<(CudaSlice<u32>, u32)>) -> Outcome<()> {
        let stream = self.stream(dice);
        match dice.roll(12) {
            0..=4 => {
                let (seed, length) = (dice.roll(0xFFF) as u32, LENGTHS[dice.roll(6) as usize]);
                if let Some(slice) = served(stream.clone_htod(&pattern(seed, length)))? {
                    mine.push((slice, seed));
                }
            }
            5 => driver::delay(&stream, dice.roll(4))?,
            6 | 7 if !mine.is_empty() => {
                let (slice, seed) = mine.swap_remove(dice.roll(mine.len() as u64) as usize);
                check(&stream, &slice, seed)?;
            }
            8 if !mine.is_empty() => {
                // Another stream reads it late, and it is dropped at once.
                let (slice, seed) = mine.swap_remove(dice.roll(mine.len() as u64) as usize);
                if let Some(copy) = served(stream.clone_dtod(&slice))? {
                    mine.push((copy, seed));
                }
            }
            9 if !mine.is_empty() => {
                let parcel = mine.swap_remove(dice.roll(mine.len() as u64) as usize);
                let other = {
                    let mut parcels = lock(&self.parcels);
                    parcels.push(parcel);
                    if parcels.len() > 20 { Some(parcels.swap_remove(dice.roll(20) as usize)) } else { None }
                };
                // Slices of the per-thread stream are ordered by the events that cudarc keeps with them.
                if let Some((slice, seed)) = other {
                    check(&stream, &slice, seed)?;
                }
            }
            10 => {
                let bytes = 4 * LENGTHS[dice.roll(6) as usize];
                let (seed, length) = (dice.roll(0xFFF) as u32, bytes / 4);
                let mut found = vec![0; length];
                // SAFETY: the memory is freed once, after it was written and read.
                unsafe {
                    if let Some(address) = served(result::malloc_sync(bytes))? {
                        result::memcpy_htod_async(address, &pattern(seed, length), stream.cu_stream())?;
                        driver::delay(&stream, dice.roll(3))?;
                        result::memcpy_dtoh_async(&mut found, address, stream.cu_stream())?;
                        stream.synchronize()?;
                        if dice.roll(2) == 0 {
                            result::free_sync(address)?
                        } else {
                            result::free_async(address, stream.cu_stream())?
                        }
                        if found != pattern(seed, length) {
                            return Err("memory without a stream".into());
                        }
                    }
                }
            }
            11 => match dice.roll(6) {
                0 => drop(gpucache::invalidate_all()),
                1 => {
                    let (free, total) = self.context.mem_get_info()?;
                    if free > total {
                        return Err("more free than there is".into());
                    }
                }
                _ => {
                    let new = self.context.new_stream()?;
                    let mut streams = lock(&self.streams);
                    let place = dice.roll(streams.len() as u64) as usize;
                    let old = std::mem::replace(&mut streams[place], new);
                    drop(streams);
                    drop(old);
                }
            },
            _ => {}
        }
        Ok(())
    }

    fn round(&self, dice: &mut Dice, mine: &mut Vec<(CudaSlice<u32>, u32)>) -> Outcome<()> {
        let acts = |dice: &mut Dice, mine: &mut Vec<_>| (0..12).try_for_each(|_| self.act(dice, mine));
        match dice.roll(6) {
            0 => acts(dice, mine),
            1 => gpucache::cache_scope!(ranged, recycle = "range", { acts(dice, mine) }),
            2 => gpucache::cache_scope!(keyed, recycle = "keyed", { acts(dice, mine) }),
            3 => gpucache::cache_scope!(off, recycle = "off", { acts(dice, mine) }),
            4 => front_end::scoped(|| gpucache::cache_scope!(ranged, recycle = "range", { acts(dice, mine) })),
            _ => front_end::scoped(|| acts(dice, mine)),
        }
    }
}

pub(crate) fn run() -> Outcome {
    let seed: u64 = std::env::var("STORM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let context = CudaContext::new(0)?;
    let streams = (0..5).map(|_| context.new_stream()).collect::<Result<_, _>>()?;
    let shared = Arc::new(Shared { context, streams: Mutex::new(streams), parcels: Mutex::default() });
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let shared = shared.clone();
            std::thread::spawn(move || -> Outcome<()> {
                shared.context.bind_to_thread()?;
                let mut dice = Dice((seed * 1000 + number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
                let mut mine = Vec::new();
                for round in 0..ROUNDS {
                    shared
                        .round(&mut dice, &mut mine)
                        .map_err(|error| format!("thread {number}, round {round}: {error}"))?;
                    while mine.len() > 6 {
                        mine.remove(0);
                    }
                }
                Ok(())
            })
        })
        .collect();
    let failed: Vec<_> = threads
        .into_iter()
        .filter_map(|thread| thread.join().map_err(|_| "a thread panicked".into()).and_then(|outcome| outcome).err())
        .map(|error| error.to_string())
        .collect();
    if !failed.is_empty() {
        return Err(failed.join("; ").into());
    }
    lock(&shared.parcels).clear();
    shared.context.check_err()?;
    front_end::add_to(Report::default().number("seed", seed))
}
