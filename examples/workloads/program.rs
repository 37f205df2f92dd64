//! A program, and the list of all programs.
//!
//! The number of steps of a program is a compromise. Plans need some tens of steps until they stay, and the table of all programs should
//! take seconds. So a run has 1,000 to 60,000 allocations.

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
