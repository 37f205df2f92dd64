//! Typed arrays over the engine's blocks: shape, typed access, drop.
//!
//! An allocation passes through these files. A constructor in this file takes the dimensions from `shape` and computes the bytes with
//! `extent`; `allocate` offers some constructors as methods of a device. The engine then serves a block, by the plan or otherwise. The
//! elements have a type of `element`. On a host, `host` lends them as slices, and `host/launch` lends them to work on a stream. On
//! CUDA, `cuda` lends them to launches, copies and views. `uses` has arrays as inputs and outputs of captured scopes. `values` and `debug` copy,
//! compare and print arrays, `across` copies them between devices, and `away` copies elements to host memory and back. A drop returns the block to the engine.
//!
//! Invariant: the block of an `Array<T, D>` has room for `len()` values of `T` and lies on a stream of a `D`.
#![allow(unsafe_code)]

mod across;
mod allocate;
mod away;
mod debug;
mod element;
mod extent;
mod host;
mod shape;
pub(crate) mod uses;
mod values;

#[cfg(feature = "cuda")]
mod cuda;

use std::any::TypeId;
use std::marker::PhantomData;
use std::panic::Location;
use std::slice::{from_raw_parts_mut, from_ref};

pub use allocate::Allocate;
pub(crate) use away::{Away, Room};
#[cfg(feature = "nccl")]
pub(crate) use cuda::QueuedWrite;
#[cfg(feature = "cuda")]
pub use cuda::{ArrayView, ArrayViewMut, Graph, KernelArgument, Launch};
pub use element::Element;
pub use host::Arguments;
pub use shape::Shape;

use self::extent::{bytes_of, elements, product, same_len, shortest_period};
use crate::device::Device;
use gpucache_engine::Result;
use gpucache_engine::cache::Block;
use gpucache_engine::device::host_vec;
use gpucache_engine::record::Request;

/// An array of `T` on a device, in row-major order, without strides.
///
/// Inside a scope, its memory comes from the scope's cache; outside, from the device. Nobody else gets the memory before the
/// drop. The drop, on any thread, returns the memory at once to where it came from. Work on the array's stream may still use
/// the memory after the drop: the stream orders the next use of the memory behind that work.
///
/// On a host it derefs to `[T]`, also mutably. On CUDA it derefs to `CudaSlice<T>`, and kernel launches, copies and cuBLAS accept it
/// like a slice.
///
/// ```
/// use gpucache::prelude::*;
///
/// #[cache_scope(train_step)]
/// fn step(host: &Host, input: &Array<f32, Host>) -> gpucache::Result<Array<f32, Host>> {
///     let mut output = Array::zeros(host, input.shape())?;
///     output.iter_mut().zip(input.iter()).for_each(|(y, x)| *y = x * x);
///     Ok(output)
/// }
///
/// let host = Host::new();
/// let input = Array::from_slice(&host, [2, 2], &[1.0, 2.0, 3.0, 4.0])?;
/// assert_eq!(step(&host, &input)?.to_vec()?, [1.0, 4.0, 9.0, 16.0]);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct Array<T, D> {
    pub(crate) block: Block,
    typed: PhantomData<(T, D)>,
}

// The bounds stand on the constructors, each on the line of its name, so that an error message about one shows only that line.
impl<T, D> Array<T, D> {
    /// An array with all bytes zero. The zeros are written on the device's stream.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the size in bytes overflows,
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory), or a failure of the device.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Array::<f32, _>::zeros(&Host::new(), [2, 3])?;
    /// assert_eq!(array.to_vec()?, [0.0; 6]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[rustfmt::skip]
    #[track_caller]
    pub fn zeros(device: &D, shape: impl Shape) -> Result<Self> where T: Element, D: Device {
        let mut array = Self::allocate(device, shape.dims())?;
        array.block.fill(&[0])?;
        Ok(array)
    }

    /// An array of copies of `value`.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Array::full(&Host::new(), [2, 3], 0.5f32)?;
    /// assert_eq!(array.to_vec()?, [0.5; 6]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[rustfmt::skip]
    #[track_caller]
    pub fn full(device: &D, shape: impl Shape, value: T) -> Result<Self> where T: Element, D: Device {
        let mut array = Self::allocate(device, shape.dims())?;
        array.block.fill(shortest_period(bytes_of(from_ref(&value))))?;
        Ok(array)
    }

    /// An array with the contents of `values`, in row-major order.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the number of `values` differs from that of the shape; otherwise as for
    /// [`zeros`](Array::zeros).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Array::from_slice(&Host::new(), [2, 2], &[1, 2, 3, 4])?;
    /// assert_eq!(array[3], 4);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[rustfmt::skip]
    #[track_caller]
    pub fn from_slice(device: &D, shape: impl Shape, values: &[T]) -> Result<Self> where T: Element, D: Device {
        let dims = shape.dims();
        same_len::<T>(dims, values.len())?;
        let mut array = Self::allocate(device, dims)?;
        array.copy_from_slice(values)?;
        Ok(array)
    }

    /// An array whose memory keeps its old contents: often the values of an earlier array, or uninitialized bytes.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    ///
    /// # Safety
    /// Every element must be written, by the host or by work on the device's stream, before anything reads it.
    ///
    /// ```
    /// # #![allow(unsafe_code)]
    /// use gpucache::prelude::*;
    ///
    /// // SAFETY: `fill` writes every element.
    /// let mut array = unsafe { Array::<f32, _>::uninit(&Host::new(), [4])? };
    /// array.fill(1.0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[rustfmt::skip]
    #[inline]
    #[track_caller]
    pub unsafe fn uninit(device: &D, shape: impl Shape) -> Result<Self> where T: Element, D: Device {
        Self::allocate(device, shape.dims())
    }
}

impl<T: Element, D: Device> Array<T, D> {
    /// Serves an allocation that the plan expects inline, so that all values stay in registers.
    #[inline(always)]
    #[track_caller]
    fn allocate(device: &D, dims: &[usize]) -> Result<Self> {
        Self::allocate_at(device, dims, Location::caller())
    }

    /// As [`allocate`](Self::allocate), for the line `site` of the program.
    #[inline(always)]
    pub(crate) fn allocate_at(device: &D, dims: &[usize], site: &'static Location<'static>) -> Result<Self> {
        let Some(elements) = product::<T>(dims) else { return Self::serve_empty(device, dims, site) };
        let bytes = elements * size_of::<T>();
        match Block::planned(device.stream_handle(), dims, bytes) {
            Some(block) => Ok(Array { block, typed: PhantomData }),
            None => Self::serve(device, dims, bytes, site),
        }
    }

    #[inline(never)]
    fn serve(device: &D, dims: &[usize], bytes: usize, site: &'static Location<'static>) -> Result<Self> {
        let (dtype, type_name) = (TypeId::of::<T>(), std::any::type_name::<T>());
        let request = Request { dtype, type_name, dims, bytes, site: Some(site) };
        let refused = |error| Block::refused(error, &request);
        let block = Block::allocate(device.stream_handle(), &request).map_err(refused)?;
        Ok(Array { block, typed: PhantomData })
    }

    /// Serves dimensions whose product overflows, if one of them is zero.
    #[cold]
    #[inline(never)]
    fn serve_empty(device: &D, dims: &[usize], site: &'static Location<'static>) -> Result<Self> {
        Self::serve(device, dims, elements::<T>(dims)? * size_of::<T>(), site)
    }

    /// The dimensions, outermost first.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Host::new().zeros::<f32>([2, 3])?;
    /// assert_eq!(array.shape(), [2, 3]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn shape(&self) -> &[usize] {
        self.block.dims()
    }

    /// The number of elements.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Host::new().zeros::<f32>([2, 3])?;
    /// assert_eq!(array.len(), 6);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        len_of::<T>(&self.block)
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// assert!(Host::new().zeros::<f32>([2, 0])?.is_empty());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of all elements in bytes.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Host::new().zeros::<f32>([2, 3])?;
    /// assert_eq!(array.byte_len(), 24);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn byte_len(&self) -> usize {
        self.block.bytes()
    }

    /// The device with the stream on which the array was allocated.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Host::new().zeros::<f32>([2, 3])?;
    /// let same = array.device().zeros::<f32>(array.shape())?; // on the same stream
    /// assert_eq!(same, array);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn device(&self) -> &D {
        // SAFETY: a handle of type `D` provided the stream of the block, or the home of that stream if it is one of a reservation. Arrays are
        // created only with handles of their own type, and no block moves to a stream of another device.
        unsafe { D::from_stream_handle(self.block.stream().home()) }
    }

    /// Copies the elements to the host, and waits for the copy.
    ///
    /// # Errors
    /// A failure of the device, or of earlier work on its stream. If the work that should have written the array panicked, every
    /// call returns [`is_panic`](crate::Error::is_panic). If the host has too little memory for the copy,
    /// [`is_out_of_memory`](crate::Error::is_out_of_memory).
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Array::full(&Host::new_stream()?, 3, 2u8)?; // written later
    /// assert_eq!(array.to_vec()?, [2, 2, 2]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn to_vec(&self) -> Result<Vec<T>> {
        self.block.stream().check()?;
        let (mut values, len) = (host_vec::<T>(self.len())?, self.len());
        // SAFETY: the vector has room for `len` elements. As bytes they need not be initialized, and nothing else uses the vector
        // until `set_len`. By then `read` has written all `len` elements, from a block of as many, whose elements were
        // written before (the contract of `uninit`). So the bytes are values of `T`.
        unsafe {
            self.block.read(from_raw_parts_mut(values.as_mut_ptr().cast(), len * size_of::<T>()))?;
            values.set_len(len);
        }
        Ok(values)
    }

    /// Overwrites all elements with `values`. The caller may change `values` as soon as this returns.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if `values` has not exactly [`len`](Array::len) elements; a failure of the
    /// device.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let mut array = Host::new().zeros::<u8>(3)?;
    /// array.copy_from_slice(&[1, 2, 3])?;
    /// assert!(array.copy_from_slice(&[1, 2]).unwrap_err().is_invalid_shape());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn copy_from_slice(&mut self, values: &[T]) -> Result<()> {
        same_len::<T>(self.shape(), values.len())?;
        self.block.stream().check()?;
        self.block.write(bytes_of(values))
    }

    /// A copy on the same device and stream. The innermost scope serves its memory, as for any other array.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros); [`is_panic`](crate::Error::is_panic) if work that should have written the array panicked.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let mut array = Array::full(&Host::new(), 2, 1u8)?;
    /// let copy = array.try_clone()?;
    /// array[0] = 5;
    /// assert_eq!(*copy, [1, 1]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[track_caller]
    pub fn try_clone(&self) -> Result<Self> {
        let mut copy = Self::serve(self.device(), self.shape(), self.byte_len(), Location::caller())?;
        copy.block.copy_from(&self.block)?;
        Ok(copy)
    }

    /// The same elements with another shape, without a copy.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the shape does not have exactly [`len`](Array::len) elements.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let array = Host::new().zeros::<f32>([2, 3])?;
    /// let array = array.reshape([3, 2])?;
    /// assert_eq!(array.shape(), [3, 2]);
    /// assert!(array.reshape(7).unwrap_err().is_invalid_shape());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn reshape(mut self, shape: impl Shape) -> Result<Self> {
        // `dims` is called only once: safe code could return another shape the second time.
        let dims = shape.dims();
        same_len::<T>(dims, self.len())?;
        self.block.reshape(dims);
        Ok(self)
    }
}

/// The number of elements in a block of `T`.
fn len_of<T: Element>(block: &Block) -> usize {
    match size_of::<T>() {
        // If the product overflows, a dimension is zero, and so is the wrapping product.
        0 => block.dims().iter().fold(1, |len, dim| len.wrapping_mul(*dim)),
        size => block.bytes() / size,
    }
}
