//! `streams`: a thousand streams, each destroyed while slices that were allocated on it are alive, on other streams by then, or
//! cached. The driver gives their handles out again.

use std::collections::VecDeque;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

use crate::report::{Outcome, Report};
use crate::slices::{check, patterned};
use crate::{driver, front_end};

const STREAMS: u32 = 1000;
/// Slices that are alive at a time, of each kind.
const ALIVE: usize = 8;

/// A slice that was allocated on a stream, over to another one that waits for it.
fn moved(from: &Arc<CudaStream>, to: &Arc<CudaStream>, slice: CudaSlice<u32>) -> Outcome<CudaSlice<u32>> {
    let length = slice.len();
    let address = slice.leak();
    to.join(from)?;
    // SAFETY: the memory was just that slice's, which has as many elements and is gone. The new slice's stream does nothing
    // before the old one's work.
    Ok(unsafe { to.upgrade_device_ptr(address, length) })
}

struct Crowd {
    context: Arc<CudaContext>,
    /// The stream that outlives the others.
    heir: Arc<CudaStream>,
    moved: VecDeque<(CudaSlice<u32>, u32)>,
    /// These keep their stream alive.
    kept: VecDeque<(CudaSlice<u32>, u32)>,
}

impl Crowd {
    fn round(&mut self, round: u32) -> Outcome<()> {
        let stream = self.context.new_stream()?;
        let length = 200 + 1000 * (round % 7) as usize;
        let slice = patterned(&stream, round, length)?;
        if round % 8 == 0 {
            driver::delay(&stream, 2)?;
        }
        let copy = stream.clone_dtod(&slice)?;
        // Cached with the copy on its way.
        drop(slice);
        self.moved.push_back((moved(&stream, &self.heir, copy)?, round));
        self.kept.push_back((patterned(&stream, round + 1, length)?, round + 1));
        drop(stream);
        if self.moved.len() > ALIVE {
            self.look_at_oldest()?;
        }
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
