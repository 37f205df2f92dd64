//! Programs that allocate through cudarc inside gpucache's scopes, over the made-up driver of `tests/driver`.
//!
//! The argument names a program. It prints one JSON object, or it prints the problem and fails. With the feature `foreign` it also
//! checks that gpucache served the allocations. Without the feature, it is the same program with plain cudarc.

mod driver;
mod empty;
mod exit;
mod front_end;
mod handles;
mod hazards;
mod mistakes;
mod placed;
mod report;
mod shortage;
mod slices;
mod step;
mod storm;
mod streams;
mod threads;

use std::process::ExitCode;

use report::Outcome;

type Program = fn() -> Outcome;

const PROGRAMS: [(&str, Program); 26] = [
    ("step", step::run),
    ("empty", empty::run),
    ("threads", threads::run),
    ("streams", streams::run),
    ("no_context", mistakes::no_context),
    ("other_stream", handles::other_stream),
    ("double_free", mistakes::double_free),
    ("sync_pair", handles::sync_pair),
    ("oom", shortage::oom),
    ("exit", exit::run),
    ("no_driver", mistakes::no_driver),
    ("info", shortage::info),
    ("first_use", hazards::first_use),
    ("own_library", hazards::own_library),
    ("host_without_context", hazards::host_without_context),
    ("current_context", hazards::current_context),
    ("no_place", hazards::no_place),
    ("sizes", hazards::sizes),
    ("host_refused", hazards::host_refused),
    ("host_at_once", hazards::host_at_once),
    ("adopted", hazards::adopted),
    ("storm", storm::run),
    ("placed", placed::run),
    ("unseen_end", hazards::unseen_end),
    ("thread_end", hazards::thread_end),
    ("destroyed_meanwhile", hazards::destroyed_meanwhile),
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, program)) = PROGRAMS.iter().find(|(known, _)| *known == name) else {
        eprintln!("one of {:?}", PROGRAMS.map(|(name, _)| name));
        return ExitCode::from(2);
    };
    match program() {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
