//! Arrays on their way between threads. They know their contents.

use gpucache::device::Virtual;
use gpucache::prelude::{Array, Host};
use gpucache::{Result, uncached};
use gpucache_tests::Marked;

/// An array that threads hand on.
pub(super) enum Load {
    Words(Row),
    /// An array on a stream of the host, of any type.
    Typed(Marked<Host>),
    /// An array without contents. Its device notices if two arrays have the same memory.
    Addresses(Array<u8, Virtual>),
}

/// An array on a stream of the host. Each element is one more than the element before.
pub(super) struct Row {
    array: Array<u32, Host>,
    first: u32,
    /// Whether its stream does work later, so that work of other streams can use the array.
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

    /// Raises every word by one, by work on `stream`. If other streams cannot use the array, its own stream does the work.
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
    /// If an element is not the written value.
    pub(super) fn check(&self) {
        match self {
            Load::Words(row) => assert!(is_row(&row.array, row.first), "a row that began with {}", row.first),
            Load::Typed(marked) => marked.check(),
            Load::Addresses(array) => assert!(!array.is_empty()),
        }
    }

    /// Another array with the same contents. For words the scope makes it, for other arrays the device.
    pub(super) fn another(&self) -> Result<Load> {
        Ok(match self {
            Load::Words(Row { array, first, is_late }) => {
                Load::Words(Row { array: array.try_clone()?, first: *first, is_late: *is_late })
            }
            Load::Typed(marked) => Load::Typed(uncached!({ marked.try_clone()? })),
            Load::Addresses(array) => Load::Addresses(uncached!({ array.try_clone()? })),
        })
    }

    /// Gives the array another shape. Also gives it other contents if that is as quick.
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

    /// Raises every word by one, by work on `stream` if that stream can use the array.
    pub(super) fn raise_on(&mut self, stream: &Host) -> Result<()> {
        match self {
            Load::Words(row) => row.raise_on(stream),
            Load::Typed(_) | Load::Addresses(_) => Ok(()),
        }
    }
}
