//! Kernel launches that know their stream, and so need no events for arrays of the same stream.
#![allow(unsafe_code)]

use cudarc::driver::{CudaFunction, LaunchArgs, LaunchConfig, PushKernelArg};

use crate::array::{Array, Element};
use crate::device::{Cuda, Device};
use gpucache_engine::cache::Block;
use gpucache_engine::{Error, Result};

impl Cuda {
    /// Begins a launch of `function` on this stream.
    ///
    /// Like cudarc's own builder, it orders the kernel behind other streams' uses of its arrays, and later uses by other streams
    /// behind the kernel. cudarc's builder cannot tell an array on which stream the array will be used. So once a context has
    /// several streams, each array records and waits for events. This builder does so only for arrays of other streams, with one
    /// event for all work on a stream.
    ///
    /// ```no_run
    /// # #![allow(unsafe_code)]
    /// use cudarc::driver::LaunchConfig;
    /// use gpucache::prelude::*;
    ///
    /// # fn run(gpu: &Cuda, scale: &cudarc::driver::CudaFunction) -> gpucache::Result<()> {
    /// let input = Array::from_slice(gpu, 3, &[1.0f32, 2.0, 3.0])?;
    /// let mut output = Array::<f32, _>::zeros(gpu, 3)?;
    /// let (factor, len) = (2.0f32, 3u32);
    /// let mut launch = gpu.launch_builder(scale);
    /// launch.array_mut(&mut output).array(&input).arg(&factor).arg(&len);
    /// // SAFETY: these are the kernel's arguments, and it stays within both arrays.
    /// unsafe { launch.launch(LaunchConfig::for_num_elems(len))? };
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn launch_builder<'a>(&'a self, function: &'a CudaFunction) -> Launch<'a> {
        Launch { arguments: self.stream().launch_builder(function), device: self, failure: None, written: Vec::new() }
    }
}

/// A kernel's arguments, in order, and the stream that it is launched on. [`Cuda::launch_builder`] creates it.
///
/// ```no_run
/// use gpucache::{launch::Launch, prelude::*};
///
/// // kernels with an input, an output and a length
/// fn arguments<'a>(launch: &mut Launch<'a>, x: &'a Array<f32, Cuda>, y: &'a mut Array<f32, Cuda>, n: &'a u32) {
///     launch.array(x).array_mut(y).arg(n);
/// }
/// ```
#[derive(Debug)]
pub struct Launch<'a> {
    arguments: LaunchArgs<'a>,
    device: &'a Cuda,
    /// The error of the first array that could not be ordered.
    failure: Option<Error>,
    /// Arrays of this stream that the kernel writes, if the context has several streams.
    written: Vec<&'a Block>,
}

impl<'a> Launch<'a> {
    /// Adds an array that the kernel reads.
    ///
    /// ```no_run
    /// use gpucache::{launch::Launch, prelude::*};
    ///
    /// fn reading<'a>(launch: &mut Launch<'a>, x: &'a Array<f32, Cuda>, y: &'a Array<f32, Cuda>) {
    ///     launch.array(x).array(y);
    /// }
    /// ```
    #[inline]
    pub fn array<'b: 'a, T: Element>(&mut self, array: &'b Array<T, Cuda>) -> &mut Self {
        let ordered = array.block.read_on(self.device.stream_handle());
        self.failure = self.failure.take().or(ordered.err());
        self.arguments.arg(array.block.address_ref());
        self
    }

    /// Adds an array that the kernel writes.
    ///
    /// ```no_run
    /// use gpucache::{launch::Launch, prelude::*};
    ///
    /// fn writing<'a>(launch: &mut Launch<'a>, x: &'a Array<f32, Cuda>, y: &'a mut Array<f32, Cuda>) {
    ///     launch.array(x).array_mut(y);
    /// }
    /// ```
    #[inline]
    pub fn array_mut<'b: 'a, T: Element>(&mut self, array: &'b mut Array<T, Cuda>) -> &mut Self {
        let stream = self.device.stream_handle();
        let ordered = array.block.write_on(stream);
        self.failure = self.failure.take().or(ordered.err());
        if array.block.stream().queue() == stream.queue() && self.device.stream().context().is_in_multi_stream_mode() {
            self.written.push(&array.block);
        }
        self.arguments.arg(array.block.address_ref());
        self
    }

    /// Adds any other argument that cudarc's builder accepts: a number, a slice, a view.
    ///
    /// ```no_run
    /// use gpucache::{launch::Launch, prelude::*};
    ///
    /// fn scaling<'a>(launch: &mut Launch<'a>, factor: &'a f32, weights: &'a gpucache::cudarc::driver::CudaSlice<f32>) {
    ///     launch.arg(factor).arg(weights);
    /// }
    /// ```
    #[inline]
    pub fn arg<A>(&mut self, argument: A) -> &mut Self
    where
        LaunchArgs<'a>: PushKernelArg<A>,
    {
        self.arguments.arg(argument);
        self
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// A failure of the driver, or a failure to order an array. In the latter case nothing was launched.
    ///
    /// # Safety
    /// The arguments must be those that the kernel declares, in order and type. The kernel must stay within its arrays, and write
    /// only those that were passed to be written.
    ///
    /// ```no_run
    /// use gpucache::cudarc::driver::{CudaFunction, LaunchConfig};
    /// use gpucache::prelude::*;
    ///
    /// /// # Safety
    /// /// The kernel has the arguments `(float *y, unsigned n)`, and writes `n` elements at most.
    /// unsafe fn fill(kernel: &CudaFunction, y: &mut Array<f32, Cuda>) -> gpucache::Result<()> {
    ///     let (gpu, n) = (y.device().clone(), y.len() as u32);
    ///     // SAFETY: these are the kernel's arguments, as the caller promises.
    ///     unsafe { gpu.launch_builder(kernel).array_mut(y).arg(&n).launch(LaunchConfig::for_num_elems(n)) }
    /// }
    /// ```
    #[inline]
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<()> {
        if let Some(error) = self.failure.take() {
            return Err(error);
        }
        let failed = |error| Error::device_failure(format_args!("{:?}", self.device), "a launch", error);
        // SAFETY: the caller promises what cudarc's `launch` requires: the arguments are the kernel's, and the kernel stays
        // within its arrays. Each argument is a reference, borrowed for `'a`, to the pointer of an array that is
        // borrowed as long.
        unsafe { self.arguments.launch(config) }.map_err(failed)?;
        self.written.iter().for_each(|block| block.note_write());
        Ok(())
    }
}
