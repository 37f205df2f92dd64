//! Kernel launches that know their stream, and so need no events for arrays of the same stream.
#![allow(unsafe_code)]

use cudarc::driver::{CudaFunction, DeviceRepr, LaunchArgs, LaunchConfig, PushKernelArg};

use super::view::ArrayView;

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
    /// launch.arg(&mut output).arg(&input).arg(&factor).arg(&len);
    /// // SAFETY: these are the kernel's arguments, and it stays within both arrays.
    /// unsafe { launch.launch(LaunchConfig::for_num_elems(len))? };
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn launch_builder<'a>(&'a self, function: &'a CudaFunction) -> Launch<'a> {
        Launch {
            arguments: self.stream().launch_builder(function),
            device: self,
            is_refused: false,
            failure: None,
            written: Vec::new(),
        }
    }
}

/// A kernel's arguments, in order, and the stream that it is launched on. [`Cuda::launch_builder`] creates it.
///
/// ```no_run
/// use gpucache::{launch::Launch, prelude::*};
///
/// // kernels with an input, an output and a length
/// fn arguments<'a>(launch: &mut Launch<'a>, x: &'a Array<f32, Cuda>, y: &'a mut Array<f32, Cuda>, n: &'a u32) {
///     launch.arg(x).arg(y).arg(n);
/// }
/// ```
#[derive(Debug)]
pub struct Launch<'a> {
    arguments: LaunchArgs<'a>,
    device: &'a Cuda,
    /// Whether an array could not be ordered. Its address is among the arguments nevertheless, so nothing may be launched.
    is_refused: bool,
    /// The first error of an array, until a launch returns it.
    failure: Option<Error>,
    /// Arrays of this stream that the kernel writes, if the context has several streams.
    written: Vec<&'a Block>,
}

impl<'a> Launch<'a> {
    /// Adds the next argument of the kernel. The argument is one of these:
    ///
    /// - `&array`, which the kernel reads;
    /// - `&mut array`, which the kernel writes;
    /// - `&view`, a part of an array that the kernel reads;
    /// - a reference to a number, or to another type that is `DeviceRepr`.
    ///
    /// An array of this stream costs no call of the driver. An array of another stream costs an event, unless an earlier event
    /// already stands for that work.
    ///
    /// ```no_run
    /// use gpucache::{launch::Launch, prelude::*};
    ///
    /// // a kernel with an input, an output, a factor and a part of a table
    /// fn arguments<'a>(launch: &mut Launch<'a>, x: &'a Array<f32, Cuda>, y: &'a mut Array<f32, Cuda>, factor: &'a f32) {
    ///     launch.arg(x).arg(y).arg(factor);
    /// }
    /// ```
    #[inline]
    pub fn arg<A: KernelArgument<'a>>(&mut self, argument: A) -> &mut Self {
        argument.push(self);
        self
    }

    /// Adds any argument that cudarc's own builder accepts, such as a `CudaSlice` or a `CudaViewMut`. cudarc orders it by its events.
    ///
    /// ```no_run
    /// use gpucache::{launch::Launch, prelude::*};
    ///
    /// fn scaling<'a>(launch: &mut Launch<'a>, factor: &'a f32, weights: &'a gpucache::cudarc::driver::CudaSlice<f32>) {
    ///     launch.arg(factor).cudarc_arg(weights);
    /// }
    /// ```
    #[inline]
    pub fn cudarc_arg<A>(&mut self, argument: A) -> &mut Self
    where
        LaunchArgs<'a>: PushKernelArg<A>,
    {
        self.arguments.arg(argument);
        self
    }

    /// Orders the launch behind the writes of an array, and later writes behind the launch.
    #[inline]
    fn read<T: Element>(&mut self, array: &Array<T, Cuda>) {
        let ordered = array.block.read_on(self.device.stream_handle());
        self.note(ordered);
    }

    /// Notes whether an array could be ordered.
    #[inline]
    fn note(&mut self, ordered: Result<()>) {
        if let Err(error) = ordered {
            self.is_refused = true;
            self.failure.get_or_insert(error);
        }
    }

    /// The error of a launch with an array that could not be ordered.
    #[cold]
    fn refusal(&mut self) -> Error {
        let again = || {
            let why = "an array among its arguments could not be ordered, as the first launch said";
            Error::unavailable("this launch builder", why, "make another one by `launch_builder`")
        };
        self.failure.take().unwrap_or_else(again)
    }

    /// Launches the kernel.
    ///
    /// # Errors
    /// A failure of the driver, or a failure to order an array. In the latter case nothing is launched, however often this is called: make another
    /// `Launch`.
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
    ///     unsafe { gpu.launch_builder(kernel).arg(y).arg(&n).launch(LaunchConfig::for_num_elems(n)) }
    /// }
    /// ```
    #[inline]
    pub unsafe fn launch(&mut self, config: LaunchConfig) -> Result<()> {
        if self.is_refused {
            return Err(self.refusal());
        }
        self.device.stream_handle().check_thread()?;
        self.device.0.take_kept(self.device.stream().context());
        let failed = |error| self.device.0.failure("a launch", error);
        // SAFETY: the caller promises what cudarc's `launch` requires: the arguments are the kernel's, and the kernel stays
        // within its arrays. Each argument is a reference, borrowed for `'a`, to the pointer of an array that is
        // borrowed as long.
        unsafe { self.arguments.launch(config) }.map_err(failed)?;
        self.device.stream_handle().check_thread()?;
        self.written.iter().for_each(|block| block.note_write());
        Ok(())
    }
}

/// The arguments of [`Launch::arg`]: references to arrays, views and numbers.
///
/// ```no_run
/// use gpucache::{launch::{KernelArgument, Launch}, prelude::*};
///
/// fn both<'a>(launch: &mut Launch<'a>, one: impl KernelArgument<'a>, other: impl KernelArgument<'a>) {
///     launch.arg(one).arg(other);
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no argument of a kernel; pass `&array`, `&mut array`, `&view` or a reference to a number, \
        and cudarc's own slices by `cudarc_arg`",
    label = "not an argument of a kernel"
)]
pub trait KernelArgument<'a> {
    /// Adds the argument.
    #[doc(hidden)]
    fn push(self, launch: &mut Launch<'a>);
}

#[diagnostic::do_not_recommend]
impl<'a, 'b: 'a, T: DeviceRepr> KernelArgument<'a> for &'b T {
    #[inline]
    fn push(self, launch: &mut Launch<'a>) {
        launch.arguments.arg(self);
    }
}

impl<'a, 'b: 'a, T: Element> KernelArgument<'a> for &'b Array<T, Cuda> {
    #[inline]
    fn push(self, launch: &mut Launch<'a>) {
        launch.read(self);
        launch.arguments.arg(self.block.address_ref());
    }
}

impl<'a, 'b: 'a, T: Element> KernelArgument<'a> for &'b mut Array<T, Cuda> {
    #[inline]
    fn push(self, launch: &mut Launch<'a>) {
        let stream = launch.device.stream_handle();
        let ordered = self.block.write_on(stream);
        launch.note(ordered);
        if self.block.stream().queue() == stream.queue() && launch.device.stream().context().is_in_multi_stream_mode() {
            launch.written.push(&self.block);
        }
        launch.arguments.arg(self.block.address_ref());
    }
}

impl<'a, 'b: 'a, 'c: 'b, T: Element> KernelArgument<'a> for &'b ArrayView<'c, T> {
    #[inline]
    fn push(self, launch: &mut Launch<'a>) {
        launch.read(self.array);
        launch.arguments.arg(&self.address);
    }
}
