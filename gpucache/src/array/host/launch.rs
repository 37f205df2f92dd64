//! Work on a host's stream, and the arrays that are lent to it.
//!
//! Invariant: the elements of an array are lent to queued work only in the stream's order. They are lent to work that runs at once only
//! while no other work on the array is queued.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use super::Elements;
use crate::array::{Array, Element};
use crate::device::{Device, Host};
use gpucache_engine::base::held::assert_nothing_held;
use gpucache_engine::device::Word;
use gpucache_engine::record::Outcome;
use gpucache_engine::{Error, Result};

/// The arguments that [`Host::launch`] lends to work: a reference to an array; a tuple of up to twelve arguments, or a `Vec` of any
/// number of them, also nested; or nothing: `()`.
///
/// ```
/// use gpucache::prelude::*;
///
/// let stream = Host::new_stream()?;
/// let layers = (1..=20).map(|layer| Array::full(&stream, 100, layer)).collect::<gpucache::Result<Vec<_>>>()?;
/// let mut sum = Array::<i32, _>::zeros(&stream, 100)?;
/// stream.launch((&mut sum, layers.iter().collect::<Vec<_>>()), |(sum, layers)| {
///     for layer in layers {
///         sum.iter_mut().zip(layer).for_each(|(sum, value)| *sum += value);
///     }
/// })?;
/// assert_eq!(sum[99], 210);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be lent to work on a host's stream: pass `&array`, `&mut array`, or a tuple of up to twelve or a `Vec` of these",
    note = "the work may move in everything else that is `Send + 'static`; work without arrays takes `()`"
)]
pub trait Arguments: sealed::Lend {}

#[diagnostic::do_not_recommend]
impl<A: sealed::Lend> Arguments for A {}

/// Whether the streams alone order the array with the work of `stream`. Otherwise this waits for the work that uses the array.
fn is_late<T: Element>(array: &Array<T, Host>, stream: &Host, is_written: bool) -> Result<bool> {
    match (array.device().0.is_synchronous(), stream.0.is_synchronous()) {
        (true, true) => Ok(false),
        (false, false) => Ok(true),
        (false, true) => {
            array.block.read_on(array.block.stream())?;
            array.device().0.finish_for(Elements::<&[T]>::of(array).word::<T>(is_written)).map(|()| false)
        }
        (true, false) => Err(Error::unavailable(
            "an array of the host's default stream",
            "work that a stream does later may outlive it",
            "allocate it on a stream of `Host::new_stream()`",
        )),
    }
}

pub(super) mod sealed {
    use super::{Arc, Host, Outcome, Result, Word};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be lent to work on a host's stream: pass `&array`, `&mut array`, or a tuple of up to twelve or a `Vec` of these",
        note = "the work may move in everything else that is `Send + 'static`; work without arrays takes `()`"
    )]
    pub trait Lend {
        /// The type that the work receives.
        type Slices<'a>;
        /// The right to create `Slices` when it is the work's turn.
        type Elements: Send + 'static;

        /// Orders the next work on `stream` behind the arrays' earlier uses, and their later uses behind that work.
        ///
        /// # Safety
        /// Only that work uses the elements, and only when it is its turn. Until it is done, the arrays' memory is used only in the
        /// order of streams. If an array was borrowed shared, others may read it meanwhile; otherwise nobody else uses it.
        unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements>;

        /// Stores the work's outcome in the arrays that the work writes.
        fn expect(&mut self, outcome: &Arc<Outcome>);

        fn slices<'a>(elements: Self::Elements) -> Self::Slices<'a>;

        /// Visits each array: its memory, and the outcome of the late work that wrote it before.
        fn each(elements: &Self::Elements, visit: &mut dyn FnMut(Word, Option<&Arc<Outcome>>));

        /// The elements of arrays as long as these, at the next addresses. As for `elements`, only work uses them, at its turn.
        fn at(elements: &Self::Elements, addresses: &mut dyn Iterator<Item = u64>) -> Self::Elements;
    }
}

fn at<S>(lent: &Elements<S>, addresses: &mut dyn Iterator<Item = u64>) -> Elements<S> {
    let address = addresses.next().unwrap_or(lent.address);
    Elements { address, len: lent.len, before: None, slice: PhantomData }
}

/// Called when it is the work's turn: whether earlier work has written each of the arrays successfully.
fn check<A: sealed::Lend>(elements: &A::Elements) -> Result<(), String> {
    let mut checked = Ok(());
    A::each(elements, &mut |_, before| {
        if let (Ok(()), Some(before)) = (&checked, before) {
            checked = before.check();
        }
    });
    checked
}

/// Adds the address of each array.
pub(super) fn add_addresses<A: sealed::Lend>(elements: &A::Elements, into: &mut Vec<Word>) {
    A::each(elements, &mut |word, _| into.push(word));
}

#[diagnostic::do_not_recommend]
impl<T: Element> sealed::Lend for &Array<T, Host> {
    type Slices<'a> = &'a [T];
    type Elements = Elements<&'static [T]>;

    unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
        if is_late(self, stream, false)? {
            self.block.read_on(stream.stream_handle())?;
        }
        // The lifetime lasts as long as the work, which is the only time in which the elements are used.
        Ok(Elements { before: self.block.outcome(), ..Elements::of(self) })
    }

    fn expect(&mut self, _: &Arc<Outcome>) {}

    fn slices<'a>(lent: Self::Elements) -> &'a [T] {
        lent.slice()
    }

    fn each(lent: &Self::Elements, visit: &mut dyn FnMut(Word, Option<&Arc<Outcome>>)) {
        visit(lent.word::<T>(false), lent.before.as_ref());
    }

    fn at(lent: &Self::Elements, next: &mut dyn Iterator<Item = u64>) -> Self::Elements {
        at(lent, next)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> sealed::Lend for &mut Array<T, Host> {
    type Slices<'a> = &'a mut [T];
    type Elements = Elements<&'static mut [T]>;

    unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
        if stream.0.is_synchronous() {
            self.block.end_uses()?;
        }
        if is_late(self, stream, true)? {
            self.block.write_on(stream.stream_handle())?;
        }
        // The lifetime lasts as long as the work, which is the only time in which the elements are used.
        Ok(Elements { before: self.block.outcome(), ..Elements::of(self) })
    }

    fn expect(&mut self, outcome: &Arc<Outcome>) {
        self.block.set_outcome(Some(outcome.clone()));
    }

    fn slices<'a>(lent: Self::Elements) -> &'a mut [T] {
        lent.slice()
    }

    fn each(lent: &Self::Elements, visit: &mut dyn FnMut(Word, Option<&Arc<Outcome>>)) {
        visit(lent.word::<T>(true), lent.before.as_ref());
    }

    fn at(lent: &Self::Elements, next: &mut dyn Iterator<Item = u64>) -> Self::Elements {
        at(lent, next)
    }
}

#[diagnostic::do_not_recommend]
impl<A: sealed::Lend> sealed::Lend for Vec<A> {
    type Slices<'a> = Vec<A::Slices<'a>>;
    type Elements = Vec<A::Elements>;

    unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
        // SAFETY: the caller gives, for all arrays in the list, the promise that each of them requires.
        self.iter_mut().map(|each| unsafe { each.elements(stream) }).collect()
    }

    fn expect(&mut self, outcome: &Arc<Outcome>) {
        self.iter_mut().for_each(|each| each.expect(outcome));
    }

    fn slices<'a>(elements: Self::Elements) -> Self::Slices<'a> {
        elements.into_iter().map(A::slices).collect()
    }

    fn each(elements: &Self::Elements, visit: &mut dyn FnMut(Word, Option<&Arc<Outcome>>)) {
        elements.iter().for_each(|each| A::each(each, visit));
    }

    fn at(elements: &Self::Elements, addresses: &mut dyn Iterator<Item = u64>) -> Self::Elements {
        elements.iter().map(|each| A::at(each, addresses)).collect()
    }
}

macro_rules! tuples {
    ($($($name:ident)*;)*) => {
        $(#[diagnostic::do_not_recommend]
        #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
        impl<$($name: sealed::Lend),*> sealed::Lend for ($($name,)*) {
            type Slices<'a> = ($($name::Slices<'a>,)*);
            type Elements = ($($name::Elements,)*);

            unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
                let ($($name,)*) = self;
                // SAFETY: the caller gives, for all arrays in the tuple, the promise that each of them requires.
                #[allow(unused_unsafe)]
                unsafe { Ok(($($name.elements(stream)?,)*)) }
            }

            fn expect(&mut self, outcome: &Arc<Outcome>) {
                let ($($name,)*) = self;
                $($name.expect(outcome);)*
            }

            fn slices<'a>(($($name,)*): Self::Elements) -> Self::Slices<'a> {
                ($($name::slices($name),)*)
            }

            fn each(elements: &Self::Elements, visit: &mut dyn FnMut(Word, Option<&Arc<Outcome>>)) {
                let ($($name,)*) = elements;
                $($name::each($name, visit);)*
            }

            fn at(elements: &Self::Elements, addresses: &mut dyn Iterator<Item = u64>) -> Self::Elements {
                let ($($name,)*) = elements;
                ($($name::at($name, addresses),)*)
            }
        })*
    };
}

tuples! {
    ; A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; A B C D E F G H I;
    A B C D E F G H I J; A B C D E F G H I J K; A B C D E F G H I J K L;
}

impl Host {
    /// Runs `work` on arrays, behind everything that is on this stream now. On a stream of [`new_stream`](Host::new_stream) the work runs
    /// later, on the default stream at once.
    ///
    /// The work gets a slice for each array, `&[T]` or `&mut [T]`. The arrays may be used and dropped as soon as this
    /// returns: a caller that reads them waits, other work queues behind, and the memory of a dropped array is not reused earlier.
    /// An array of another stream may be lent too. This work then comes behind that stream's work. Later writes of the array, and reads
    /// of an array that this work writes, come behind this work. Other work of that stream is not delayed.
    ///
    /// Work may allocate, drop and launch. It may own arrays and drop them; to read arrays that it owns, see `Deref` of
    /// [`Array`]. If pieces of work on two streams wait for each other's streams, they wait forever.
    ///
    /// Work that panics ends there, and the stream continues. The stream's next fallible call returns the failure. The arrays that were
    /// lent to the work by `&mut` are lost: a deref of them panics. Work that is lent a lost array later does not run, and the arrays
    /// that it should have written are lost too. [`copy_from_slice`](Array::copy_from_slice) overwrites a lost array and makes
    /// it usable again. On the default stream the caller itself panics.
    ///
    /// # Errors
    /// A failure of earlier work; [`is_panic`](crate::Error::is_panic) on the default stream if an array is lost;
    /// [`is_unavailable`](Error::is_unavailable) for an array of the default stream on another stream,
    /// because nothing would make the array's owner wait. The work does not run then.
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
    // `Lend` is a part of `Arguments`. It is named first so that errors are about `Lend`, and not about the work that depends on it.
    pub fn launch<A: sealed::Lend + Arguments>(
        &self,
        arguments: A,
        work: impl for<'a> FnOnce(A::Slices<'a>) + Send + 'static,
    ) -> Result<()> {
        self.stream_handle().note_gap("work of `Host::launch`, which runs once: use `Host::launch_kernel`");
        self.launch_listed(arguments, work, |_| ())
    }

    /// As [`launch`](Host::launch), for work that `list` adds to a capture's list.
    pub(super) fn launch_listed<A: sealed::Lend>(
        &self,
        mut arguments: A,
        work: impl for<'a> FnOnce(A::Slices<'a>) + Send + 'static,
        list: impl FnOnce(&A::Elements),
    ) -> Result<()> {
        self.stream_handle().check_thread()?;
        self.stream_handle().check()?;
        // SAFETY: only the work that is pushed next gets the elements. It gives its slices up when it ends, because it accepts
        // them for any lifetime. The arrays were borrowed when the work was queued, shared or exclusively. The work
        // runs behind earlier uses (`elements`) and before later ones: the array knows this
        // stream until it is dropped. It orders behind the stream everyone who writes the array, or reads what the work wrote: a
        // caller, who waits, other work, or the next array in the memory. The work itself, which is such a caller if it owns the array, gets no
        // other slice of what it was lent (`LentSlices`).
        let elements = unsafe { arguments.elements(self) }?;
        list(&elements);
        if self.0.is_synchronous() {
            check::<A>(&elements).map_err(Error::panicked)?;
            assert_nothing_held();
            work(A::slices(elements));
            return Ok(());
        }
        let outcome = Arc::<Outcome>::default();
        arguments.expect(&outcome);
        self.0.push(move |lent| {
            outcome.settle(|| {
                check::<A>(&elements)?;
                lent.note(|arrays| add_addresses::<A>(&elements, arrays));
                work(A::slices(elements));
                Ok(())
            });
        });
        Ok(())
    }
}
