//! `threads`: eight threads in a ring, each on its own per-thread default stream, hand slices on to each other. The thread that
//! made a slice does not use its memory any more. The next thread drops it with work on its way.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use cudarc::driver::{CudaContext, CudaEvent, CudaSlice};

use crate::report::{Outcome, Report};
use crate::slices::{check, patterned};
use crate::{driver, front_end};

const THREADS: u32 = 8;
const ROUNDS: u32 = 60;
const LENGTHS: [usize; 4] = [1000, 40_000, 64, 9_999];

/// A slice for the next thread, and the event that the thread's stream has to wait for.
struct Parcel {
    slice: CudaSlice<u32>,
    ready: CudaEvent,
    seed: u32,
}

struct Member {
    context: Arc<CudaContext>,
    number: u32,
    next: Sender<Parcel>,
    previous: Receiver<Parcel>,
}

impl Member {
    fn round(&self, round: u32) -> Outcome<()> {
        let stream = self.context.per_thread_stream();
        let seed = self.number * ROUNDS + round;
        let length = LENGTHS[(round % 4) as usize];
        driver::delay(&stream, u64::from((self.number + round) % 3))?;
        let slice = patterned(&stream, seed, length)?;
        let ready = stream.record_event(None)?;
        self.next.send(Parcel { slice, ready, seed })?;
        let parcel = self.previous.recv()?;
        stream.wait(&parcel.ready)?;
        driver::delay(&stream, u64::from((self.number + round) % 5))?;
        let copy = stream.clone_dtod(&parcel.slice)?;
        let seed = parcel.seed;
        // The copy may not have begun. The next owner of the memory has to wait for it.
        drop(parcel);
        let other = patterned(&stream, seed + 1, length)?;
        check(&stream, &copy, seed)?;
        check(&stream, &other, seed + 1)
    }

    fn run(self) -> Outcome<()> {
        self.context.bind_to_thread()?;
        (0..ROUNDS).try_for_each(|round| front_end::scoped(|| self.round(round)))
    }
}

pub(crate) fn run() -> Outcome {
    let context = CudaContext::new(0)?;
    let (senders, receivers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| channel()).unzip();
    let next = senders.clone().into_iter().cycle().skip(1);
    let mut threads = Vec::new();
    for (number, (next, previous)) in (0..).zip(next.zip(receivers)) {
        let member = Member { context: context.clone(), number, next, previous };
        threads.push(std::thread::spawn(move || member.run()));
    }
    drop(senders);
    // The first thread that fails makes its neighbours fail, so its message is the cause.
    let failed = threads.into_iter().map(|thread| thread.join().map_err(|_| "a thread panicked")?);
    let failed: Vec<_> = failed.filter_map(Result::err).map(|error| error.to_string()).collect();
    if !failed.is_empty() {
        return Err(failed.join("; ").into());
    }
    context.check_err()?;
    front_end::add_to(Report::default().number("slices", u64::from(THREADS * ROUNDS)).number("corruptions", 0))
}
