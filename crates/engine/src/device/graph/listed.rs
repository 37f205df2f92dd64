//! Operations that this crate listed during a capture, and runs again at each launch.
#![allow(unsafe_code)]

use std::any::Any;

use crate::base::error::Result;
use crate::device::stream::Stream;
use crate::device::stream::capture::{Listed, Operation, Word, uncapturable};

impl Listed {
    /// The same list, if it has all of the work.
    ///
    /// # Errors
    /// [`is_unavailable`](crate::Error::is_unavailable) if some of the work is not in the list.
    pub(super) fn without_gap(self) -> Result<Listed> {
        self.gap.map_or(Ok(self), |gap| Err(uncapturable(gap)))
    }

    pub(super) fn words(&self) -> Vec<Word> {
        let mut words = Vec::new();
        for operation in &self.operations {
            match operation {
                Operation::Fill { to, bytes, .. } => words.push(Word::address(*to, *bytes, true)),
                Operation::Copy { from, to, bytes } => {
                    words.extend([Word::address(*from, *bytes, false), Word::address(*to, *bytes, true)]);
                }
                Operation::Kernel { arrays, .. } => words.extend(arrays),
            }
        }
        words
    }

    /// Says what has the word at this place of [`words`](Listed::words), for a message.
    pub(super) fn word_name(&self, place: usize) -> String {
        self.operations.iter().flat_map(names).nth(place).unwrap_or_default()
    }

    /// Replaces words by their places in [`words`](Listed::words).
    pub(super) fn set(&mut self, changes: &[(usize, u64)]) {
        let mut words: Vec<&mut u64> = self.operations.iter_mut().flat_map(addresses).collect();
        for &(place, value) in changes {
            if let Some(word) = words.get_mut(place) {
                **word = value;
            }
        }
    }

    /// Runs the operations on `stream`.
    ///
    /// # Safety
    /// As for [`LaunchableGraph::launch`](super::LaunchableGraph::launch).
    pub(super) unsafe fn launch(&self, stream: &Stream, context: &dyn Any) -> Result<()> {
        self.operations.iter().try_for_each(|operation| {
            // SAFETY: the caller promises the memory at each address, for as many bytes as the listed operation had. A copy has two blocks
            // that do not overlap, as the listed one had.
            unsafe {
                match operation {
                    Operation::Fill { to, bytes, pattern } => stream.fill(*to, *bytes, pattern),
                    Operation::Copy { from, to, bytes } => stream.copy(*from, *to, *bytes),
                    Operation::Kernel { arrays, run } => {
                        run(&arrays.iter().map(|array| array.value).collect::<Vec<_>>(), context)
                    }
                }
            }
        })
    }
}

/// The addresses of an operation, in the order of [`Listed::words`].
fn addresses(operation: &mut Operation) -> Vec<&mut u64> {
    match operation {
        Operation::Fill { to, .. } => vec![to],
        Operation::Copy { from, to, .. } => vec![from, to],
        Operation::Kernel { arrays, .. } => arrays.iter_mut().map(|array| &mut array.value).collect(),
    }
}

/// What an operation's addresses are, in the same order.
fn names(operation: &Operation) -> Vec<String> {
    match operation {
        Operation::Fill { .. } => vec!["the destination of a fill".into()],
        Operation::Copy { .. } => vec!["the source of a copy".into(), "the destination of a copy".into()],
        Operation::Kernel { arrays, .. } => {
            (1..=arrays.len()).map(|number| format!("array {number} of a kernel on the host")).collect()
        }
    }
}
