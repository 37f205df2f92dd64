//! A program, and the list of all programs.

use fastrand::Rng;

use crate::tape::Tape;
use crate::{other, serving, training};

/// A program of ordinary kind. Its sizes follow from the random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) run: fn(&Tape, &mut Rng),
}

/// All programs, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = &'static Program> {
    training::PROGRAMS.iter().chain(serving::PROGRAMS).chain(other::PROGRAMS)
}
