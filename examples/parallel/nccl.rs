//! Collectives of GPUs by NCCL, on a stream of their own. A second thread ends them once a rank fails.
#![cfg(feature = "cuda")]

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use cudarc::driver::CudaEvent;
use cudarc::driver::sys::CUevent_flags::CU_EVENT_DEFAULT;
use gpucache::nccl::{Communicator, Id, Reduction};
use gpucache::prelude::*;

use crate::collectives::{Collectives, Time};
use crate::common::Result;
use crate::gpt::compute::Matrix;
use crate::peers::Peers;

/// The time between two looks for a failure.
const WATCH_EVERY: Duration = Duration::from_millis(50);

/// The collectives of one rank's GPU.
pub(crate) struct Nccl {
    peers: Arc<dyn Peers>,
    communicator: Arc<Communicator>,
    /// The stream of the computation.
    device: Cuda,
    is_measured: Cell<bool>,
    measured: RefCell<Vec<Measured>>,
    watch: Option<(Sender<()>, JoinHandle<()>)>,
}

/// Events around one call.
struct Measured {
    /// On the stream of the computation: the call's array has its contents.
    filled: CudaEvent,
    /// On the stream of the communication: the call is done.
    ended: CudaEvent,
    /// On the stream of the computation, before the array is used.
    came: Option<CudaEvent>,
}

impl Nccl {
    /// Connects this rank with all others, which call this too.
    ///
    /// # Errors
    /// If NCCL is missing, or a rank does not connect within `time`.
    pub(crate) fn connect(device: &Cuda, peers: Arc<dyn Peers>, time: Duration) -> Result<Self> {
        let own = if peers.rank() == 0 { to_text(&Id::new()?) } else { String::new() };
        let id = from_text(&peers.gather(own)?[0])?;
        let stream = Cuda::with_stream(device.stream().context().new_stream()?)?;
        let communicator = Arc::new(Communicator::connect(&stream, &id, peers.rank(), peers.ranks(), time)?);
        let (stop, stopped) = channel::<()>();
        let (watched, others) = (communicator.clone(), peers.clone());
        let watching = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            while stopped.recv_timeout(WATCH_EVERY) == Err(RecvTimeoutError::Timeout) && still_runs(&watched, &*others)
            {
            }
        })?;
        let (device, watch) = (device.clone(), Some((stop, watching)));
        let (is_measured, measured) = (Cell::default(), RefCell::default());
        Ok(Self { peers, communicator, device, is_measured, measured, watch })
    }

    /// Makes a call, between events if calls are measured.
    fn call(&self, call: impl FnOnce(&Communicator) -> gpucache::Result<()>) -> Result<()> {
        if !self.is_measured.get() {
            return Ok(call(&self.communicator)?);
        }
        let filled = mark(&self.device)?;
        call(&self.communicator)?;
        let ended = mark(self.communicator.stream())?;
        self.measured.borrow_mut().push(Measured { filled, ended, came: None });
        Ok(())
    }
}

/// Ends the collectives of this GPU if a rank failed, and all ranks if NCCL failed here.
fn still_runs(communicator: &Communicator, peers: &dyn Peers) -> bool {
    if let Some(error) = communicator.failure() {
        peers.fail(&format!("rank {} failed: {error}", peers.rank()));
    }
    peers.failure().is_none_or(|cause| {
        communicator.abort(&cause);
        false
    })
}

fn mark(device: &Cuda) -> Result<CudaEvent> {
    Ok(device.stream().record_event(Some(CU_EVENT_DEFAULT))?)
}

impl Collectives<Cuda> for Nccl {
    fn all_reduce(&self, data: &mut Matrix<Cuda>) -> Result<()> {
        self.call(|all| all.all_reduce_in_place(data, Reduction::Mean))
    }

    fn reduce_scatter(&self, data: &mut Matrix<Cuda>) -> Result<()> {
        self.call(|all| all.reduce_scatter_in_place(data, Reduction::Mean))
    }

    fn all_gather(&self, data: &mut Matrix<Cuda>) -> Result<()> {
        self.call(|all| all.all_gather_in_place(data))
    }

    fn broadcast(&self, data: &mut Matrix<Cuda>) -> Result<()> {
        self.call(|all| all.broadcast(data, 0))
    }

    fn ready(&self, _data: &mut Matrix<Cuda>) -> Result<()> {
        if self.is_measured.get() {
            let came = mark(&self.device)?;
            if let Some(call) = self.measured.borrow_mut().iter_mut().find(|call| call.came.is_none()) {
                call.came = Some(came);
            }
        }
        self.peers.failure().map_or(Ok(()), |cause| Err(cause.into()))
    }

    fn measure(&self, is_on: bool) {
        self.is_measured.set(is_on);
    }

    fn time(&self) -> Result<Time> {
        let (measured, mut time) = (self.measured.borrow(), Time::default());
        let Some(first) = measured.first() else { return Ok(time) };
        // All times count from the first event.
        let at = |event: &CudaEvent| first.filled.elapsed_ms(event).map(|ms| f64::from(ms) / 1e3);
        let mut free = 0.0;
        for call in measured.iter() {
            let ended = at(&call.ended)?;
            // A call begins when its array is filled and the call before it is done.
            time.busy += (ended - at(&call.filled)?.max(free)).max(0.0);
            let came = call.came.as_ref().map_or(Ok(ended), at)?;
            time.waited += (ended - came).max(0.0);
            free = ended;
        }
        Ok(time)
    }
}

/// After a failure, nothing waits for calls that will not end.
impl Drop for Nccl {
    fn drop(&mut self) {
        if let Some(cause) = self.peers.failure() {
            self.communicator.abort(&cause);
        }
        if let Some((stop, watching)) = self.watch.take() {
            drop(stop);
            let _ = watching.join();
        }
    }
}

fn to_text(id: &Id) -> String {
    id.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_text(text: &str) -> Result<Id> {
    let byte = |at: usize| text.get(at..at + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
    let bytes: Option<[u8; Id::BYTES]> = bytes.and_then(|bytes| bytes.try_into().ok());
    Ok(Id::from_bytes(bytes.ok_or("rank 0 sent no id of NCCL")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_travels_as_text() {
        let id = Id::from_bytes(std::array::from_fn(|at| (3 * at) as u8));
        assert_eq!(from_text(&to_text(&id)).unwrap(), id);
        assert!(from_text("").is_err() && from_text("0g").is_err());
    }
}
