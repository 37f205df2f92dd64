//! Arrays in host memory, which are slices.
//!
//! Invariant: a slice is lent to a caller's thread only while no work on its array is queued. It is lent to queued work only in
//! the stream's order.
#![allow(unsafe_code)]

mod kernel;
mod launch;

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::with_exposed_provenance_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Arc;

pub use launch::Arguments;

use super::{Array, Element};
use crate::device::Host;
use gpucache_engine::Result;
use gpucache_engine::device::Word;
use gpucache_engine::record::Outcome;

/// The elements of an array, as a slice `S`: they may be read, or read and written, during its lifetime.
///
/// Invariant: they lie in a block in memory of the process, which has room for `len` elements. All of them were written
/// (the contract of [`Array::uninit`]). During the lifetime of `S` the block is not returned, and nobody writes it; if `S` is a
/// mutable slice, nobody else reads it either.
pub struct Elements<S> {
    address: u64,
    len: usize,
    /// The outcome of the late work that wrote the array before, if they are lent to work.
    before: Option<Arc<Outcome>>,
    slice: PhantomData<S>,
}

impl<S> Elements<S> {
    /// Those of an array. The caller sees to the invariant.
    #[inline]
    fn of<T: Element>(array: &Array<T, Host>) -> Elements<S> {
        Elements { address: array.block.address(), len: array.len(), before: None, slice: PhantomData }
    }

    /// Their memory, which work reads or writes.
    fn word<T: Element>(&self, is_written: bool) -> Word {
        let bytes = (self.len * size_of::<T>()) as u64;
        Word { value: self.address, is_address: true, is_written, bytes, element: Some(TypeId::of::<T>()) }
    }
}

impl<'a, T: Element> Elements<&'a [T]> {
    #[inline]
    fn slice(self) -> &'a [T] {
        // SAFETY: the invariant is that of a shared slice, except for its pointer. The pointer is aligned, because blocks are aligned to
        // 256 bytes and `Element`s to no more. It may reach all of the block, whose provenance was exposed when its
        // memory was allocated or its addresses were reserved.
        unsafe { from_raw_parts(pointer(self.address), self.len) }
    }
}

impl<'a, T: Element> Elements<&'a mut [T]> {
    #[inline]
    fn slice(self) -> &'a mut [T] {
        // SAFETY: the invariant is that of an exclusive slice, except for its pointer. This value, which is consumed, is the only one
        // with this invariant for `'a`. The pointer is aligned, because blocks are aligned to 256 bytes and `Element`s to no more. It
        // may reach all of the block, whose provenance was exposed when its memory was allocated or its addresses were reserved.
        unsafe { from_raw_parts_mut(pointer(self.address), self.len) }
    }
}

#[inline]
fn pointer<T>(address: u64) -> *mut T {
    match address {
        // A block without bytes has no memory: any aligned pointer will do.
        0 => std::ptr::dangling_mut(),
        address => with_exposed_provenance_mut(address as usize),
    }
}

impl<T: Element> Array<T, Host> {
    /// Waits until the work that was queued on the array is done.
    #[inline]
    fn finish_work(&self) {
        if !self.device().0.is_synchronous() {
            self.finish_queued_work();
        }
    }

    #[cold]
    #[allow(clippy::panic)]
    fn finish_queued_work(&self) {
        self.block.stream().note_gap("a look at the elements of an array");
        // The elements are not what the caller expects, and this function cannot return an error.
        self.wait_for_work(false).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits for all work that is queued on the array, including announced writes by other streams. The caller then reads or writes it.
    fn wait_for_work(&self, is_written: bool) -> Result<()> {
        self.block.read_on(self.block.stream())?;
        self.device().0.finish_for(Elements::<&[T]>::of(self).word::<T>(is_written))?;
        self.block.check_outcome()
    }

    /// The elements, if no work can be in progress on them and no work failed to write them.
    pub(super) fn at_rest(&self) -> Option<&[T]> {
        let is_at_rest =
            self.device().0.is_idle() && !self.block.is_used_elsewhere() && self.block.check_outcome().is_ok();
        // Work that is queued from now on also borrows `self`, so it only reads.
        is_at_rest.then(|| Elements::<&[T]>::of(self).slice())
    }

    /// Like [`wait_for_work`](Array::wait_for_work), but also waits for readers.
    fn wait_for_uses(&mut self) -> Result<()> {
        self.block.stream().note_gap("a look at the elements of an array");
        self.block.end_uses()?;
        self.wait_for_work(true)
    }
}

/// On a stream of [`Host::new_stream`] this waits until all work that is on the stream now is done.
///
/// # Panics
/// If the array was lent by `&mut` to late work that panicked. Every deref from then on panics, like a poisoned `Mutex`, because the
/// work has not written its result. The same holds for an array that late work wrote from such an array, and for a
/// clone of it. [`to_vec`](Array::to_vec) and [`try_clone`](Array::try_clone) return an error instead.
/// [`copy_from_slice`](Array::copy_from_slice) makes the array usable again. Other arrays are not affected, and drops do not
/// panic.
///
/// Also if work of the array's own stream derefs it while more work is queued behind, since that work cannot wait for its own stream; or if
/// this work was lent the array, and it writes the array by one of the two. The stream catches this panic, which becomes its error.
/// [`Host::launch`] lends arrays to work without waiting.
///
/// ```
/// use gpucache::prelude::*;
///
/// let stream = Host::new_stream()?;
/// let mut array = Array::<f32, _>::zeros(&stream, 4)?;
/// stream.launch(&mut array, |_| panic!("on purpose"))?;
/// assert!(std::panic::catch_unwind(|| array[0]).is_err()); // not a zero that nobody wrote
/// array.copy_from_slice(&[1.0; 4]).unwrap_err(); // the stream's error, which is returned once
/// array.copy_from_slice(&[1.0; 4])?;
/// assert_eq!(array[0], 1.0);
/// # Ok::<(), gpucache::Error>(())
/// ```
impl<T: Element> Deref for Array<T, Host> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // Work that writes the block is done by then. Work that is queued later also borrows `self`, so it only reads.
        self.finish_work();
        Elements::<&[T]>::of(self).slice()
    }
}

/// Waits as `Deref` does, and also for readers on other streams.
///
/// # Panics
/// As for `Deref`.
impl<T: Element> DerefMut for Array<T, Host> {
    #[inline]
    #[allow(clippy::panic)]
    fn deref_mut(&mut self) -> &mut [T] {
        // All work on the block is done after this. No work can be queued while `self` is borrowed exclusively.
        if !self.device().0.is_synchronous() {
            // As in `Deref`, this function cannot return an error.
            self.wait_for_uses().unwrap_or_else(|error| panic!("{error}"));
        }
        Elements::<&mut [T]>::of(self).slice()
    }
}
