//! Streams of the host, each with its own thread.

use gpucache::prelude::*;

use crate::common::Result;
use crate::ring::{Machine, Size};

#[derive(Debug)]
pub(crate) struct HostMachine;

impl Machine for HostMachine {
    type Device = Host;
    type Plain = ();

    fn name(&self) -> String {
        "host".to_owned()
    }

    fn new_stream(&self) -> Result<Host> {
        Ok(Host::new_stream()?)
    }

    fn write(&self, stream: &Host, array: &mut Array<f32, Host>, value: f32) -> Result<()> {
        Ok(stream.launch(array, move |array| array.fill(value))?)
    }

    fn read(&self, stream: &Host, sum: &mut Array<f32, Host>, array: &Array<f32, Host>) -> Result<()> {
        let add = |(sum, array): (&mut [f32], &[f32])| sum.iter_mut().zip(array).for_each(|(sum, x)| *sum += x);
        Ok(stream.launch((sum, array), add)?)
    }

    fn plain_streams(&self, _size: Size) -> Result<Option<Vec<()>>> {
        Ok(None)
    }

    fn plain_step(&self, _streams: &mut [()], _size: Size) -> Result<()> {
        Ok(())
    }

    fn plain_sum(&self, _streams: &[()]) -> Result<f32> {
        Ok(0.0)
    }
}
