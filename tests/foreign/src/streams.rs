//! `streams`: a thousand streams. Each is destroyed while slices that were allocated on it are alive, by then on other streams, or
//! cached. The driver gives the handles out again.

use std::collections::VecDeque;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

use crate::report::{Outcome, Report};
use crate::slices::{check, patterned};
use crate::{driver, front_end};

const STREAMS: u32 = 1000;
const LENGTHS: [usize; 4] = [200, 5000, 1, 70_000];
/// The slices of each kind that are alive at a time.
const ALIVE: usize = 8;

/// Moves a slice from one stream to another, which waits for the first.
fn moved(from: &Arc<CudaStream>, to: &Arc<CudaStream>, slice: CudaSlice<u32>) -> Outcome<CudaSlice<u32>> {
    let length = slice.len();
    let address = slice.leak();
    to.join(from)?;
    // SAFETY: the memory was just that slice's, which has as many elements and is gone. The new slice's stream works only after the
    // old stream.
    Ok(unsafe { to.upgrade_device_ptr(address, length) })
}

struct Crowd {
    context: Arc<CudaContext>,
    /// The stream that outlives the others.
    heir: Arc<CudaStream>,
    moved: VecDeque<(CudaSlice<u32>, u32)>,
    /// Slices that keep their stream alive.
    kept: VecDeque<(CudaSlice<u32>, u32)>,
}

impl Crowd {
    /// Uses two streams in turn. The first is destroyed while a copy from memory that is already free is on its way. The second
    /// gets the first one's handle, requests as much memory, and writes it.
    fn round(&mut self, round: u32) -> Outcome<()> {
        let stream = self.context.new_stream()?;
        let slice = patterned(&stream, round, LENGTHS[(round / 2 % 4) as usize])?;
        if round % 2 == 1 {
            self.kept.push_back((slice, round));
            return if self.kept.len() > ALIVE { self.look_at_oldest() } else { Ok(()) };
        }
        driver::delay(&stream, 1)?;
        let copy = stream.clone_dtod(&slice)?;
        drop(slice);
        self.moved.push_back((moved(&stream, &self.heir, copy)?, round));
        Ok(())
    }

    fn look_at_oldest(&mut self) -> Outcome<()> {
        for (slice, seed) in self.moved.pop_front().into_iter().chain(self.kept.pop_front()) {
            check(slice.stream(), &slice, seed)?;
        }
        Ok(())
    }
}

pub(crate) fn run() -> Outcome {
    let context = CudaContext::new(0)?;
    let heir = context.new_stream()?;
    let mut crowd = Crowd { context: context.clone(), heir, moved: VecDeque::new(), kept: VecDeque::new() };
    for round in 0..STREAMS {
        front_end::scoped(|| crowd.round(round))?;
    }
    while !crowd.moved.is_empty() {
        crowd.look_at_oldest()?;
    }
    context.check_err()?;
    front_end::add_to(Report::default().number("streams", u64::from(STREAMS)))
}
