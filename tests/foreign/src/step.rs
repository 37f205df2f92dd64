//! `step`: a loop like that of a training step. Once it is warm, gpucache makes no allocation call to the driver.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

use crate::report::{Outcome, Report, ensure};
use crate::slices::{check, pattern};
use crate::{driver, front_end};

const WARM_UP: u32 = 20;
const STEPS: u32 = 20;
const LENGTH: usize = 10_000;
/// The elements of each layer's scratch arrays.
const SCRATCH: [usize; 5] = [100, 70_000, 3, 4096, 25_000];

/// The streams to work on. From the first stream that cudarc makes, it orders slices by events, so that stream comes last.
const STREAMS: [&str; 3] = ["default_stream", "per_thread_stream", "own_stream"];

/// One parameter for each layer, on the device, and its expected value.
struct Model {
    stream: Arc<CudaStream>,
    parameters: Vec<CudaSlice<u32>>,
    expected: Vec<Vec<u32>>,
}

impl Model {
    fn new(stream: Arc<CudaStream>) -> Outcome<Model> {
        let expected: Vec<Vec<u32>> = (0..SCRATCH.len()).map(|layer| pattern(layer as u32, LENGTH)).collect();
        let parameters = expected.iter().map(|elements| stream.clone_htod(elements));
        Ok(Model { parameters: parameters.collect::<Result<_, _>>()?, stream, expected })
    }

    /// A layer's activation is the one before, with the first half of the layer's parameter in front.
    fn forward(&self, input: CudaSlice<u32>) -> Outcome<Vec<CudaSlice<u32>>> {
        let mut activations = vec![input];
        for (parameter, scratch) in self.parameters.iter().zip(SCRATCH) {
            let scratch = self.stream.alloc_zeros::<u32>(scratch)?;
            let mut next = activations[activations.len() - 1].try_clone()?;
            self.stream.memcpy_dtod(&parameter.slice(..LENGTH / 2), &mut next.slice_mut(..LENGTH / 2))?;
            drop(scratch);
            activations.push(next);
        }
        Ok(activations)
    }

    /// A layer's parameter becomes the gradient: the part behind the activation's first half, in front of zeros.
    fn backward(&mut self, mut activations: Vec<CudaSlice<u32>>) -> Outcome<()> {
        for parameter in self.parameters.iter_mut().rev() {
            let activation = activations.pop().ok_or("an activation for each layer")?;
            let mut gradient = self.stream.alloc_zeros::<u32>(LENGTH)?;
            self.stream.memcpy_dtod(&activation.slice(LENGTH / 2..), &mut gradient.slice_mut(..LENGTH / 2))?;
            self.stream.memcpy_dtod(&gradient, parameter)?;
        }
        Ok(())
    }

    /// The same on the host. Returns the last activation.
    fn expect(&mut self, mut activation: Vec<u32>) -> Vec<u32> {
        for parameter in &mut self.expected {
            activation[..LENGTH / 2].copy_from_slice(&parameter[..LENGTH / 2]);
            parameter[..LENGTH / 2].copy_from_slice(&activation[LENGTH / 2..]);
            parameter[LENGTH / 2..].fill(0);
        }
        activation
    }

    fn train(&mut self, step: u32) -> Outcome<()> {
        let input = pattern(step, LENGTH);
        let expected = self.expect(input.clone());
        let found = front_end::scoped(|| {
            let activations = self.forward(self.stream.clone_htod(&input)?)?;
            let last = self.stream.clone_dtoh(&activations[SCRATCH.len()])?;
            self.backward(activations).map(|()| last)
        })?;
        ensure(found == expected, || format!("the last activation of step {step}"))
    }

    fn check(&self) -> Outcome<()> {
        for (layer, (parameter, expected)) in self.parameters.iter().zip(&self.expected).enumerate() {
            ensure(self.stream.clone_dtoh(parameter)? == *expected, || format!("the parameter of layer {layer}"))?;
        }
        Ok(())
    }
}

/// The allocation calls that the driver gets in warm steps on a stream.
fn warm_allocations(stream: Arc<CudaStream>) -> Outcome<u64> {
    let mut model = Model::new(stream)?;
    (0..WARM_UP).try_for_each(|step| model.train(step))?;
    let before = driver::allocations()?;
    (WARM_UP..WARM_UP + STEPS).try_for_each(|step| model.train(step))?;
    let asked = driver::allocations()? - before;
    model.check()?;
    Ok(asked)
}

fn stream(context: &Arc<CudaContext>, name: &str) -> Outcome<Arc<CudaStream>> {
    Ok(match name {
        "default_stream" => context.default_stream(),
        "per_thread_stream" => context.per_thread_stream(),
        _ => context.new_stream()?,
    })
}

pub(crate) fn run() -> Outcome {
    let context = CudaContext::new(0)?;
    let mut report = Report::default();
    for name in STREAMS {
        let asked = warm_allocations(stream(&context, name)?)?;
        let slices = u64::from(STEPS) * (1 + 3 * SCRATCH.len() as u64);
        let expected = if front_end::IS_SERVING { 0 } else { slices };
        ensure(asked == expected, || format!("{asked} allocations of the driver on {name}, not {expected}"))?;
        report = report.number(name, asked);
    }
    let stream = context.default_stream();
    check(&stream, &stream.clone_htod(&pattern(1, LENGTH))?, 1)?;
    context.check_err()?;
    front_end::add_to(report)
}
