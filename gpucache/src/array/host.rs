//! Arrays in the machine's own memory are slices.
//!
//! Invariant: a slice is lent to a caller's thread only while no work on its array is queued, and to queued work only in
//! the stream's order.
#![allow(unsafe_code)]

mod launch;

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::with_exposed_provenance_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

pub use launch::Arguments;

use super::{Array, Element};
use crate::device::Host;
use gpucache_engine::Result;

/// The elements of an array that may be read during `'a`.
///
/// Invariant: they are a block's that is memory of the process, with room for `len` elements, all of which were written
/// (the contract of [`Array::uninit`]). During `'a` the block is not given back, and nobody writes it.
pub struct Elements<'a, T> {
    address: u64,
    len: usize,
    slice: PhantomData<&'a [T]>,
}

/// The elements of an array that may be read and written during `'a`.
///
/// Invariant: as for [`Elements`]; and during `'a` nobody else reads the block.
pub struct ElementsMut<'a, T> {
    address: u64,
    len: usize,
    slice: PhantomData<&'a mut [T]>,
}

impl<'a, T: Element> Elements<'a, T> {
    #[inline]
    fn slice(self) -> &'a [T] {
        // SAFETY: the invariant is that of a shared slice, but for its pointer. That is aligned, as blocks are to 256
        // bytes and `Element`s to no more; and it may reach all of the block, whose provenance was exposed when its
        // memory was allocated or its addresses were reserved.
        unsafe { from_raw_parts(pointer(self.address), self.len) }
    }
}

impl<'a, T: Element> ElementsMut<'a, T> {
    #[inline]
    fn slice(self) -> &'a mut [T] {
        // SAFETY: the invariant is that of an exclusive slice, and this, which is used up, the only one that has it for
        // `'a`. The pointer is aligned, as blocks are to 256 bytes and `Element`s to no more; and it may reach all of
        // the block, whose provenance was exposed when its memory was allocated or its addresses were reserved.
        unsafe { from_raw_parts_mut(pointer(self.address), self.len) }
    }
}

#[inline]
fn pointer<T>(address: u64) -> *mut T {
    match address {
        // No bytes, no memory: any aligned pointer will do.
        0 => std::ptr::dangling_mut(),
        address => with_exposed_provenance_mut(address as usize),
    }
}

impl<T: Element> Array<T, Host> {
    /// Waits until what was queued on the array is done.
    #[inline]
    fn finish_work(&self) {
        if !self.device().0.is_synchronous() {
            self.finish_queued_work();
        }
    }

    #[cold]
    #[allow(clippy::panic)]
    fn finish_queued_work(&self) {
        // The elements are not what the caller takes them for, and nothing else can be returned.
        self.wait_for_work().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Waits for all that is queued on the array, also by other streams that were announced to write.
    fn wait_for_work(&self) -> Result<()> {
        self.block.read_on(self.block.stream())?;
        self.device().0.finish()?;
        self.block.check_outcome()
    }

    /// The elements, if no work may be under way on them and they are what work was to make of them.
    pub(super) fn at_rest(&self) -> Option<&[T]> {
        let is_at_rest =
            self.device().0.is_idle() && !self.block.is_used_elsewhere() && self.block.check_outcome().is_ok();
        // What is queued from now on borrows `self` as well, and so only reads.
        is_at_rest.then(|| Elements { address: self.block.address(), len: self.len(), slice: PhantomData }.slice())
    }

    /// As [`wait_for_work`](Array::wait_for_work), and for those who read.
    fn wait_for_uses(&mut self) -> Result<()> {
        self.block.end_uses()?;
        self.wait_for_work()
    }
}

/// On a stream of [`Host::new_stream`] this waits until the work is done that is on the stream now.
///
/// # Panics
/// If late work panicked that the array was lent to by `&mut`, at each deref from then on: what that work was to write is not
/// there, as behind a `Mutex` that is poisoned. So does an array that was written from such an array by late work, or is a
/// clone of it. [`to_vec`](Array::to_vec) and [`try_clone`](Array::try_clone) return an error instead, and
/// [`copy_from_slice`](Array::copy_from_slice) makes the array whole again. Other arrays are not concerned, and drops do not
/// panic.
///
/// In work of the array's own stream while more work is queued behind, since that work cannot wait for itself: the panic
/// is caught there and becomes the stream's error. [`Host::launch`] lends arrays to work without waiting.
///
/// ```
/// use gpucache::prelude::*;
///
/// let stream = Host::new_stream()?;
/// let mut array = Array::<f32, _>::zeros(&stream, 4)?;
/// stream.launch(&mut array, |_| panic!("on purpose"))?;
/// assert!(std::panic::catch_unwind(|| array[0]).is_err()); // not a zero that nobody wrote
/// array.copy_from_slice(&[1.0; 4]).unwrap_err(); // what the stream has kept, once
/// array.copy_from_slice(&[1.0; 4])?;
/// assert_eq!(array[0], 1.0);
/// # Ok::<(), gpucache::Error>(())
/// ```
impl<T: Element> Deref for Array<T, Host> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // Work that writes the block is done then. What is queued later borrows `self` as well, and so only reads.
        self.finish_work();
        Elements { address: self.block.address(), len: self.len(), slice: PhantomData }.slice()
    }
}

/// As for `Deref`.
///
/// # Panics
/// As for `Deref`.
impl<T: Element> DerefMut for Array<T, Host> {
    #[inline]
    #[allow(clippy::panic)]
    fn deref_mut(&mut self) -> &mut [T] {
        // All work on the block is done then. None can be queued while `self` is borrowed exclusively.
        if !self.device().0.is_synchronous() {
            // As for `Deref`: nothing else can be returned.
            self.wait_for_uses().unwrap_or_else(|error| panic!("{error}"));
        }
        ElementsMut { address: self.block.address(), len: self.len(), slice: PhantomData }.slice()
    }
}
