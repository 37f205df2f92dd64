//! The arguments of collectives: arrays, slices and their views.
//!
//! cudarc's traits are safe to implement, so a type of the program may name memory that is not its own. The traits here are sealed: only
//! types whose pointer and length are known to belong together have them.

use cudarc::driver::{CudaSlice, CudaStream, CudaView, CudaViewMut, DevicePtr, DevicePtrMut, SyncOnDrop};

use crate::array::{Array, ArrayView, ArrayViewMut, Element, QueuedWrite};
use crate::device::Cuda;

mod sealed {
    use super::{CudaStream, DevicePtrMut, QueuedWrite, SyncOnDrop};

    pub trait Sealed<T> {
        /// The address for one write on `stream`, cudarc's guard of it, and how its end is told.
        #[doc(hidden)]
        fn queue_write<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>, QueuedWrite<'a>)
        where
            Self: DevicePtrMut<T>,
        {
            let (address, guard) = self.device_ptr_mut(stream);
            (address, guard, None)
        }
    }
}

use sealed::Sealed;

/// Memory that a collective may read: [`Array`], its views, and cudarc's slices and views.
///
/// ```no_run
/// use gpucache::{nccl::{Communicator, Readable}, prelude::*};
///
/// fn send_to_next(ranks: &Communicator, data: &impl Readable<f32>) -> gpucache::Result<()> {
///     ranks.send(data, (ranks.rank() + 1) % ranks.ranks())
/// }
/// ```
pub trait Readable<T>: DevicePtr<T> + Sealed<T> {}

/// Memory that a collective may write: [`Array`], its mutable views, and cudarc's.
///
/// ```no_run
/// use gpucache::{nccl::{Communicator, Reduction, Writable}, prelude::*};
///
/// fn average(ranks: &Communicator, data: &mut impl Writable<f32>) -> gpucache::Result<()> {
///     ranks.all_reduce_in_place(data, Reduction::Mean)
/// }
/// ```
pub trait Writable<T>: DevicePtrMut<T> + Sealed<T> {}

impl<T, B: DevicePtr<T> + Sealed<T>> Readable<T> for B {}
impl<T, B: DevicePtrMut<T> + Sealed<T>> Writable<T> for B {}

impl<T: Element> Sealed<T> for Array<T, Cuda> {
    fn queue_write<'a>(&'a mut self, stream: &'a CudaStream) -> (u64, SyncOnDrop<'a>, QueuedWrite<'a>) {
        Array::queue_write(self, stream)
    }
}
impl<T: Element> Sealed<T> for ArrayView<'_, T> {}
impl<T: Element> Sealed<T> for ArrayViewMut<'_, T> {}
impl<T> Sealed<T> for CudaSlice<T> {}
impl<T> Sealed<T> for CudaView<'_, T> {}
impl<T> Sealed<T> for CudaViewMut<'_, T> {}

/// The uses of an operation's arrays. They end once the operation is on the stream.
pub(super) struct Uses<'a> {
    pub(super) guards: [Option<SyncOnDrop<'a>>; 2],
    pub(super) write: QueuedWrite<'a>,
}

impl Uses<'_> {
    /// The operation is on the stream, or failed. After a failure, the arrays still count as used.
    pub(super) fn end(self, is_queued: bool) {
        drop(self.guards);
        // No more work of the write comes. Others then wait for this point, not for later work of the stream.
        if let Some((block, stream)) = self.write.filter(|_| is_queued) {
            block.end_write_on(&stream);
        }
    }
}
