//! Checks once, before ranks start, that the options fit together.

use crate::common::Result;
use crate::gpt::text::Text;
use crate::options::{Defaults, Event, Options, Reduce};
use crate::training::share;

/// # Errors
/// If `ranks` ranks cannot train with these options.
pub(crate) fn check(options: &Options, ranks: usize, is_on_host: bool) -> Result<()> {
    if is_on_host && options.reduce == Reduce::Nccl {
        return Err("NCCL is for GPUs: leave --reduce nccl out on the host".into());
    }
    let defaults = if is_on_host { Defaults::HOST } else { Defaults::GPU };
    share(&options.sizes(defaults, Text::load()?.vocabulary())?, ranks)?;
    for (name, event) in [("--fail", options.fail), ("--kill", options.kill)] {
        event.map_or(Ok(()), |event| check_event(name, event, ranks, options.steps))?;
    }
    Ok(())
}

fn check_event(name: &str, event: Event, ranks: usize, steps: u32) -> Result<()> {
    let Event { rank, step } = event;
    if rank < ranks && (1..=steps).contains(&step) {
        return Ok(());
    }
    let (ranks, steps) = (range(0, ranks.saturating_sub(1)), range(1, steps as usize));
    Err(format!("{name} {rank}:{step} is out of range: the rank must be {ranks}, and the step {steps}").into())
}

fn range(first: usize, last: usize) -> String {
    if first == last { first.to_string() } else { format!("from {first} to {last}") }
}

/// The differences between the options of a rank and those of rank 0, each as name and value in the same order. `None` if they are equal.
pub(crate) fn difference(own: &[(String, String)], first: &[(String, String)]) -> Option<String> {
    let differs = |((name, own), (_, first)): (&(String, String), &(String, String))| {
        (own != first).then(|| format!("{name} is {own}, and {first} on rank 0"))
    };
    let found: Vec<String> = own.iter().zip(first).filter_map(differs).collect();
    (!found.is_empty()).then(|| found.join("; "))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn options(arguments: &str) -> Options {
        Options::parse_from("parallel --device host".split(' ').chain(arguments.split_whitespace()))
    }

    #[test]
    fn events_outside_of_the_training_are_refused() {
        for (name, fits) in [("--fail", "1:5"), ("--kill", "0:1")] {
            assert!(check(&options(&format!("{name} {fits} --steps 5")), 2, true).is_ok());
            for wrong in ["3:5", "2:1", "1:6", "1:0"] {
                let error = check(&options(&format!("{name} {wrong} --steps 5")), 2, true).unwrap_err().to_string();
                let expected = "the rank must be from 0 to 1, and the step from 1 to 5";
                assert!(
                    error.starts_with(&format!("{name} {wrong} is out of range")) && error.ends_with(expected),
                    "{error}"
                );
            }
        }
    }

    #[test]
    fn one_rank_is_no_range() {
        let error = check(&options("--fail 1:2 --steps 1"), 1, true).unwrap_err().to_string();
        assert!(error.ends_with("the rank must be 0, and the step 1"), "{error}");
    }

    #[test]
    fn a_dry_run_refuses_what_it_does_not_do() {
        for other in ["--check", "--fail 0:1", "--kill 0:1"] {
            let arguments = format!("parallel --dry-run {other}");
            let error = Options::try_parse_from(arguments.split_whitespace()).unwrap_err().to_string();
            assert!(error.contains("'--dry-run' cannot be used with"), "{error}");
        }
    }

    #[test]
    fn options_that_differ_are_named() {
        let first = options("").shared(Defaults::HOST);
        let same = options("--batch 8 --bucket 64KiB --json --gpus 2 --fail 0:1").shared(Defaults::HOST);
        assert_eq!(difference(&same, &first), None, "defaults may be written out");
        let other = options("--seed 2 --shard --bucket 8KiB --heads 8").shared(Defaults::HOST);
        let expected = "--bucket is 8192 bytes, and 65536 bytes on rank 0; --shard is on, and off on rank 0; \
                        --heads is 8, and 4 on rank 0; --seed is 2, and 1 on rank 0";
        assert_eq!(difference(&other, &first).as_deref(), Some(expected));
    }
}
