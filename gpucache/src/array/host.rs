//! Arrays in the machine's own memory are slices, and arguments of work that a stream does later.
//!
//! Invariant: a slice is lent to a caller's thread only while no work on its array is queued, and to queued work only in
//! the stream's order.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::with_exposed_provenance_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::{Array, Element};
use crate::base::error::{Error, Result};
use crate::device::{Device, Host};

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
        if !self.device().is_synchronous() {
            self.finish_queued_work();
        }
    }

    #[cold]
    #[allow(clippy::panic)]
    fn finish_queued_work(&self) {
        // Behind what other streams were announced to write.
        let ordered = self.block.read_on(self.block.stream());
        ordered.unwrap_or_else(|error| self.block.stream().keep(error));
        // In queued work alone, where a panic is caught and becomes the stream's error.
        self.device().finish().unwrap_or_else(|error| panic!("{error}"));
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
        // Work that writes the block is done then. What is queued later borrows `self` as well, and so only reads.
        self.finish_work();
        Elements { address: self.block.address(), len: self.len(), slice: PhantomData }.slice()
    }
}

/// As for `Deref`.
impl<T: Element> DerefMut for Array<T, Host> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        if !self.device().is_synchronous() {
            self.block.end_uses_or_keep();
        }
        // All work on the block is done then. None can be queued while `self` is borrowed exclusively.
        self.finish_work();
        ElementsMut { address: self.block.address(), len: self.len(), slice: PhantomData }.slice()
    }
}

/// What [`Host::launch`] lends to work: references to arrays, alone or in tuples of up to six, or nothing: `()`.
///
/// ```
/// use gpucache::prelude::*;
///
/// let stream = Host::new_stream()?;
/// let (x, mut y) = (Array::full(&stream, 8, 2.0f32)?, stream.zeros::<f32>(8)?);
/// stream.launch(&mut y, |y| y[0] = 1.0)?; // one
/// stream.launch((&x, &mut y), |(x, y)| y[1] = x[1])?; // several
/// stream.launch((), |()| println!("or none"))?;
/// assert_eq!(y[..3], [1.0, 2.0, 0.0]);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent to work on a host's stream: pass `&array`, `&mut array`, or a tuple of up to six of these",
    note = "the work may move in everything else that is `Send + 'static`; work without arrays takes `()`"
)]
pub trait Arguments: sealed::Lend {}

#[diagnostic::do_not_recommend]
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

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be lent to work on a host's stream: pass `&array`, `&mut array`, or a tuple of up to six of these",
        note = "the work may move in everything else that is `Send + 'static`; work without arrays takes `()`"
    )]
    pub trait Lend {
        /// What the work gets.
        type Slices<'a>;
        /// The right to that, in the work's turn.
        type Elements: Send + 'static;

        /// Orders the work that `stream` is given next behind the arrays' uses, and their later ones behind it.
        ///
        /// # Safety
        /// The elements are used by that work alone, in its turn. Until it is done the arrays' memory is used as the
        /// order of streams has it: by others who read it, if it was borrowed shared, and else by nobody.
        unsafe fn elements(self, stream: &Host) -> Result<Self::Elements>;

        fn slices<'a>(elements: Self::Elements) -> Self::Slices<'a>;
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> sealed::Lend for &Array<T, Host> {
    type Slices<'a> = &'a [T];
    type Elements = Elements<'static, T>;

    unsafe fn elements(self, stream: &Host) -> Result<Elements<'static, T>> {
        if is_late(self, stream)? {
            self.block.read_on(stream.stream_handle())?;
        }
        // For as long as the work takes, which is all of the time that they are used.
        Ok(Elements { address: self.block.address(), len: self.len(), slice: PhantomData })
    }

    fn slices<'a>(elements: Elements<'static, T>) -> &'a [T] {
        elements.slice()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> sealed::Lend for &mut Array<T, Host> {
    type Slices<'a> = &'a mut [T];
    type Elements = ElementsMut<'static, T>;

    unsafe fn elements(self, stream: &Host) -> Result<ElementsMut<'static, T>> {
        if stream.is_synchronous() {
            self.block.end_uses_or_keep();
        }
        if is_late(self, stream)? {
            self.block.write_on(stream.stream_handle())?;
        }
        // For as long as the work takes, which is all of the time that they are used.
        Ok(ElementsMut { address: self.block.address(), len: self.len(), slice: PhantomData })
    }

    fn slices<'a>(elements: ElementsMut<'static, T>) -> &'a mut [T] {
        elements.slice()
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {
        $(#[diagnostic::do_not_recommend]
        impl<$($name: sealed::Lend),*> sealed::Lend for ($($name,)*) {
            type Slices<'a> = ($($name::Slices<'a>,)*);
            type Elements = ($($name::Elements,)*);

            #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
            unsafe fn elements(self, stream: &Host) -> Result<Self::Elements> {
                let ($($name,)*) = self;
                // SAFETY: the caller promises of all arrays in the tuple what each of them asks for.
                #[allow(unused_unsafe)]
                unsafe { Ok(($($name.elements(stream)?,)*)) }
            }

            #[allow(non_snake_case, clippy::unused_unit)]
            fn slices<'a>(($($name,)*): Self::Elements) -> Self::Slices<'a> {
                ($($name::slices($name),)*)
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
    // `Lend` is a part of `Arguments`. Named first, it is what an error is about, and not the work that depends on it.
    pub fn launch<A: sealed::Lend + Arguments>(
        &self,
        arguments: A,
        work: impl for<'a> FnOnce(A::Slices<'a>) + Send + 'static,
    ) -> Result<()> {
        self.stream_handle().check()?;
        // SAFETY: the work that is pushed next alone has the elements, and gives its slices up when it ends, as it
        // takes them for any lifetime. The arrays were borrowed when this was queued, shared or exclusively. The work
        // is done behind what used them before (`elements`), and before what uses them later: the array knows of this
        // stream until it is dropped, and orders behind it whoever writes it, or reads what is written here, be it a
        // caller, who waits, other work, or the next array in the memory.
        let elements = unsafe { arguments.elements(self) }?;
        self.push(move || work(A::slices(elements)));
        Ok(())
    }
}
