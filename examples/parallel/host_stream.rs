//! Collectives of ranks on the host. Work on a second stream of the host brings the numbers to the other ranks and waits for the result,
//! while the rank's own thread computes on.

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

/// Collectives on the arrays of one stream of the host.
pub(crate) struct HostStream {
    peers: Arc<dyn Peers>,
    stream: Host,
    done: Receiver<Done>,
    report: Sender<Done>,
    time: Cell<Time>,
}

/// One call that has ended.
struct Done {
    began: Instant,
    ended: Instant,
    outcome: Outcome<()>,
}

impl HostStream {
    /// # Errors
    /// If the system has no thread for the stream.
    pub(crate) fn new(peers: Arc<dyn Peers>) -> Result<Self> {
        let (report, done) = channel();
        Ok(Self { peers, stream: Host::new_stream()?, done, report, time: Cell::default() })
    }

    /// Queues a call that sends the numbers of `part`, and replaces all of `data` by the result.
    fn queue(&self, data: &mut Matrix<Host>, part: Range<usize>, by: Join) -> Result<()> {
        let (peers, report) = (self.peers.clone(), self.report.clone());
        let work = move |data: &mut [f32]| {
            let began = Instant::now();
            let outcome = exchange(&*peers, data, part, by);
            // If nobody receives it, the training has ended.
            let _ = report.send(Done { began, ended: Instant::now(), outcome });
        };
        Ok(self.stream.launch(data, work)?)
    }
}

/// Sends the numbers of `part`, and replaces all of `data` by the result.
pub(crate) fn exchange(peers: &dyn Peers, data: &mut [f32], part: Range<usize>, by: Join) -> Outcome<()> {
    let numbers = data.get(part).ok_or("a part of a rank lies outside of its array")?;
    let joined = peers.join(numbers.to_vec(), by)?;
    if joined.len() != data.len() {
        let (found, expected) = (joined.len(), data.len());
        return Err(format!(
            "all ranks together sent {found} numbers for {expected}: start them with the same options"
        ));
    }
    data.copy_from_slice(&joined);
    Ok(())
}

impl Collectives<Host> for HostStream {
    fn all_reduce(&self, data: &mut Matrix<Host>) -> Result<()> {
        let all = 0..data.len();
        self.queue(data, all, Join::Mean)
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

    fn ready(&self) -> Result<()> {
        let came = Instant::now();
        let done = self.done.recv()?;
        let Time { busy, waited } = self.time.get();
        self.time.set(Time {
            busy: busy + done.ended.duration_since(done.began).as_secs_f64(),
            waited: waited + done.ended.saturating_duration_since(came.max(done.began)).as_secs_f64(),
        });
        Ok(done.outcome?)
    }

    fn time(&self) -> Result<Time> {
        Ok(self.time.get())
    }
}
