//! Typed arrays over the engine's blocks: shape, typed access, drop.
//!
//! Invariant: the block of an `Array<T, D>` has room for `len()` values of `T` and lies on a stream of a `D`.
#![allow(unsafe_code)]

mod allocate;
mod debug;
mod element;
mod host;
mod shape;
mod values;

#[cfg(feature = "cuda")]
mod cuda;

use std::any::TypeId;
use std::marker::PhantomData;
use std::slice::{from_raw_parts, from_raw_parts_mut};

pub use allocate::Allocate;
#[cfg(feature = "cuda")]
pub use cuda::{ArrayView, Graph, Launch};
pub use element::Element;
pub use host::Arguments;
pub use shape::Shape;

use crate::base::error::{Error, Result};
use crate::cache::{Block, current};
use crate::device::{ALIGNMENT, Device};
use crate::record::Request;

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
    /// [`is_invalid_shape`](Error::is_invalid_shape) if the bytes overflow, [`is_out_of_memory`](Error::is_out_of_memory),
    /// or a failure of the device.
    #[rustfmt::skip]
    pub fn zeros(device: &D, shape: impl Shape) -> Result<Self> where T: Element, D: Device {
        let mut array = Self::allocate(device, shape.dims())?;
        array.block.fill(&[0])?;
        Ok(array)
    }

    /// An array of copies of `value`.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros).
    #[rustfmt::skip]
    pub fn full(device: &D, shape: impl Shape, value: T) -> Result<Self> where T: Element, D: Device {
        let mut array = Self::allocate(device, shape.dims())?;
        array.block.fill(shortest_period(bytes_of(std::slice::from_ref(&value))))?;
        Ok(array)
    }

    /// An array with the contents of `values`, in row-major order.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) too if `values` are not as many as the shape says; otherwise as for
    /// [`zeros`](Array::zeros).
    #[rustfmt::skip]
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
    pub unsafe fn uninit(device: &D, shape: impl Shape) -> Result<Self> where T: Element, D: Device {
        Self::allocate(device, shape.dims())
    }
}

impl<T: Element, D: Device> Array<T, D> {
    /// Serves what a plan expects in line, where all stays in registers.
    #[inline(always)]
    fn allocate(device: &D, dims: &[usize]) -> Result<Self> {
        let Some(elements) = product::<T>(dims) else { return Self::serve_empty(device, dims) };
        let bytes = elements * size_of::<T>();
        match current::serve_planned(device.stream_handle(), dims, bytes) {
            Some(record) => Ok(Array { block: Block::of(record), typed: PhantomData }),
            None => Self::serve(device, dims, bytes),
        }
    }

    #[inline(never)]
    fn serve(device: &D, dims: &[usize], bytes: usize) -> Result<Self> {
        const { assert!(align_of::<T>() as u64 <= ALIGNMENT, "an element is aligned to at most 256 bytes, as blocks are") };
        let request = Request { dtype: TypeId::of::<T>(), dims, bytes };
        let refused = |error| current::refused(error, std::any::type_name::<T>(), &request);
        let block = Block::allocate(device.stream_handle(), &request).map_err(refused)?;
        Ok(Array { block, typed: PhantomData })
    }

    /// Serves dimensions whose product overflows, if there is a zero among them.
    #[cold]
    #[inline(never)]
    fn serve_empty(device: &D, dims: &[usize]) -> Result<Self> {
        Self::serve(device, dims, elements::<T>(dims)? * size_of::<T>())
    }

    /// The dimensions, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.block.dims()
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        len_of::<T>(&self.block)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The size of all elements in bytes.
    pub fn byte_len(&self) -> usize {
        self.block.bytes()
    }

    /// The device and stream it was allocated on.
    pub fn device(&self) -> &D {
        // SAFETY: the block lies on a stream that a handle of type `D` gave out, as arrays are made from handles of
        // their own type alone, and no block changes its stream for that of another device.
        unsafe { D::from_stream_handle(self.block.stream()) }
    }

    /// Where the first element lies in the device's memory; 0 without elements. The calling thread waits for nothing. Work on
    /// the array's own stream is in order with its other uses: it comes behind those before this call, and those afterwards
    /// behind it. (Where a stream without a handle, or a slice, reads the array while it is shared, a write by address comes
    /// behind that once it is announced by [`announce_write`](Array::announce_write).) Work on other streams is in order once it
    /// was announced ([`announce_read`](Array::announce_read), [`announce_write`](Array::announce_write)).
    pub fn address(&self) -> u64 {
        self.block.bare_address()
    }

    /// Announces that work which is put on the stream of `device` from now on reads this array, through its address or otherwise.
    ///
    /// That work waits for what is on the array's own stream now, and for writes that were announced before; the array's
    /// memory is used again, and written by whoever announces it, only after that work, put there before the array is
    /// dropped or written. It costs one event for everything that is on a stream, and none for an array's own.
    ///
    /// Launches and copies that show their stream ([`Host::launch`](crate::device::Host::launch), cudarc's copies and cuBLAS,
    /// kernel launches) need no such word.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) for a stream of another device, or while a graph is captured; a failure
    /// of the device.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let (mine, other) = (Host::new_stream()?, Host::new_stream()?);
    /// let array = Array::full(&mine, 100, 1u8)?;
    /// array.announce_read(&other)?; // `other` may be given work on the array's address now
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[doc(alias = "record_stream")]
    pub fn announce_read(&self, device: &D) -> Result<()> {
        self.block.read_on(device.stream_handle())
    }

    /// As [`announce_read`](Array::announce_read), for work that writes: it also waits for all work that was announced to read.
    ///
    /// # Errors
    /// As for [`announce_read`](Array::announce_read).
    #[doc(alias = "record_stream")]
    pub fn announce_write(&mut self, device: &D) -> Result<()> {
        self.block.write_on(device.stream_handle())
    }

    /// Copies the elements to the host, and waits for them.
    ///
    /// # Errors
    /// A failure of the device, or of work on its stream before; [`is_panic`](Error::is_panic) as often as it is asked for if
    /// the work that was to write the array panicked.
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
    /// [`is_invalid_shape`](Error::is_invalid_shape) if they are not exactly [`len`](Array::len); a failure of the device.
    pub fn copy_from_slice(&mut self, values: &[T]) -> Result<()> {
        same_len::<T>(self.shape(), values.len())?;
        self.block.stream().check()?;
        self.block.write(bytes_of(values))
    }

    /// A copy on the same device and stream, allocated like any other array: from the innermost scope.
    ///
    /// # Errors
    /// As for [`zeros`](Array::zeros); [`is_panic`](Error::is_panic) if work that was to write the array has panicked.
    pub fn try_clone(&self) -> Result<Self> {
        let mut copy = Self::serve(self.device(), self.shape(), self.byte_len())?;
        copy.block.copy_from(&self.block)?;
        Ok(copy)
    }

    /// The same elements under another shape; nothing moves.
    ///
    /// # Errors
    /// [`is_invalid_shape`](Error::is_invalid_shape) if the shape does not have exactly [`len`](Array::len) elements.
    pub fn reshape(mut self, shape: impl Shape) -> Result<Self> {
        // Asked once: what safe code answers the second time may be another shape.
        let dims = shape.dims();
        same_len::<T>(dims, self.len())?;
        self.block.reshape(dims);
        Ok(self)
    }
}

/// Copies on the device, as [`try_clone`](Array::try_clone) does.
///
/// # Panics
/// If the device has no memory left or failed: `Clone` cannot return an error. Use `try_clone` to handle it.
impl<T: Element, D: Device> Clone for Array<T, D> {
    #[allow(clippy::panic)]
    fn clone(&self) -> Self {
        self.try_clone().unwrap_or_else(|error| panic!("an array could not be cloned: {error}"))
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

/// How many elements of `T` these dimensions are, if the product overflows nowhere and their bytes fit an `isize`.
#[inline(always)]
fn product<T>(dims: &[usize]) -> Option<usize> {
    let mut elements = 1usize;
    for &dim in dims {
        elements = elements.checked_mul(dim)?;
    }
    let most = (isize::MAX as usize).checked_div(size_of::<T>()).unwrap_or(usize::MAX);
    (elements <= most).then_some(elements)
}

/// As [`product`]; an error says why there is none.
#[inline]
fn elements<T>(dims: &[usize]) -> Result<usize> {
    product::<T>(dims).map_or_else(|| none::<T>(dims), Ok)
}

/// A zero anywhere makes an array empty, whatever the other dimensions multiply to.
#[cold]
#[inline(never)]
fn none<T>(dims: &[usize]) -> Result<usize> {
    if dims.contains(&0) {
        return Ok(0);
    }
    let dtype = std::any::type_name::<T>();
    Err(Error::invalid_shape(format!(
        "the shape {dims:?} of {dtype} overflows the address space: check the dimensions"
    )))
}

/// What an array of this shape asks for.
#[cfg(feature = "cuda")]
fn request<T: 'static>(dims: &[usize]) -> Result<Request<'_>> {
    Ok(Request { dtype: TypeId::of::<T>(), dims, bytes: elements::<T>(dims)? * size_of::<T>() })
}

fn same_len<T>(dims: &[usize], len: usize) -> Result<()> {
    match elements::<T>(dims)? {
        elements if elements == len => Ok(()),
        elements => Err(Error::invalid_shape(format!(
            "{len} elements do not fit the shape {dims:?}, which has {elements}: pass exactly as many"
        ))),
    }
}

/// The bytes of elements.
fn bytes_of<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: these are the bytes of `values`, borrowed as long and as shared. An `Element` has no padding, so that all
    // of them are initialised, and bytes are aligned anywhere.
    unsafe { from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The shortest part of `pattern` that repeated gives it: devices fill fastest with one byte, or a few.
fn shortest_period(pattern: &[u8]) -> &[u8] {
    let mut period = pattern;
    while let (front, back) = period.split_at(period.len() / 2)
        && front == back
        && !front.is_empty()
    {
        period = front;
    }
    period
}

#[cfg(test)]
mod tests {
    use super::{elements, shortest_period};

    #[test]
    fn an_empty_array_has_no_elements_however_large_its_other_dimensions() {
        assert_eq!(elements::<u64>(&[usize::MAX, 0, usize::MAX]).unwrap(), 0);
    }

    #[test]
    fn overflow_is_an_error() {
        assert!(elements::<u8>(&[usize::MAX]).unwrap_err().is_invalid_shape());
        assert!(elements::<u8>(&[1 << 40, 1 << 40]).unwrap_err().is_invalid_shape());
        assert!(elements::<()>(&[usize::MAX]).is_ok());
    }

    #[test]
    fn periods_are_powers_of_two_of_the_pattern() {
        assert_eq!(shortest_period(&[0; 8]), [0]);
        assert_eq!(shortest_period(&[1, 2, 1, 2]), [1, 2]);
        assert_eq!(shortest_period(&[1, 2, 1, 3]), [1, 2, 1, 3]);
        assert_eq!(shortest_period(&[1, 1, 1]), [1, 1, 1]);
        assert_eq!(shortest_period(&[]), [0; 0]);
    }
}
