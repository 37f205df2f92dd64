//! Random programs by number: how many run, and which one failed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::process::number;

/// Runs `program` for the seeds below `PROGRAMS` divided by `share`, or below `usual` divided by `share` if the environment does
/// not say. If the environment has `SEED`, runs only that seed. Reports which seed failed.
///
/// # Panics
/// As the program does.
pub fn each(usual: u64, share: u64, program: impl FnMut(u64)) {
    each_and(&[], usual, share, program);
}

/// As [`each`], for these seeds before all others.
///
/// # Panics
/// As the program does.
pub fn each_and(found: &[u64], usual: u64, share: u64, mut program: impl FnMut(u64)) {
    let seeds = match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("PROGRAMS").unwrap_or(usual) / share,
    };
    for seed in found.iter().copied().chain(seeds) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| program(seed))) {
            eprintln!("SEED={seed} fails");
            resume_unwind(panic);
        }
    }
}
