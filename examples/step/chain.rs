//! The chain, written once: layer i reads array i - 1 and writes array i. Each array is dropped as soon as the layer that reads
//! it has been launched. So at most two are alive, as in a forward pass.

use gpucache::prelude::*;

use crate::common::Result;

/// The array of one layer.
pub(crate) type Values<D> = Array<f32, D>;

/// A device, and the work of one layer on it.
pub(crate) trait Machine {
    type Device: Device;

    /// The sources of arrays that are compared on this device.
    const MODES: &'static [Mode];
    /// These, if graphs are compared too.
    const GRAPH_MODES: &'static [Mode];

    fn device(&self) -> &Self::Device;

    /// The device's name on the command line.
    fn name(&self) -> String;

    /// Launches `y = x + 1`, which writes all of `y`.
    fn layer(&self, x: &Values<Self::Device>, y: &mut Values<Self::Device>) -> Result<()>;

    /// Makes the device ready for steps of this mode.
    fn prepare(&self, mode: Mode) -> Result<()>;

    /// Captures the chain over preallocated memory by the driver's own calls, for [`Mode::HandGraph`].
    fn hand_graph(&self, input: &Values<Self::Device>, layers: usize) -> Result<Box<dyn HandGraph>>;
}

/// A graph that a program captured without the cache.
pub(crate) trait HandGraph {
    /// Queues the chain once more, without waiting.
    fn launch(&self) -> Result<()>;

    /// The last array.
    fn output(&self) -> Result<Vec<f32>>;
}

/// The source of a step's arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// From the device, outside every scope.
    Plain,
    /// From the cache of the scope around the step.
    Scoped,
    /// Two preallocated arrays, in turn.
    Hand,
    /// Like `Plain`, but the driver's pool keeps freed memory.
    Pool,
    /// From the cache of a captured scope: the whole step is one graph.
    Captured,
    /// A graph over two preallocated arrays, captured without the cache.
    HandGraph,
}

/// Provides the arrays.
pub(crate) enum Source<'d, D: Device> {
    New { device: &'d D, elements: usize },
    Hand { spare: Vec<Values<D>> },
}

impl<'d, D: Device> Source<'d, D> {
    pub(crate) fn new(device: &'d D, elements: usize) -> Self {
        Self::New { device, elements }
    }

    pub(crate) fn preallocated(device: &'d D, elements: usize) -> Result<Self> {
        Ok(Self::Hand { spare: vec![Values::zeros(device, elements)?, Values::zeros(device, elements)?] })
    }

    fn take(&mut self) -> Result<Values<D>> {
        match self {
            Self::New { device, elements } => unwritten(*device, *elements),
            Self::Hand { spare } => Ok(spare.pop().ok_or("a chain needs no more than two arrays at once")?),
        }
    }

    /// Ends the use of an array. A new one is dropped; a preallocated one waits for its next turn.
    pub(crate) fn done(&mut self, array: Values<D>) {
        match self {
            Self::New { .. } => drop(array),
            Self::Hand { spare } => spare.push(array),
        }
    }
}

/// An array that is not cleared, because its layer writes all of it.
#[allow(unsafe_code)]
fn unwritten<D: Device>(device: &D, elements: usize) -> Result<Values<D>> {
    // SAFETY: `chain` first passes the array to `Machine::layer` as its output. The layer writes every element (its documented
    // contract). f32 has no invalid bit pattern.
    Ok(unsafe { Values::uninit(device, elements)? })
}

/// Launches all layers, without waiting for them. Returns the last array.
pub(crate) fn chain<M: Machine>(
    machine: &M,
    input: &Values<M::Device>,
    layers: usize,
    source: &mut Source<'_, M::Device>,
) -> Result<Values<M::Device>> {
    let mut x = source.take()?;
    machine.layer(input, &mut x)?;
    for _ in 1..layers {
        let mut y = source.take()?;
        machine.layer(&x, &mut y)?;
        source.done(std::mem::replace(&mut x, y));
    }
    Ok(x)
}

/// The same, but the last layer writes into `output`.
pub(crate) fn chain_into<M: Machine>(
    machine: &M,
    input: &Values<M::Device>,
    layers: usize,
    source: &mut Source<'_, M::Device>,
    output: &mut Values<M::Device>,
) -> Result<()> {
    if layers == 1 {
        return machine.layer(input, output);
    }
    let last = chain(machine, input, layers - 1, source)?;
    machine.layer(&last, output)?;
    source.done(last);
    Ok(())
}
