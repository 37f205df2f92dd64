//! A layer in host memory.

use gpucache::prelude::*;
use rayon::prelude::*;

use crate::chain::{HandGraph, Machine, Mode, Values};
use crate::common::Result;

/// Numbers for one thread at a time. For arrays of at most this size, a second thread is not worthwhile.
const PIECE: usize = 1 << 18;

/// The processor and its memory.
#[derive(Debug)]
pub(crate) struct HostMachine {
    device: Host,
}

impl HostMachine {
    /// On the default stream, whose work runs at once, or on a stream of its own, whose work can be captured.
    pub(crate) fn new(graphs: bool) -> Result<Self> {
        Ok(Self { device: if graphs { Host::new_stream()? } else { Host::new() } })
    }
}

impl Machine for HostMachine {
    type Device = Host;

    const MODES: &'static [Mode] = &[Mode::Plain, Mode::Scoped, Mode::Hand];
    const GRAPH_MODES: &'static [Mode] = &[Mode::Plain, Mode::Scoped, Mode::Hand, Mode::Captured];

    fn device(&self) -> &Host {
        &self.device
    }

    fn name(&self) -> String {
        "host".to_owned()
    }

    fn layer(&self, x: &Values<Host>, y: &mut Values<Host>) -> Result<()> {
        self.device.launch_kernel((x, y), |(x, y)| layer(x, y))?;
        Ok(())
    }

    fn prepare(&self, _mode: Mode) -> Result<()> {
        Ok(())
    }

    fn hand_graph(&self, _input: &Values<Host>, _layers: usize) -> Result<Box<dyn HandGraph>> {
        Err("a host has no driver that captures graphs".into())
    }
}

fn layer(x: &[f32], y: &mut [f32]) {
    if x.len() <= PIECE {
        add_one(x, y);
    } else {
        x.par_chunks(PIECE).zip(y.par_chunks_mut(PIECE)).for_each(|(x, y)| add_one(x, y));
    }
}

fn add_one(x: &[f32], y: &mut [f32]) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = x + 1.0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_writes_every_element() {
        let machine = HostMachine::new(false).unwrap();
        for elements in [1, PIECE, 2 * PIECE + 3] {
            let x: Vec<f32> = (0..elements).map(|i| (i % 1000) as f32).collect();
            let x = Values::from_slice(machine.device(), elements, &x).unwrap();
            let mut y = Values::full(machine.device(), elements, f32::NAN).unwrap();
            machine.layer(&x, &mut y).unwrap();
            assert!(x.iter().zip(y.iter()).all(|(x, y)| *y == x + 1.0), "{elements} elements");
        }
    }
}
