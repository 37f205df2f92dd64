//! Mutable parts of an array, for calls that take mutable views. Most are cudarc's own views, whose uses are not reported. An
//! [`ArrayViewMut`] knows the stream of each use.

use std::fmt;
use std::ops::{Range, RangeBounds};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaSlice, CudaStream, CudaViewMut, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop};

use crate::array::{Array, Element};
use crate::device::Cuda;

/// A part of an array that calls write: cudarc's copies, cuBLAS, and collectives of NCCL. [`Array::part_mut`] makes it.
///
/// Each use counts as a use of the whole array on the stream of the call. So it costs no more than the array itself as an argument, and
/// the array's stream does not wait for the whole context, as it does for cudarc's mutable views.
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// let gpu = Cuda::new(0)?;
/// let mut array = gpu.zeros::<f32>(8)?;
/// if let Some(mut back) = array.part_mut(5..) {
///     gpu.stream().memcpy_htod(&[1.0; 3], &mut back)?;
/// }
/// assert_eq!(array.to_vec()?[4..], [0.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct ArrayViewMut<'a, T: Element> {
    array: &'a mut Array<T, Cuda>,
    /// Invariant: it lies within the array.
    part: Range<usize>,
}

impl<T: Element> Array<T, Cuda> {
    /// A part of the elements for calls that write it; `None` if `range` does not lie within the array.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let mut array = gpu.zeros::<f32>(100)?;
    /// assert!(array.part_mut(50..).is_some());
    /// assert!(array.part_mut(50..101).is_none());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn part_mut(&mut self, range: impl RangeBounds<usize>) -> Option<ArrayViewMut<'_, T>> {
        let part = self.as_view().try_slice(range)?.range();
        Some(ArrayViewMut { array: self, part })
    }
}

impl<T: Element> ArrayViewMut<'_, T> {
    fn address(&self) -> u64 {
        self.array.block.address() + (self.part.start * size_of::<T>()) as u64
    }
}

impl<T: Element> fmt::Debug for ArrayViewMut<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.part, self.array)
    }
}

impl<T: Element> DeviceSlice<T> for ArrayViewMut<'_, T> {
    fn len(&self) -> usize {
        self.part.len()
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.array.device().stream()
    }
}

impl<T: Element> DevicePtr<T> for ArrayViewMut<'_, T> {
    fn device_ptr<'b>(&'b self, stream: &'b CudaStream) -> (CUdeviceptr, SyncOnDrop<'b>) {
        (self.address(), self.array.read_guard(stream))
    }
}

impl<T: Element> DevicePtrMut<T> for ArrayViewMut<'_, T> {
    fn device_ptr_mut<'b>(&'b mut self, stream: &'b CudaStream) -> (CUdeviceptr, SyncOnDrop<'b>) {
        (self.address(), self.array.write_guard(stream))
    }
}

impl<T: Element> Array<T, Cuda> {
    /// The slice for writes, lent in such a way that its uses are not reported.
    fn lend_out_mut(&mut self) -> &mut CudaSlice<T> {
        self.take_over();
        self.let_out();
        self.lend_mut(true)
    }

    /// All elements as a mutable view, for calls that take views by value.
    ///
    /// The view can be used any number of times, on streams that this crate does not see. Before the array's stream uses the array again,
    /// it therefore waits for all work of the array's context. The array itself, as an argument, costs less.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let mut array = gpu.zeros::<f32>(100)?;
    /// gpu.stream().memcpy_htod(&[1.0; 100], &mut array.as_view_mut())?;
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn as_view_mut(&mut self) -> CudaViewMut<'_, T> {
        self.lend_out_mut().as_view_mut()
    }

    /// A part of the elements as a mutable view, like [`as_view_mut`](Array::as_view_mut); `None` if `range` does not lie
    /// within the array.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let mut array = gpu.zeros::<f32>(100)?;
    /// if let Some(mut front) = array.try_slice_mut(..10) {
    ///     gpu.stream().memset_zeros(&mut front)?;
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn try_slice_mut(&mut self, range: impl RangeBounds<usize>) -> Option<CudaViewMut<'_, T>> {
        // cudarc adds 1 to bounds without a check.
        let part = self.as_view().try_slice(range)?.range();
        self.lend_out_mut().try_slice_mut(part)
    }

    /// As [`try_slice_mut`](Array::try_slice_mut).
    ///
    /// # Panics
    /// If `range` does not lie within the array.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let mut array = Array::<f32, _>::zeros(&gpu, 8)?;
    /// gpu.stream().memcpy_htod(&[1.0; 3], &mut array.slice_mut(5..))?;
    /// assert_eq!(array.to_vec()?[4..], [0.0, 1.0, 1.0, 1.0]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[allow(clippy::panic)]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> CudaViewMut<'_, T> {
        let len = self.len();
        self.try_slice_mut(range).unwrap_or_else(|| panic!("the range is not within the array of {len} elements"))
    }

    /// The first `mid` elements and the others as mutable views, like [`as_view_mut`](Array::as_view_mut); `None` if
    /// there are fewer than `mid`.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let mut array = gpu.zeros::<f32>(100)?;
    /// if let Some((front, mut back)) = array.try_split_at_mut(50) {
    ///     gpu.stream().memcpy_dtod(&front, &mut back)?;
    /// }
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn try_split_at_mut(&mut self, mid: usize) -> Option<(CudaViewMut<'_, T>, CudaViewMut<'_, T>)> {
        self.lend_out_mut().try_split_at_mut(mid)
    }

    /// As [`try_split_at_mut`](Array::try_split_at_mut).
    ///
    /// # Panics
    /// If there are fewer than `mid` elements.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let mut array = Array::<f32, _>::zeros(&gpu, 8)?;
    /// let (mut low, mut high) = array.split_at_mut(5);
    /// gpu.stream().memcpy_htod(&[1.0; 5], &mut low)?;
    /// gpu.stream().memcpy_htod(&[2.0; 3], &mut high)?;
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[allow(clippy::panic)]
    pub fn split_at_mut(&mut self, mid: usize) -> (CudaViewMut<'_, T>, CudaViewMut<'_, T>) {
        let len = self.len();
        self.try_split_at_mut(mid).unwrap_or_else(|| panic!("an array of {len} elements cannot be split at {mid}"))
    }
}
