//! Typed arrays over the engine's blocks: shape, typed access, drop.
//!
//! Invariant: the block of an `Array<T, D>` has room for `len()` values of `T` and lies on a stream of a `D`.
#![allow(unsafe_code)]

mod address;
mod allocate;
mod away;
mod debug;
mod element;
mod extent;
mod host;
mod shape;
mod values;

#[cfg(feature = "cuda")]
mod cuda;

use std::any::TypeId;
use std::marker::PhantomData;
use std::panic::Location;
use std::slice::{from_raw_parts_mut, from_ref};

pub use allocate::Allocate;
pub(crate) use away::{Away, Room};
#[cfg(feature = "cuda")]
pub use cuda::{ArrayView, Graph, Launch};
pub use element::Element;
pub use host::Arguments;
pub use shape::Shape;

use self::extent::{bytes_of, elements, product, same_len, shortest_period};
use crate::device::Device;
use gpucache_engine::Result;
use gpucache_engine::cache::Block;
use gpucache_engine::record::Request;

/// An array of `T` on a device, in row-major order, without strides.
///
/// Allocated inside a scope it comes from the scope's cache, outside from the device. A drop gives the block back to
/// where it came from at once, on any thread; until then nobody else gets it. Work that is on the array's stream may
/// still use the memory then: the next life is ordered behind it by the same stream.
///
/// On a host it derefs to `[T]`, mutably too; on CUDA to `CudaSlice<T>`, and it is accepted by kernel launches, copies,
/// and cuBLAS as such.
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
    block: Block,
    typed: PhantomData<(T, D)>,
}

// The bounds stand on the constructors, each in the line of its name: so an error about one shows that line alone.
impl<T, D> Array<T, D> {
    /// An array whose every byte is zero, written on the device's stream.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if the bytes overflow,
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
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) too if `values` are not as many as the shape says; otherwise as for
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

    /// An array with whatever its memory contains: often the values of an earlier array, or nothing initialised at all.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    ///
    /// # Safety
    /// Every element is written, by the host or by work on the device's stream, before anything reads it.
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
    /// Serves what a plan expects in line, where all stays in registers.
    #[inline(always)]
    #[track_caller]
    fn allocate(device: &D, dims: &[usize]) -> Result<Self> {
        let Some(elements) = product::<T>(dims) else { return Self::serve_empty(device, dims, Location::caller()) };
        let bytes = elements * size_of::<T>();
        match Block::planned(device.stream_handle(), dims, bytes) {
            Some(block) => Ok(Array { block, typed: PhantomData }),
            None => Self::serve(device, dims, bytes, Location::caller()),
        }
    }

    #[inline(never)]
    fn serve(device: &D, dims: &[usize], bytes: usize, site: &'static Location<'static>) -> Result<Self> {
        const {
            assert!(
                align_of::<T>() as u64 <= Block::ALIGNMENT,
                "an element is aligned to at most 256 bytes, as blocks are"
            )
        };
        let (dtype, type_name) = (TypeId::of::<T>(), std::any::type_name::<T>());
        let request = Request { dtype, type_name, dims, bytes, site: Some(site) };
        let refused = |error| Block::refused(error, &request);
        let block = Block::allocate(device.stream_handle(), &request).map_err(refused)?;
        Ok(Array { block, typed: PhantomData })
    }

    /// Serves dimensions whose product overflows, if there is a zero among them.
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

    /// The device and stream it was allocated on.
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
        // SAFETY: the block lies on a stream that a handle of type `D` gave out, as arrays are made from handles of
        // their own type alone, and no block changes its stream for that of another device.
        unsafe { D::from_stream_handle(self.block.stream()) }
    }

    /// Copies the elements to the host, and waits for them.
    ///
    /// # Errors
    /// A failure of the device, or of work on its stream before; [`is_panic`](crate::Error::is_panic) as often as it is asked for
    /// if the work that was to write the array panicked.
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
        let (mut values, len) = (Vec::<T>::with_capacity(self.len()), self.len());
        // SAFETY: the vector has room for `len` elements, which as bytes need not be initialised, and is not used
        // otherwise until they are read. `read` then has written all `len` of them, from a block of as many, whose
        // elements were written (the contract of `uninit`): the bytes are values of `T`.
        unsafe {
            self.block.read(from_raw_parts_mut(values.as_mut_ptr().cast(), len * size_of::<T>()))?;
            values.set_len(len);
        }
        Ok(values)
    }

    /// Overwrites all elements with `values`. They may be changed as soon as this returns.
    ///
    /// # Errors
    /// [`is_invalid_shape`](crate::Error::is_invalid_shape) if they are not exactly [`len`](Array::len); a failure of the device.
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

    /// A copy on the same device and stream, allocated like any other array: from the innermost scope.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros); [`is_panic`](crate::Error::is_panic) if work that was to write the array has panicked.
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

    /// The same elements under another shape; nothing moves.
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
        // Asked once: what safe code answers the second time may be another shape.
        let dims = shape.dims();
        same_len::<T>(dims, self.len())?;
        self.block.reshape(dims);
        Ok(self)
    }
}

/// The elements of a block of `T`.
fn len_of<T: Element>(block: &Block) -> usize {
    match size_of::<T>() {
        // A product that overflows has a zero in it.
        0 => block.dims().iter().fold(1, |len, dim| len.wrapping_mul(*dim)),
        size => block.bytes() / size,
    }
}
