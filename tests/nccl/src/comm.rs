//! A communicator of one rank, and the work that it queues.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::driver;
use crate::reduce::{reduce, width};
use crate::world::World;

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const CUDA_ERROR: i32 = 1;
pub(crate) const INVALID_ARGUMENT: i32 = 4;
pub(crate) const INVALID_USAGE: i32 = 5;
pub(crate) const IN_PROGRESS: i32 = 7;

/// How long a call is in progress.
const MOMENT: Duration = Duration::from_micros(200);

pub(crate) struct Comm {
    pub(crate) rank: usize,
    pub(crate) world: Arc<World>,
    pub(crate) is_aborted: AtomicBool,
    /// The answer to the last call.
    pub(crate) state: AtomicI32,
    /// The number of the next collective.
    round: AtomicUsize,
    /// The memory that is registered with it.
    pub(crate) registered: Mutex<Vec<u64>>,
}

/// One call. The addresses are those of the made-up device, which is this process.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(crate) kind: Kind,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) count: usize,
    pub(crate) dtype: i32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    AllReduce(i32),
    Reduce(i32, usize),
    ReduceScatter(i32),
    AllGather,
    Broadcast(usize),
    Send(usize),
    Recv(usize),
}

/// Calls of one launch, with their numbers.
struct Queued {
    comm: Arc<Comm>,
    calls: Vec<(usize, Call)>,
}

impl Comm {
    pub(crate) fn new(rank: usize, world: Arc<World>) -> Comm {
        let (is_aborted, state, round) = (AtomicBool::new(false), AtomicI32::new(SUCCESS), AtomicUsize::new(0));
        Comm { rank, world, is_aborted, state, round, registered: Mutex::default() }
    }

    /// Queues calls on a stream from another thread.
    pub(crate) fn launch(self: &Arc<Self>, calls: &[Call], stream: usize) -> i32 {
        if self.state.swap(IN_PROGRESS, SeqCst) != SUCCESS {
            return INVALID_USAGE;
        }
        if calls.iter().any(|call| width(call.dtype).is_none()) {
            self.state.store(SUCCESS, SeqCst);
            return INVALID_ARGUMENT;
        }
        let numbered = calls.iter().map(|call| match call.kind {
            Kind::Send(_) | Kind::Recv(_) => (0, *call),
            _ => (self.round.fetch_add(1, SeqCst), *call),
        });
        let queued = Queued { comm: self.clone(), calls: numbered.collect() };
        std::thread::spawn(move || {
            std::thread::sleep(MOMENT);
            let comm = queued.comm.clone();
            let argument = Box::into_raw(Box::new(queued)).expose_provenance();
            let argument = std::ptr::with_exposed_provenance_mut(argument);
            // SAFETY: the driver calls the function once, with this argument, which it then owns.
            let launched = driver::get().map(|driver| unsafe { (driver.launch)(stream, Some(run), argument) });
            comm.state.store(if launched == Some(0) { SUCCESS } else { CUDA_ERROR }, SeqCst);
        });
        IN_PROGRESS
    }
}

/// Runs the calls of a launch, in the order of a stream.
unsafe extern "C" fn run(argument: *mut c_void) {
    // SAFETY: `launch` made the argument of a box, and this function is called once with it.
    let Queued { comm, calls } = *unsafe { Box::from_raw(argument.cast::<Queued>()) };
    for (round, call) in &calls {
        match call.kind {
            Kind::Send(to) => comm.world.send(comm.rank, to, call.input()),
            Kind::Recv(_) => {}
            Kind::Broadcast(root) if root != comm.rank => comm.world.give(*round, comm.rank, Vec::new()),
            Kind::ReduceScatter(_) => comm.world.give(*round, comm.rank, call.bytes(call.count * comm.world.ranks)),
            _ => comm.world.give(*round, comm.rank, call.input()),
        }
    }
    for (round, call) in &calls {
        if let Some(output) = result(&comm, *round, call) {
            // SAFETY: the caller of the collective promised that there is memory for its result, which nobody else uses now.
            unsafe {
                std::ptr::with_exposed_provenance_mut::<u8>(call.to as usize)
                    .copy_from_nonoverlapping(output.as_ptr(), output.len());
            }
        }
    }
}

/// The result of a call on this rank; `None` if it has none, or was aborted.
fn result(comm: &Comm, round: usize, call: &Call) -> Option<Vec<u8>> {
    let ends = || comm.is_aborted.load(SeqCst);
    match call.kind {
        Kind::Send(_) => return None,
        Kind::Recv(from) => return comm.world.receive(from, comm.rank, ends),
        _ => {}
    }
    let inputs = comm.world.inputs(round, ends)?;
    match call.kind {
        Kind::AllReduce(by) => reduce(&inputs, call.dtype, by),
        Kind::Reduce(by, root) if root == comm.rank => reduce(&inputs, call.dtype, by),
        Kind::ReduceScatter(by) => {
            let part = inputs.first()?.len() / inputs.len();
            let all = reduce(&inputs, call.dtype, by)?;
            Some(all[comm.rank * part..(comm.rank + 1) * part].to_vec())
        }
        Kind::AllGather => Some(inputs.iter().flat_map(|input| input.iter().copied()).collect()),
        Kind::Broadcast(root) => Some(inputs.get(root)?.to_vec()),
        _ => None,
    }
}

impl Call {
    /// The elements that the call reads.
    fn input(&self) -> Vec<u8> {
        self.bytes(self.count)
    }

    fn bytes(&self, count: usize) -> Vec<u8> {
        let bytes = count * width(self.dtype).unwrap_or(0);
        if bytes == 0 {
            return Vec::new();
        }
        // SAFETY: the caller of the collective promised that there is memory with this many elements, which nobody writes now.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.from as usize), bytes) }.to_vec()
    }
}
