//! Work on a host's stream, and the arrays that it is lent.
//!
//! Invariant: the elements of an array are lent to queued work only in the stream's order, and to work that is done at once only
//! while none on the array is queued.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::sync::Arc;

use super::{Elements, ElementsMut};
use crate::array::{Array, Element};
use crate::device::{Device, Host};
use gpucache_engine::base::held::assert_nothing_held;
use gpucache_engine::record::{Failure, Outcome};
use gpucache_engine::{Error, Result};

/// What [`Host::launch`] lends to work: a reference to an array; a tuple of up to twelve or a `Vec` of any number of those, of
/// tuples and of `Vec`s; or nothing: `()`.
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

/// Whether an array is ordered with work of `stream` by streams alone; if not, this waited for what uses it.
fn is_late<T: Element>(array: &Array<T, Host>, stream: &Host) -> Result<bool> {
    match (array.device().0.is_synchronous(), stream.0.is_synchronous()) {
        (true, true) => Ok(false),
        (false, false) => Ok(true),
        (false, true) => {
            array.block.read_on(array.block.stream())?;
            array.device().0.finish().map(|()| false)
        }
        (true, false) => Err(Error::unavailable(
            "an array of the host's default stream",
            "work that a stream does later may outlive it",
            "allocate it on a stream of `Host::new_stream()`",
        )),
    }
}

/// What the work is lent of one array.
pub struct Lent<E> {
    elements: E,
    /// Of the late work that wrote the array before.
    before: Option<Arc<Outcome>>,
}

mod sealed {
    use super::{Arc, Failure, Host, Outcome, Result};

    #[diagnostic::on_unimplemented(
        message = "`{Self}` cannot be lent to work on a host's stream: pass `&array`, `&mut array`, or a tuple of up to twelve or a `Vec` of these",
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
        unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements>;

        /// Keeps the work's outcome with the arrays that it is to write.
        fn expect(&mut self, outcome: &Arc<Outcome>);

        /// In the work's turn: whether each of the arrays is what earlier work was to make of it.
        fn check(elements: &Self::Elements) -> Result<(), Failure>;

        fn slices<'a>(elements: Self::Elements) -> Self::Slices<'a>;
    }
}

fn check<E>(lent: &Lent<E>) -> Result<(), Failure> {
    lent.before.as_ref().map_or(Ok(()), |outcome| outcome.check())
}

#[diagnostic::do_not_recommend]
impl<T: Element> sealed::Lend for &Array<T, Host> {
    type Slices<'a> = &'a [T];
    type Elements = Lent<Elements<'static, T>>;

    unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
        if is_late(self, stream)? {
            self.block.read_on(stream.stream_handle())?;
        }
        // For as long as the work takes, which is all of the time that they are used.
        let elements = Elements { address: self.block.address(), len: self.len(), slice: PhantomData };
        Ok(Lent { elements, before: self.block.outcome() })
    }

    fn expect(&mut self, _: &Arc<Outcome>) {}

    fn check(lent: &Self::Elements) -> Result<(), Failure> {
        check(lent)
    }

    fn slices<'a>(lent: Self::Elements) -> &'a [T] {
        lent.elements.slice()
    }
}

#[diagnostic::do_not_recommend]
impl<T: Element> sealed::Lend for &mut Array<T, Host> {
    type Slices<'a> = &'a mut [T];
    type Elements = Lent<ElementsMut<'static, T>>;

    unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
        if stream.0.is_synchronous() {
            self.block.end_uses()?;
        }
        if is_late(self, stream)? {
            self.block.write_on(stream.stream_handle())?;
        }
        // For as long as the work takes, which is all of the time that they are used.
        let elements = ElementsMut { address: self.block.address(), len: self.len(), slice: PhantomData };
        Ok(Lent { elements, before: self.block.outcome() })
    }

    fn expect(&mut self, outcome: &Arc<Outcome>) {
        self.block.set_outcome(Some(outcome.clone()));
    }

    fn check(lent: &Self::Elements) -> Result<(), Failure> {
        check(lent)
    }

    fn slices<'a>(lent: Self::Elements) -> &'a mut [T] {
        lent.elements.slice()
    }
}

#[diagnostic::do_not_recommend]
impl<A: sealed::Lend> sealed::Lend for Vec<A> {
    type Slices<'a> = Vec<A::Slices<'a>>;
    type Elements = Vec<A::Elements>;

    unsafe fn elements(&mut self, stream: &Host) -> Result<Self::Elements> {
        // SAFETY: the caller promises of all arrays in the list what each of them asks for.
        self.iter_mut().map(|each| unsafe { each.elements(stream) }).collect()
    }

    fn expect(&mut self, outcome: &Arc<Outcome>) {
        self.iter_mut().for_each(|each| each.expect(outcome));
    }

    fn check(elements: &Self::Elements) -> Result<(), Failure> {
        elements.iter().try_for_each(A::check)
    }

    fn slices<'a>(elements: Self::Elements) -> Self::Slices<'a> {
        elements.into_iter().map(A::slices).collect()
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
                // SAFETY: the caller promises of all arrays in the tuple what each of them asks for.
                #[allow(unused_unsafe)]
                unsafe { Ok(($($name.elements(stream)?,)*)) }
            }

            fn expect(&mut self, outcome: &Arc<Outcome>) {
                let ($($name,)*) = self;
                $($name.expect(outcome);)*
            }

            fn check(elements: &Self::Elements) -> Result<(), Failure> {
                let ($($name,)*) = elements;
                $($name::check($name)?;)*
                Ok(())
            }

            fn slices<'a>(($($name,)*): Self::Elements) -> Self::Slices<'a> {
                ($($name::slices($name),)*)
            }
        })*
    };
}

tuples! {
    ; A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; A B C D E F G H I;
    A B C D E F G H I J; A B C D E F G H I J K; A B C D E F G H I J K L;
}

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
    /// Work that panics ends there, and the stream goes on. Its next fallible call returns the failure, and the arrays that were
    /// lent to the work by `&mut` are lost: whoever derefs them panics. Work that is lent such an array afterwards is not
    /// done, and what it was to write is lost too. An array that is overwritten by
    /// [`copy_from_slice`](Array::copy_from_slice) is whole again. On the default stream the caller himself panics.
    ///
    /// # Errors
    /// What earlier work met; [`is_panic`](crate::Error::is_panic) on the default stream if an array is lost;
    /// [`is_unavailable`](Error::is_unavailable) for an array of the default stream on another one,
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
        mut arguments: A,
        work: impl for<'a> FnOnce(A::Slices<'a>) + Send + 'static,
    ) -> Result<()> {
        self.stream_handle().check()?;
        // SAFETY: the work that is pushed next alone has the elements, and gives its slices up when it ends, as it
        // takes them for any lifetime. The arrays were borrowed when this was queued, shared or exclusively. The work
        // is done behind what used them before (`elements`), and before what uses them later: the array knows of this
        // stream until it is dropped, and orders behind it whoever writes it, or reads what is written here, be it a
        // caller, who waits, other work, or the next array in the memory.
        let elements = unsafe { arguments.elements(self) }?;
        if self.0.is_synchronous() {
            A::check(&elements)?;
            assert_nothing_held();
            work(A::slices(elements));
            return Ok(());
        }
        let outcome = Arc::<Outcome>::default();
        arguments.expect(&outcome);
        self.0.push(move || {
            outcome.settle(|| {
                A::check(&elements)?;
                work(A::slices(elements));
                Ok(())
            });
        });
        Ok(())
    }
}
