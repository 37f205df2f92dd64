//! The chain, written once: layer i reads array i - 1 and writes array i. An array is dropped as soon as the layer that reads
//! it has been launched, so that at most two are alive, as in a forward pass.

use gpucache::prelude::*;

use crate::common::Result;

/// The array of one layer.
pub(crate) type Values<D> = Array<f32, D>;

/// A device and what one layer does there.
pub(crate) trait Machine {
    type Device: Device;

    /// The kinds of arrays that are compared on it.
    const MODES: &'static [Mode];

    fn device(&self) -> &Self::Device;

    /// The device as it is named on the command line.
    fn name(&self) -> String;

    /// Launches `y = x + 1`, which writes all of `y`.
    fn layer(&self, x: &Values<Self::Device>, y: &mut Values<Self::Device>) -> Result<()>;

    /// Makes the device ready for steps of this mode.
    fn prepare(&self, mode: Mode) -> Result<()>;
}

/// Where the arrays of a step come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// From the device, outside every scope.
    Plain,
    /// From the cache of the scope around the step.
    Scoped,
    /// Two arrays made beforehand, in turn.
    Hand,
    /// As plain, while the driver's pool keeps what it gets back.
    Pool,
}

/// What hands the arrays out.
pub(crate) enum Source<'d, D: Device> {
    New { device: &'d D, elements: usize },
    Hand { spare: Vec<Values<D>> },
}

impl<'d, D: Device> Source<'d, D> {
    pub(crate) fn new(mode: Mode, device: &'d D, elements: usize) -> Result<Self> {
        Ok(match mode {
            Mode::Plain | Mode::Scoped | Mode::Pool => Self::New { device, elements },
            Mode::Hand => {
                Self::Hand { spare: vec![Values::zeros(device, elements)?, Values::zeros(device, elements)?] }
            }
        })
    }

    fn take(&mut self) -> Result<Values<D>> {
        match self {
            Self::New { device, elements } => unwritten(*device, *elements),
            Self::Hand { spare } => Ok(spare.pop().ok_or("a chain needs no more than two arrays at once")?),
        }
    }

    /// Ends the use of an array: a new one is dropped, one made by hand waits for its next turn.
    pub(crate) fn done(&mut self, array: Values<D>) {
        match self {
            Self::New { .. } => drop(array),
            Self::Hand { spare } => spare.push(array),
        }
    }
}

/// An array that is not cleared, because the layer it is for writes it in full.
#[allow(unsafe_code)]
fn unwritten<D: Device>(device: &D, elements: usize) -> Result<Values<D>> {
    // SAFETY: `chain` gives it to `Machine::layer` as output before anything else, which writes every element (its documented
    // contract); f32 has no invalid bit pattern.
    Ok(unsafe { Values::uninit(device, elements)? })
}

/// One step in its mode: the launches of all layers, without waiting for them. Gives the last array.
pub(crate) fn step<M: Machine>(
    machine: &M,
    mode: Mode,
    input: &Values<M::Device>,
    layers: usize,
    source: &mut Source<'_, M::Device>,
) -> Result<Values<M::Device>> {
    match mode {
        Mode::Scoped => gpucache::cache_scope!(chain, { chain(machine, input, layers, source) }),
        Mode::Plain | Mode::Pool => gpucache::uncached!({ chain(machine, input, layers, source) }),
        Mode::Hand => chain(machine, input, layers, source),
    }
}

fn chain<M: Machine>(
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
