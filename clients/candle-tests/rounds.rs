//! Runs the body of a test several times inside one scope with the test's name, on the test's thread.

use std::process::{ExitCode, Termination};

use client_common::{print, scope_report, Mode};

/// The first rounds are recorded. A plan learned from them serves the others.
const ROUNDS: usize = 4;

/// Prints the scope's counters, which libtest shows with `--show-output`. `MODE=plain` leaves the scope out, to see whether a test
/// fails without gpucache.
pub fn rounds<R: Termination>(name: &'static str, body: fn() -> R) -> R {
    let mode = if std::env::var("MODE").is_ok_and(|mode| mode == "plain") { Mode::Plain } else { Mode::Scope };
    for round in 1..ROUNDS {
        assert_eq!(mode.run(name, body).report(), ExitCode::SUCCESS, "round {round} of {ROUNDS}");
    }
    let last = mode.run(name, body);
    if mode == Mode::Scope {
        print(&scope_report(name)).expect("a report of numbers and names");
    }
    last
}
