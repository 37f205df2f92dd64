//! Shared parts of an array, for calls that take views. Each use counts as a use of the array.
#![allow(unsafe_code)]

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use cudarc::driver::{CudaStream, CudaView, DevicePtr, DeviceSlice, LaunchArgs, PushKernelArg, SyncOnDrop};

use super::TrackedSlice;
use crate::array::{Array, Element};
use crate::device::Cuda;
use gpucache_engine::base::sync::OnceLock;

/// A part of an array, as cudarc's `CudaView` is a part of a slice. cudarc's copies, cuBLAS and kernels take it as an argument.
///
/// Any number of streams may read it. The array's memory is written and reused only behind all of these reads.
///
/// ```no_run
/// use gpucache::prelude::*;
///
/// let gpu = Cuda::new(0)?;
/// let array = gpu.zeros::<f32>(100)?;
/// let back = array.slice(50..);
/// let copied: Vec<f32> = gpu.stream().clone_dtoh(&back)?;
/// assert_eq!(copied.len(), back.len());
/// # Ok::<(), gpucache::Error>(())
/// ```
pub struct ArrayView<'a, T: Element> {
    pub(super) array: &'a Array<T, Cuda>,
    /// The address of the part in the device's memory.
    pub(super) address: u64,
    start: usize,
    len: usize,
    /// The slice and view for launches by cudarc's own builder, which keeps a reference to the view's event.
    lent: OnceLock<(&'a TrackedSlice<T>, CudaView<'a, T>)>,
}

impl<T: Element> Array<T, Cuda> {
    /// All elements as a view.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// assert_eq!(gpu.stream().clone_dtoh(&array.as_view())?, [0.0; 100]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn as_view(&self) -> ArrayView<'_, T> {
        ArrayView::new(self, 0, self.len())
    }

    /// A part of the elements as a view; `None` if `range` does not lie within the array.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// assert!(array.try_slice(50..).is_some() && array.try_slice(50..101).is_none());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<ArrayView<'_, T>> {
        self.as_view().try_slice(range)
    }

    /// As [`try_slice`](Array::try_slice).
    ///
    /// # Panics
    /// If `range` does not lie within the array.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// assert_eq!(gpu.stream().clone_dtoh(&array.slice(..10))?, [0.0; 10]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn slice(&self, range: impl RangeBounds<usize>) -> ArrayView<'_, T> {
        self.as_view().slice(range)
    }
}

impl<'a, T: Element> ArrayView<'a, T> {
    fn new(array: &'a Array<T, Cuda>, start: usize, len: usize) -> ArrayView<'a, T> {
        let address = array.block.address() + (start * size_of::<T>()) as u64;
        ArrayView { array, address, start, len, lent: OnceLock::new() }
    }

    /// The number of elements.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// assert_eq!(array.slice(10..30).len(), 20);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// assert!(array.slice(10..10).is_empty());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of this part; `None` if `range` does not lie within it.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// let back = array.slice(50..);
    /// assert!(back.try_slice(..50).is_some() && back.try_slice(..51).is_none());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn try_slice(&self, range: impl RangeBounds<usize>) -> Option<ArrayView<'a, T>> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(start) => start.checked_add(1)?,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(end) => end.checked_add(1)?,
            Bound::Excluded(end) => *end,
            Bound::Unbounded => self.len,
        };
        (start <= end && end <= self.len).then(|| ArrayView::new(self.array, self.start + start, end - start))
    }

    /// As [`try_slice`](ArrayView::try_slice).
    ///
    /// # Panics
    /// If `range` does not lie within the view.
    ///
    /// ```no_run
    /// use gpucache::prelude::*;
    ///
    /// let gpu = Cuda::new(0)?;
    /// let array = gpu.zeros::<f32>(100)?;
    /// let middle = array.slice(25..).slice(..50); // elements 25 to 74
    /// assert_eq!(middle.len(), 50);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    #[allow(clippy::panic)]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> ArrayView<'a, T> {
        self.try_slice(range).unwrap_or_else(|| panic!("the range is not within the view of {} elements", self.len))
    }

    /// The part's elements, counted in the array.
    pub(super) fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// cudarc's view, for a launch that shows no stream.
    fn lend(&self) -> &CudaView<'a, T> {
        let array = self.array;
        let mut is_first = false;
        let (slice, view) = self.lent.get_or_init(|| {
            is_first = true;
            let tracked = array.lend(array.device().0.is_mixed());
            (tracked, tracked.slice().slice(self.start..self.start + self.len))
        });
        if !is_first {
            array.foreign_uses().read_again(slice);
        }
        array.let_out();
        view
    }
}

impl<T: Element> fmt::Debug for ArrayView<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {:?}", self.start..self.start + self.len, self.array)
    }
}

impl<T: Element> DeviceSlice<T> for ArrayView<'_, T> {
    fn len(&self) -> usize {
        self.len
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.array.device().stream()
    }
}

impl<T: Element> DevicePtr<T> for ArrayView<'_, T> {
    fn device_ptr<'b>(&'b self, stream: &'b CudaStream) -> (CUdeviceptr, SyncOnDrop<'b>) {
        (self.address, self.array.read_guard(stream))
    }
}

// SAFETY: this pushes a reference to the field that has the part's device pointer. The field stays at its place as long as the view is
// borrowed, as the launch requires. Or cudarc's view of the same part does this, which this view keeps as long as it lives.
unsafe impl<'a, 'b: 'a, 'c: 'b, T: Element> PushKernelArg<&'b ArrayView<'c, T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, view: &'b ArrayView<'c, T>) -> &mut Self {
        view.array.device().0.note_unknown_work();
        if view.array.is_alone() {
            view.array.catch_up();
            return self.arg(&view.address);
        }
        self.arg(view.lend())
    }
}
