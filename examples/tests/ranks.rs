//! Ranks of `parallel` as processes of this host: they train as ranks that are threads do, and all of them end if one fails.
//!
//! Cargo builds the program as a user would, in this test's own folder of build products.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

const SMALL: &str =
    "--device host --json --layers 1 --width 32 --heads 2 --context 8 --batch 6 --steps 8 --bucket 8KiB";
/// The longest time until all ranks have ended after a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that is stopped with the test.
struct Running(Option<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Running {
    fn end(mut self) -> Output {
        let deadline = Instant::now() + PATIENCE;
        while self.0.as_mut().unwrap().try_wait().unwrap().is_none() {
            assert!(Instant::now() < deadline, "a rank still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

/// Builds the program once.
fn program() -> Command {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let mut command = Command::new(env!("CARGO"));
        // With the features of the whole workspace, with which it is already built.
        command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        command.args(["build", "--quiet", "--example", "parallel"]);
        if !cfg!(feature = "cuda") {
            command.arg("--no-default-features");
        }
        assert!(command.status().unwrap().success());
        // This test is in `deps`; the examples' folder is beside that.
        let here = std::env::current_exe().unwrap();
        let program = here.parent().unwrap().parent().unwrap().join("examples").join("parallel");
        program.with_extension(std::env::consts::EXE_EXTENSION)
    });
    let mut command = Command::new(built);
    for variable in ["RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "GPUCACHE_LIMIT", "GPUCACHE_TRACE"] {
        command.env_remove(variable);
    }
    command.args(SMALL.split(' '));
    command
}

fn run(arguments: &str) -> serde_json::Value {
    let done = program().args(arguments.split_whitespace()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Runs `ranks` processes as torchrun does, and returns how they ended. `last` are further arguments of the last rank.
fn processes(ranks: usize, arguments: &str, last: &str) -> Vec<Output> {
    // Another program may take the port between this and the start of rank 0, which says so.
    let port = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    for _ in 0..4 {
        let port = port();
        let start = |rank: usize| {
            let mut command = program();
            command.env("RANK", rank.to_string()).env("WORLD_SIZE", ranks.to_string());
            command.env("LOCAL_RANK", rank.to_string()).env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", &port);
            command.args(arguments.split_whitespace());
            command.args(last.split_whitespace().take(if rank + 1 == ranks { usize::MAX } else { 0 }));
            Running(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()))
        };
        let running: Vec<Running> = (0..ranks).map(start).collect();
        let ended: Vec<Output> = running.into_iter().map(Running::end).collect();
        if !errors(&ended[0]).contains("cannot listen") {
            return ended;
        }
    }
    panic!("no port is free");
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn processes_train_as_threads_do() {
    let ended = processes(3, "--shard --check", "");
    for output in &ended {
        assert!(output.status.success(), "{}", errors(output));
    }
    assert!(ended[1].stdout.is_empty() && ended[2].stdout.is_empty(), "only rank 0 reports");
    let processes: serde_json::Value = serde_json::from_slice(&ended[0].stdout).unwrap();
    let threads = run("--shard --gpus 3 --check");
    assert_eq!(processes["losses"], threads["losses"]);
    assert_eq!(processes["each"][2]["checksum"], threads["each"][0]["checksum"]);
    // Each process counts its own memory, so the ranks need as much as the dry run says.
    let estimate = run("--shard --gpus 3 --dry-run");
    for rank in processes["each"].as_array().unwrap() {
        let (found, expected) = (&rank["reserved_bytes"], estimate["reserved_bytes"].as_f64().unwrap());
        let apart = (found.as_f64().unwrap() - expected).abs() / expected;
        assert!(apart <= 0.01, "reserved {found} and estimated {expected}");
    }
}

#[test]
fn a_failing_rank_ends_all_processes_with_its_cause() {
    for (arguments, cause) in [
        ("--fail 2:3", "rank 2 failed: --fail ended it before step 3"),
        ("--fail 0:2", "rank 0 failed: --fail ended it before step 2"),
    ] {
        for output in processes(3, arguments, "") {
            assert!(!output.status.success() && errors(&output).contains(cause), "{}", errors(&output));
        }
    }
}

#[test]
fn a_killed_rank_ends_all_processes() {
    for (killed, cause) in [(1, "rank 1 ended without an error"), (0, "ended without an error")] {
        let ended = processes(3, &format!("--kill {killed}:4"), "");
        for (rank, output) in ended.iter().enumerate() {
            assert!(!output.status.success());
            assert!(rank == killed || errors(output).contains(cause), "rank {rank}: {}", errors(output));
        }
    }
}

#[test]
fn ranks_that_do_not_fit_are_errors() {
    for output in processes(2, "", "--seed 2") {
        let expected = "rank 1 has other options than rank 0: --seed is 2, and 1 on rank 0; start";
        assert!(errors(&output).contains(expected), "{}", errors(&output));
    }
    let mut both = program();
    both.args(["--gpus", "2"]).env("RANK", "0").env("WORLD_SIZE", "2").env("LOCAL_RANK", "0");
    let refused = both.env("MASTER_ADDR", "127.0.0.1").output().unwrap();
    assert!(errors(&refused).contains("leave one of them out"), "{}", errors(&refused));
}

#[test]
fn wrong_options_are_one_line_without_a_rank() {
    for (arguments, error) in [
        ("--gpus 4", "4 ranks cannot share 6 sequences evenly: choose a --batch that they divide"),
        ("--gpus 3 --heads 3", "a width of 32 is not shared evenly by 3 heads"),
        ("--gpus 3 --reduce nccl", "NCCL is for GPUs: leave --reduce nccl out on the host"),
        ("--gpus 3 --kill 3:1", "--kill 3:1 is out of range: the rank must be from 0 to 2, and the step from 1 to 8"),
    ] {
        let refused = program().args(arguments.split(' ')).output().unwrap();
        assert!(!refused.status.success());
        assert_eq!(errors(&refused).trim_end(), format!("parallel: {error}"));
    }
    for output in processes(2, "--fail 2:1", "") {
        let expected = "parallel: --fail 2:1 is out of range: the rank must be from 0 to 1, and the step from 1 to 8";
        assert_eq!(errors(&output).trim_end(), expected);
    }
}

#[test]
fn placed_arrays_on_the_device_are_live() {
    let live = |arguments: &str| {
        let report = run(arguments);
        let bytes = |name: &str| report["each"][0][name].as_u64().unwrap();
        let rests = bytes("optimizer_bytes") + 4 * report["parameters"].as_u64().unwrap();
        let (live, reserved) = (bytes("live_bytes"), bytes("reserved_bytes"));
        assert!(live > rests && live <= reserved, "{arguments}: {live} live, {rests} of state, {reserved} reserved");
        live as f64
    };
    for how in ["", "--preallocated"] {
        let ratio = live(&format!("{how} --placement auto")) / live(&format!("{how} --placement device"));
        assert!((0.8..1.2).contains(&ratio), "{how}: {ratio}");
    }
    // How many saved values of the other rank are alive at a reading depends on its speed.
    live("--gpus 2 --placement auto");
}
