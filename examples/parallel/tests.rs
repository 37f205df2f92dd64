//! Trainings with ranks as threads, on the host.
//!
//! Losses of several ranks differ from those of one rank by rounding. A gradient is a sum over all rows of a batch, and each rank sums its own
//! rows first. Such a sum of some hundred numbers differs by about 1e-6 of its size. AdamW divides a gradient by its own size, so the
//! parameters differ by as much of a step. After 12 steps, the losses here are near 4 and differ by less than 1e-5; [`NEAR`] leaves room.

use clap::Parser;

use crate::common::Result;
use crate::dry_run::estimate;
use crate::options::Options;
use crate::rank::threads;
use crate::report::{Report, counted};

/// Seven buckets of parameters. The largest parameter has a bucket of its own.
const SMALL: &str =
    "parallel --device host --json --check --layers 1 --width 32 --heads 2 --context 8 --steps 12 --bucket 8KiB";
const NEAR: f32 = 1e-4;

fn run(arguments: &str) -> Result<Report> {
    let options = Options::parse_from(SMALL.split(' ').chain(arguments.split_whitespace()));
    threads(&options, options.gpus.unwrap_or(1) as usize)
}

fn error(arguments: &str) -> String {
    run(arguments).unwrap_err().to_string()
}

#[test]
fn four_ranks_train_as_one_does() {
    let (one, four, sharded) = (run("").unwrap(), run("--gpus 4").unwrap(), run("--gpus 4 --shard").unwrap());
    assert!(one.losses()[11] < one.losses()[0] - 0.3, "the loss falls: {:?}", one.losses());
    for other in [&four, &sharded] {
        let apart = one.losses().iter().zip(other.losses()).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(apart < NEAR, "{apart}: {:?} and {:?}", one.losses(), other.losses());
        // `--check` has compared the ranks; here the trainings are compared. On the host, both sum in the same order.
        assert_eq!(other.each()[0].checksum, four.each()[0].checksum);
        assert!(other.each().iter().all(|rank| rank.hidden_share.is_some() && rank.communication_seconds > 0.0));
    }
    assert_ne!(one.each()[0].checksum, run("--seed 2").unwrap().each()[0].checksum);
}

#[test]
fn a_sharded_state_is_a_part_of_the_whole() {
    let bytes = |arguments| run(arguments).unwrap().each().iter().map(|rank| rank.optimizer_bytes).collect::<Vec<_>>();
    let (whole, parts) = (bytes("--steps 2 --gpus 4"), bytes("--steps 2 --gpus 4 --shard"));
    // Two moments of each number, and at most 64 numbers of padding for each part of the seven buckets.
    let rounding = 7 * 2 * 64 * 4;
    assert!(parts.iter().all(|&part| part >= whole[0] / 4 && part <= whole[0] / 4 + rounding), "{whole:?}, {parts:?}");
}

#[test]
fn the_place_of_arrays_changes_no_bit() {
    let losses = |arguments: &str| run(arguments).unwrap().losses().to_vec();
    let expected = losses("--gpus 2 --shard");
    for arguments in ["--preallocated", "--placement host", "--placement auto", "--bucket 1MiB"] {
        assert_eq!(losses(&format!("--gpus 2 --shard {arguments}")), expected, "{arguments}");
    }
    assert_eq!(losses("--gpus 2 --preallocated"), losses("--gpus 2"));
}

#[test]
fn a_dry_run_says_for_which_device() {
    for (arguments, device) in [("--device host --gpus 1", "the host"), ("--device auto --gpus 2", "a GPU")] {
        let options = Options::parse_from("parallel --dry-run --steps 1".split(' ').chain(arguments.split(' ')));
        let ranks = options.gpus.unwrap_or(1) as usize;
        let text = estimate(&options, ranks).unwrap().to_string();
        assert!(text.contains(&format!("\nestimate for        {device}\n")), "{text}");
        assert!(text.contains(&format!(", on {}\n", counted(ranks, "rank"))), "{text}");
    }
}

#[test]
fn one_rank_is_no_plural() {
    let text = run("--steps 1").unwrap().to_string();
    assert!(text.contains("network   1 layer, width 32, 2 heads, ") && text.contains("shared by 1 rank\n"), "{text}");
}

#[test]
fn a_failing_rank_ends_all_with_its_cause() {
    for arguments in ["--gpus 4 --fail 2:3", "--gpus 4 --fail 2:3 --shard", "--gpus 4 --fail 2:1 --bucket 1MiB"] {
        let error = error(arguments);
        assert!(error.starts_with("4 of 4 ranks ended with an error:"), "{error}");
        let causes: Vec<&str> = error.lines().skip(1).collect();
        assert_eq!(causes.len(), 4, "{error}");
        for (rank, cause) in causes.into_iter().enumerate() {
            assert!(
                cause.starts_with(&format!("  rank {rank}: rank 2 failed: --fail ended it before step ")),
                "{error}"
            );
        }
    }
}

#[test]
fn what_cannot_be_is_an_error() {
    for (arguments, expected) in [
        ("--gpus 3", "3 ranks cannot share 8 sequences evenly"),
        ("--reduce nccl", "NCCL is for GPUs"),
        ("--gpus 2 --heads 5", "a width of 32 is not shared evenly by 5 heads"),
    ] {
        let error = error(arguments);
        assert!(error.starts_with(expected) && error.lines().count() == 1, "{error}");
    }
}
