//! Arrays that travel between threads, and know their contents.

use gpucache::device::Virtual;
use gpucache::prelude::{Array, Host};
use gpucache::{Result, uncached};
use gpucache_tests::Marked;

/// An array that threads pass on.
pub(super) enum Load {
    Words(Row),
    /// On a stream of the host, of any type.
    Typed(Marked<Host>),
    /// Without contents: its device knows whether it overlaps another array.
    Addresses(Array<u8, Virtual>),
}

/// An array on a stream of the host. Each element is one more than the previous one.
pub(super) struct Row {
    array: Array<u32, Host>,
    first: u32,
    /// Whether its stream does work later, so work of other streams can use it.
    is_late: bool,
}

/// The contents of a row of words that begins with `first`.
fn row(first: u32, len: usize) -> impl Iterator<Item = u32> {
    (0..len as u32).map(move |place| first.wrapping_add(place))
}

/// Whether `words` are the row that begins with `first`.
fn is_row(words: &[u32], first: u32) -> bool {
    words.iter().copied().eq(row(first, words.len()))
}

impl Row {
    fn new(stream: &Host, is_late: bool, len: usize, first: u32) -> Result<Row> {
        if first.is_multiple_of(2) {
            let array = Array::from_slice(stream, len, &row(first, len).collect::<Vec<u32>>())?;
            return Ok(Row { array, first, is_late });
        }
        let mut array = Array::zeros(stream, len)?;
        stream
            .launch(&mut array, move |words| words.iter_mut().zip(row(first, len)).for_each(|(word, n)| *word = n))?;
        Ok(Row { array, first, is_late })
    }

    /// Adds one to every word, with work on `stream`, or on its own stream if others cannot use it.
    fn raise_on(&mut self, stream: &Host) -> Result<()> {
        let (own, before) = (self.array.device().clone(), self.first);
        self.first = before.wrapping_add(1);
        let stream = if self.is_late { stream } else { &own };
        stream.launch(&mut self.array, move |words| {
            assert!(is_row(words, before), "work found something else than a row that began with {before}");
            words.iter_mut().for_each(|word| *word = word.wrapping_add(1));
        })
    }
}

impl Load {
    /// A row of words, written at once or by work on its stream.
    pub(super) fn words(stream: &Host, is_late: bool, len: usize, first: u32) -> Result<Load> {
        Row::new(stream, is_late, len, first).map(Load::Words)
    }

    /// # Panics
    /// If an element is not what was written.
    pub(super) fn check(&self) {
        match self {
            Load::Words(row) => assert!(is_row(&row.array, row.first), "a row that began with {}", row.first),
            Load::Typed(marked) => marked.check(),
            Load::Addresses(array) => assert!(!array.is_empty()),
        }
    }

    /// Another one with the same contents: words come from the scope, others from the device.
    pub(super) fn another(&self) -> Result<Load> {
        Ok(match self {
            Load::Words(Row { array, first, is_late }) => {
                Load::Words(Row { array: array.try_clone()?, first: *first, is_late: *is_late })
            }
            Load::Typed(marked) => Load::Typed(uncached!({ marked.try_clone()? })),
            Load::Addresses(array) => Load::Addresses(uncached!({ array.try_clone()? })),
        })
    }

    /// Gives it another shape, and other contents if that is as quick.
    pub(super) fn reshape(self) -> Result<Load> {
        Ok(match self {
            Load::Words(Row { array, first, is_late }) => {
                let shape = [1, array.len(), 1];
                Load::Words(Row { array: array.reshape(shape)?, first, is_late })
            }
            Load::Typed(marked) => {
                let mut marked = marked.flatten()?;
                marked.rewrite(7)?;
                Load::Typed(marked)
            }
            Load::Addresses(array) => {
                let shape = [array.len(), 1];
                Load::Addresses(array.reshape(shape)?)
            }
        })
    }

    /// Adds one to every word, with work on `stream` if it can use them.
    pub(super) fn raise_on(&mut self, stream: &Host) -> Result<()> {
        match self {
            Load::Words(row) => row.raise_on(stream),
            Load::Typed(_) | Load::Addresses(_) => Ok(()),
        }
    }
}
