//! The arrays of a run: a visitor notes their addresses, and orders the launch of a graph with other uses.

use std::any::TypeId;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::array::{Array, Element};
use crate::device::Device;
use gpucache_engine::cache::Block;
use gpucache_engine::device::{Stream, Word};
use gpucache_engine::record::Outcome;
use gpucache_engine::{Error, Result};

/// Shows the arrays of [`Inputs`](super::Inputs) to a [`CapturedScope`](super::CapturedScope).
///
/// Invariant: the arrays are borrowed for `'v`, as long as the inputs. So they stay at their addresses until the run touches the
/// inputs again, also if `visit` is code of the program.
///
/// ```
/// use gpucache::graph::{Inputs, Visitor};
/// use gpucache::prelude::*;
///
/// struct Search {
///     table: Array<u32, Host>,
///     found: Array<u32, Host>,
/// }
///
/// fn show<'a>(search: &'a mut Search, visitor: &mut Visitor<'a, Host>) {
///     visitor.read(&search.table); // the block reads it
///     visitor.write(&mut search.found); // the block writes it
/// }
/// ```
pub struct Visitor<'v, D> {
    stream: &'v Stream,
    act: Act<'v>,
    /// The first failure.
    failure: Option<Error>,
    device: PhantomData<D>,
}

/// The treatment of each array.
pub(super) enum Act<'v> {
    /// Notes the arrays, and orders the next work on the stream with their other uses.
    Order(&'v mut RunArrays),
    /// Notes outputs, which are new and on the stream of the launch.
    Note(&'v mut Vec<Operand>),
    /// Stores the outcome of the launch in the arrays that it writes.
    Expect(&'v Arc<Outcome>),
    /// Copies the contents of the arrays that are written.
    Save(&'v mut Vec<Contents>),
    /// Writes these contents back, the first array's first.
    Restore(&'v mut std::vec::IntoIter<Contents>),
}

/// The contents of an array: the type of its elements, and their bytes.
pub(super) type Contents = (TypeId, Vec<u8>);

/// The arrays of a run.
#[derive(Default)]
pub(super) struct RunArrays {
    pub(super) arrays: Vec<Operand>,
    /// The length of each list of inputs, and of each `Option` (0 or 1).
    pub(super) lens: Vec<usize>,
    /// How many of them are inputs. The outputs follow.
    pub(super) inputs: usize,
    /// The outcomes of late work that wrote them.
    pub(super) outcomes: Vec<Arc<Outcome>>,
    /// Whether some array cannot be ordered with a launch.
    pub(super) is_apart: bool,
}

/// An array that a graph uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Operand {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) is_written: bool,
    /// The type of the elements: the bytes of one type need not be those of another.
    pub(super) element: TypeId,
}

impl Operand {
    #[inline]
    pub(super) fn of<T: Element>(block: &Block, is_written: bool) -> Operand {
        Operand { address: block.address(), bytes: block.bytes() as u64, is_written, element: TypeId::of::<T>() }
    }

    /// Whether it is the same array, perhaps at another address.
    #[inline]
    pub(super) fn is_like(&self, other: &Operand) -> bool {
        self.bytes == other.bytes && self.is_written == other.is_written && self.element == other.element
    }

    #[inline]
    pub(super) fn contains(&self, address: u64) -> bool {
        address.wrapping_sub(self.address) < self.bytes
    }

    /// Whether the work uses only this array there, and in its type, as far as that is known.
    pub(super) fn holds(&self, word: &Word) -> bool {
        let rest = self.bytes.saturating_sub(word.value.wrapping_sub(self.address));
        self.contains(word.value) && word.bytes <= rest && word.element.is_none_or(|element| element == self.element)
    }
}

impl RunArrays {
    pub(super) fn clear(&mut self) {
        self.arrays.clear();
        self.lens.clear();
        self.outcomes.clear();
        self.is_apart = false;
    }

    #[inline]
    fn note<T: Element>(&mut self, block: &Block, stream: &Stream, is_written: bool) {
        self.arrays.push(Operand::of::<T>(block, is_written));
        if !stream.can_capture() {
            self.note_on_host(block, stream);
        }
    }

    /// Only a GPU orders a launch with other streams by itself. Work of the host may have failed to write an array.
    fn note_on_host(&mut self, block: &Block, stream: &Stream) {
        self.is_apart |= block.stream().queue() != stream.queue() || block.is_used_elsewhere();
        self.outcomes.extend(block.outcome());
    }
}

impl<'v, D: Device> Visitor<'v, D> {
    pub(super) fn new(device: &'v D, act: Act<'v>) -> Visitor<'v, D> {
        Visitor { stream: device.stream_handle(), act, failure: None, device: PhantomData }
    }

    pub(super) fn end(self) -> Result<()> {
        self.failure.map_or(Ok(()), Err)
    }

    /// Shows that so many inputs follow. Without it, the arrays of two lists could be those of one.
    #[inline]
    pub(super) fn list(&mut self, len: usize) {
        if let Act::Order(seen) = &mut self.act {
            seen.lens.push(len);
        }
    }

    /// Shows an array that the block reads.
    ///
    /// ```
    /// use gpucache::{graph::Visitor, prelude::*};
    ///
    /// fn show<'a>(weights: &'a [Array<f32, Host>], visitor: &mut Visitor<'a, Host>) {
    ///     weights.iter().for_each(|array| visitor.read(array));
    /// }
    /// ```
    #[inline]
    pub fn read<T: Element>(&mut self, array: &'v Array<T, D>) {
        if let Act::Order(seen) = &mut self.act {
            seen.note::<T>(&array.block, self.stream, false);
            let ordered = array.block.read_on(self.stream);
            self.failure = self.failure.take().or(ordered.err());
        }
    }

    /// Shows an array that the block writes.
    ///
    /// ```
    /// use gpucache::{graph::Visitor, prelude::*};
    ///
    /// fn show<'a>(moments: &'a mut [Array<f32, Host>], visitor: &mut Visitor<'a, Host>) {
    ///     moments.iter_mut().for_each(|array| visitor.write(array));
    /// }
    /// ```
    #[inline]
    pub fn write<T: Element>(&mut self, array: &'v mut Array<T, D>) {
        let done = match &mut self.act {
            Act::Order(seen) => {
                seen.note::<T>(&array.block, self.stream, true);
                array.block.write_on(self.stream)
            }
            Act::Note(outputs) => {
                outputs.push(Operand::of::<T>(&array.block, true));
                Ok(())
            }
            Act::Expect(outcome) => {
                array.block.set_outcome(Some(outcome.clone()));
                Ok(())
            }
            Act::Save(contents) => array.contents().map(|bytes| contents.push((TypeId::of::<T>(), bytes))),
            Act::Restore(contents) => match contents.next() {
                // An implementation of `Inputs` may show another array than before: bytes of one type need not be those of another.
                Some((element, bytes)) if element == TypeId::of::<T>() && bytes.len() == array.block.bytes() => {
                    array.block.write(&bytes)
                }
                _ => Ok(()),
            },
        };
        self.failure = self.failure.take().or(done.err());
    }
}
