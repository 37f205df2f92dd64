//! Collectives of GPUs through host memory, for comparisons and where NCCL is missing. Each call waits for the copies to the host and back.
#![cfg(feature = "cuda")]

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use gpucache::prelude::*;

use crate::collectives::{Collectives, Time};
use crate::common::Result;
use crate::gpt::compute::Matrix;
use crate::host_thread::exchange;
use crate::peers::{Join, Peers};

/// Collectives on arrays of any device.
pub(crate) struct Staged {
    peers: Arc<dyn Peers>,
    seconds: Cell<f64>,
}

impl Staged {
    pub(crate) fn new(peers: Arc<dyn Peers>) -> Self {
        Self { peers, seconds: Cell::new(0.0) }
    }

    fn run<D: Device>(&self, data: &mut Matrix<D>, part: Range<usize>, by: Join) -> Result<()> {
        let began = Instant::now();
        let mut numbers = data.to_vec()?;
        exchange(&*self.peers, &mut numbers, part, by)?;
        data.copy_from_slice(&numbers)?;
        self.seconds.set(self.seconds.get() + began.elapsed().as_secs_f64());
        Ok(())
    }
}

impl<D: Device> Collectives<D> for Staged {
    fn all_reduce(&self, data: &mut Matrix<D>) -> Result<()> {
        let all = 0..data.len();
        self.run(data, all, Join::Mean)
    }

    fn reduce_scatter(&self, data: &mut Matrix<D>) -> Result<()> {
        self.all_reduce(data)
    }

    fn all_gather(&self, data: &mut Matrix<D>) -> Result<()> {
        let part = data.len() / self.peers.ranks();
        let start = part * self.peers.rank();
        self.run(data, start..start + part, Join::Concatenation)
    }

    fn broadcast(&self, data: &mut Matrix<D>) -> Result<()> {
        let sent = if self.peers.rank() == 0 { data.len() } else { 0 };
        self.run(data, 0..sent, Join::Concatenation)
    }

    fn ready(&self, _data: &mut Matrix<D>) -> Result<()> {
        Ok(())
    }

    fn time(&self) -> Result<Time> {
        Ok(Time { busy: self.seconds.get(), waited: self.seconds.get() })
    }
}
