//! Operations that this crate listed during a capture, and runs again at each launch.
#![allow(unsafe_code)]

use std::any::Any;

use smallvec::SmallVec;

use crate::base::error::{Error, Result};
use crate::device::stream::Stream;
use crate::device::stream::capture::{Listed, Operation, Word, uncapturable};

impl Listed {
    pub(super) fn words(&self) -> Vec<Word> {
        self.operations.iter().flat_map(|(words, _)| words).copied().collect()
    }

    /// Says what has the word at this place of [`words`](Listed::words), for a message.
    pub(super) fn word_name(&self, place: usize) -> String {
        self.operations.iter().flat_map(names).nth(place).unwrap_or_default()
    }

    /// Replaces words by their places in [`words`](Listed::words).
    pub(super) fn set(&mut self, changes: &[(usize, u64)]) {
        let mut words: Vec<&mut Word> = self.operations.iter_mut().flat_map(|(words, _)| words).collect();
        for &(place, value) in changes {
            if let Some(word) = words.get_mut(place) {
                word.value = value;
            }
        }
    }

    /// Runs the operations on `stream`, up to the first one that fails. With its error comes whether others ran before.
    ///
    /// # Safety
    /// As for [`LaunchableGraph::launch`](super::LaunchableGraph::launch).
    pub(super) unsafe fn launch(&self, stream: &Stream, context: &dyn Any) -> Result<(), (Error, bool)> {
        self.operations.iter().enumerate().try_for_each(|(number, (words, operation))| {
            // Few operations have more words. A launch takes no memory of the heap for the others.
            let at: SmallVec<[u64; 4]> = words.iter().map(|word| word.value).collect();
            let bytes = words.first().map_or(0, |word| word.bytes as usize);
            // SAFETY: the caller promises the memory at each address, for as many bytes as the listed operation had. A copy has two blocks
            // that do not overlap, as the listed one had.
            let done = unsafe {
                match (operation, at.as_slice()) {
                    (Operation::Fill(pattern), &[to]) => stream.fill(to, bytes, pattern),
                    (Operation::Copy, &[from, to]) => stream.copy(from, to, bytes),
                    (Operation::Kernel(run), at) => run(at, context),
                    _ => Err(uncapturable("an operation with another number of addresses")),
                }
            };
            done.map_err(|error| (error, number > 0))
        })
    }
}

/// Names each address of an operation, for a message.
fn names((words, operation): &(Vec<Word>, Operation)) -> Vec<String> {
    match operation {
        Operation::Fill(_) => vec!["the destination of a fill".into()],
        Operation::Copy => vec!["the source of a copy".into(), "the destination of a copy".into()],
        Operation::Kernel(_) => {
            (1..=words.len()).map(|number| format!("array {number} of a kernel on the host")).collect()
        }
    }
}
