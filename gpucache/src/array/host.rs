//! Arrays in the machine's own memory are slices, and arguments of work that a stream does later.
//!
//! Invariant: a slice is lent to a caller's thread only while no work on its array is queued, and to queued work only in
//! the stream's order.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::with_exposed_provenance_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::{Array, Element};
use crate::base::error::{Error, Result};
use crate::device::{Device, Host};

impl<T: Element> Array<T, Host> {
    /// The elements, once all work is done that was queued on them.
    #[inline]
    fn settled(&self) -> *mut T {
        if !self.device().is_synchronous() {
            self.settle();
        }
        pointer(self.block.address())
    }

    #[cold]
    #[allow(clippy::panic)]
    fn settle(&self) {
        // Behind what other streams were announced to write.
        let ordered = self.block.read_on(self.block.stream());
        ordered.unwrap_or_else(|error| self.block.stream().keep(error));
        // In queued work alone, where a panic is caught and becomes the stream's error.
        self.device().finish().unwrap_or_else(|error| panic!("{error}"));
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

/// On a stream of [`Host::new_stream`] this waits until the work is done that is on the stream now.
///
/// # Panics
/// In work of the array's own stream while more work is queued behind, since that work cannot wait for itself: the panic
/// is caught there and becomes the stream's error. [`Host::launch`] lends arrays to work without waiting.
impl<T: Element> Deref for Array<T, Host> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the block is memory of the process, aligned to 256 bytes (`Element`s align to less), with room for
        // `len` elements that were written (the contract of `uninit`) and are shared for as long as `self` is: the work
        // that writes them is done, and what is queued meanwhile borrows `self` and only reads.
        unsafe { from_raw_parts(self.settled(), self.len()) }
    }
}

/// As for `Deref`.
impl<T: Element> DerefMut for Array<T, Host> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if !self.device().is_synchronous() {
            self.block.end_uses_or_keep();
        }
        // SAFETY: as in `deref`; `self` is borrowed exclusively, and so is its block.
        unsafe { from_raw_parts_mut(self.settled(), self.len()) }
    }
}

/// What [`Host::launch`] lends to work: references to arrays, alone or in tuples of up to six, or nothing: `()`.
pub trait Arguments: sealed::Lend {}

impl<A: sealed::Lend> Arguments for A {}

/// Whether an array is ordered with work of `stream` by streams alone; if not, this waited for what uses it.
fn is_late<T: Element>(array: &Array<T, Host>, stream: &Host) -> Result<bool> {
    match (array.device().is_synchronous(), stream.is_synchronous()) {
        (true, true) => Ok(false),
        (false, false) => Ok(true),
        (false, true) => {
            array.block.read_on(array.block.stream())?;
            array.device().finish().map(|()| false)
        }
        (true, false) => Err(Error::unavailable(
            "an array of the host's default stream",
            "work that a stream does later may outlive it",
            "allocate it on a stream of `Host::new_stream()`",
        )),
    }
}

mod sealed {
    use super::{Host, Result};

    pub trait Lend {
        /// What the work gets.
        type Slices<'a>;
        /// Where that is.
        type Places: Send + 'static;

        /// Orders the work that `stream` is given next behind the arrays' uses, and their later ones behind it.
        fn places(self, stream: &Host) -> Result<Self::Places>;

        /// # Safety
        /// For `'a` the arrays' memory is theirs, and as exclusively as they were borrowed.
        unsafe fn slices<'a>(places: Self::Places) -> Self::Slices<'a>;
    }
}

impl<T: Element> sealed::Lend for &Array<T, Host> {
    type Slices<'a> = &'a [T];
    type Places = (u64, usize);

    fn places(self, stream: &Host) -> Result<(u64, usize)> {
        if is_late(self, stream)? {
            self.block.read_on(stream.stream_handle())?;
        }
        Ok((self.block.address(), self.len()))
    }

    unsafe fn slices<'a>((address, len): (u64, usize)) -> &'a [T] {
        // SAFETY: the block is as in `deref`, and by the contract the array's for `'a`.
        unsafe { from_raw_parts(pointer(address), len) }
    }
}

impl<T: Element> sealed::Lend for &mut Array<T, Host> {
    type Slices<'a> = &'a mut [T];
    type Places = (u64, usize);

    fn places(self, stream: &Host) -> Result<(u64, usize)> {
        if stream.is_synchronous() {
            self.block.end_uses_or_keep();
        }
        if is_late(self, stream)? {
            self.block.write_on(stream.stream_handle())?;
        }
        Ok((self.block.address(), self.len()))
    }

    unsafe fn slices<'a>((address, len): (u64, usize)) -> &'a mut [T] {
        // SAFETY: as for the shared reference, and exclusively.
        unsafe { from_raw_parts_mut(pointer(address), len) }
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {
        $(impl<$($name: sealed::Lend),*> sealed::Lend for ($($name,)*) {
            type Slices<'a> = ($($name::Slices<'a>,)*);
            type Places = ($($name::Places,)*);

            #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
            fn places(self, stream: &Host) -> Result<Self::Places> {
                let ($($name,)*) = self;
                Ok(($($name.places(stream)?,)*))
            }

            #[allow(non_snake_case, clippy::unused_unit)]
            unsafe fn slices<'a>(($($name,)*): Self::Places) -> Self::Slices<'a> {
                // SAFETY: the caller's contract, for each of them.
                #[allow(unused_unsafe)]
                unsafe { ($($name::slices($name),)*) }
            }
        })*
    };
}

tuples! { ; A; A B; A B C; A B C D; A B C D E; A B C D E F; }

impl Host {
    /// Does `work` on arrays behind all that is on this stream now: later on a stream of [`new_stream`](Host::new_stream),
    /// at once on the default one.
    ///
    /// The work gets a slice for each array, `&[T]` or `&mut [T]`. The arrays may be used and dropped as soon as this
    /// returns: who reads them waits, other work queues behind, and memory of a dropped array is not used again before.
    /// Arrays of another stream are lent behind that stream's work; what writes them later, or reads what is written here,
    /// is behind this work, and other work of that stream is not held up.
    ///
    /// Work may allocate, drop and launch. It may move arrays in and drop them; see `Deref` of [`Array`] for reading
    /// those. Two streams whose pieces of work wait for each other's streams wait for ever.
    ///
    /// # Errors
    /// What earlier work met; [`is_unavailable`](Error::is_unavailable) for an array of the default stream on another one,
    /// as nothing makes its owner wait. The work is then not done.
    ///
    /// ```
    /// use gpucache::prelude::*;
    ///
    /// let stream = Host::new_stream()?;
    /// let input = Array::full(&stream, 1000, 3.0f32)?;
    /// let mut output = Array::<f32, _>::zeros(&stream, 1000)?;
    /// stream.launch((&input, &mut output), |(input, output)| {
    ///     output.iter_mut().zip(input).for_each(|(y, x)| *y = x * x);
    /// })?;
    /// drop(input);
    /// assert_eq!(output.to_vec()?, [9.0; 1000]);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn launch<A: Arguments>(
        &self,
        arguments: A,
        work: impl for<'a> FnOnce(A::Slices<'a>) + Send + 'static,
    ) -> Result<()> {
        self.stream_handle().check()?;
        let places = arguments.places(self)?;
        // SAFETY: the arrays were borrowed when this was queued, shared or exclusively. The work is done behind what used
        // them before (`places`), and before what uses them later: the array knows of this stream until it is dropped, and
        // orders behind it whoever writes it, or reads what is written here, be it a caller, who waits, other work, or the
        // next array in the memory.
        self.push(move || work(unsafe { A::slices(places) }));
        Ok(())
    }
}
