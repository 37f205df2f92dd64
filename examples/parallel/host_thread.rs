//! Collectives of ranks on the host. A second thread of each rank brings the numbers to the other ranks and waits for the result, while the
//! rank's own thread computes on.
//!
//! The ranks of a process share the host's memory. So no stream of gpucache waits for another rank here. Free memory of one rank may
//! serve another one, whose stream then waits for the work of the first. Two ranks could wait for each other.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use gpucache::prelude::*;

use crate::collectives::{Collectives, Time};
use crate::common::Result;
use crate::gpt::compute::Matrix;
use crate::peers::{Join, Outcome, Peers};

/// Collectives on arrays of the host.
pub(crate) struct HostThread {
    peers: Arc<dyn Peers>,
    calls: Sender<(Vec<f32>, Join)>,
    done: Receiver<Done>,
    time: Cell<Time>,
}

/// One call that has ended.
struct Done {
    began: Instant,
    ended: Instant,
    outcome: Outcome<Arc<[f32]>>,
}

impl HostThread {
    /// # Errors
    /// If the system has no thread.
    pub(crate) fn new(peers: Arc<dyn Peers>) -> Result<Self> {
        let (calls, called) = channel();
        let (report, done) = channel();
        let others = peers.clone();
        let name = format!("rank {} communicates", peers.rank());
        // It ends with the sender of its calls. A call that waits for other ranks ends with their failure.
        std::thread::Builder::new().name(name).spawn(move || serve(&*others, &called, &report))?;
        Ok(Self { peers, calls, done, time: Cell::default() })
    }

    fn queue(&self, data: &Matrix<Host>, part: Range<usize>, by: Join) -> Result<()> {
        Ok(self.calls.send((part_of(data, part)?.to_vec(), by))?)
    }
}

fn serve(peers: &dyn Peers, called: &Receiver<(Vec<f32>, Join)>, report: &Sender<Done>) {
    for (numbers, by) in called {
        let began = Instant::now();
        let outcome = peers.join(numbers, by);
        if report.send(Done { began, ended: Instant::now(), outcome }).is_err() {
            return;
        }
    }
}

fn part_of(numbers: &[f32], part: Range<usize>) -> Outcome<&[f32]> {
    numbers.get(part).ok_or_else(|| "a part of a rank lies outside of its array".to_owned())
}

/// Replaces all of `data` by the result of a call.
fn replace(data: &mut [f32], result: &[f32]) -> Outcome<()> {
    if result.len() != data.len() {
        let (found, expected) = (result.len(), data.len());
        return Err(format!(
            "all ranks together sent {found} numbers for {expected}: start them with the same options"
        ));
    }
    data.copy_from_slice(result);
    Ok(())
}

/// Sends the numbers of `part`, waits, and replaces all of `data` by the result.
#[cfg(feature = "cuda")]
pub(crate) fn exchange(peers: &dyn Peers, data: &mut [f32], part: Range<usize>, by: Join) -> Outcome<()> {
    let result = peers.join(part_of(data, part)?.to_vec(), by)?;
    replace(data, &result)
}

impl Collectives<Host> for HostThread {
    fn all_reduce(&self, data: &mut Matrix<Host>) -> Result<()> {
        self.queue(data, 0..data.len(), Join::Mean)
    }

    fn reduce_scatter(&self, data: &mut Matrix<Host>) -> Result<()> {
        self.all_reduce(data)
    }

    fn all_gather(&self, data: &mut Matrix<Host>) -> Result<()> {
        let part = data.len() / self.peers.ranks();
        let start = part * self.peers.rank();
        self.queue(data, start..start + part, Join::Concatenation)
    }

    fn broadcast(&self, data: &mut Matrix<Host>) -> Result<()> {
        let sent = if self.peers.rank() == 0 { data.len() } else { 0 };
        self.queue(data, 0..sent, Join::Concatenation)
    }

    fn ready(&self, data: &mut Matrix<Host>) -> Result<()> {
        let came = Instant::now();
        let done = self.done.recv()?;
        let Time { busy, waited } = self.time.get();
        self.time.set(Time {
            busy: busy + done.ended.duration_since(done.began).as_secs_f64(),
            waited: waited + done.ended.saturating_duration_since(came.max(done.began)).as_secs_f64(),
        });
        Ok(replace(data, &done.outcome?)?)
    }

    fn time(&self) -> Result<Time> {
        Ok(self.time.get())
    }
}
