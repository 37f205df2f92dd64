//! Tests in processes of their own, and a watchdog for what must not hang.

use std::process::Command;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// Set in a process that runs one test.
const CHILD: &str = "GPUCACHE_ATTACK_CHILD";
/// The status of a process whose test came to its end. A process that ran no test has another one.
const DONE: i32 = 42;

/// Runs the closure of a test in a process of its own, and fails if that does not come to its end within `seconds`.
///
/// The closure is written in the test itself, whose path is the front of the closure's name.
pub(crate) fn alone<F: FnOnce()>(seconds: u64, body: F) {
    if std::env::var_os(CHILD).is_some() {
        body();
        std::process::exit(DONE);
    }
    let path = std::any::type_name::<F>().trim_end_matches("::{{closure}}");
    let name = path.split_once("::").map_or(path, |(_, name)| name);
    let _turn = gpucache_tests::turn();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([name, "--exact", "--include-ignored", "--nocapture", "--test-threads=1"]);
    let mut child = command.env(CHILD, "1").spawn().unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(seconds) {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.code(), Some(DONE), "{name}: {status}");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("{name} HANGS: it has not ended after {seconds} s");
}

/// Ends the process with a word on what hangs, unless it is dropped within ten seconds.
pub(crate) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(crate) fn over(what: &'static str) -> Watchdog {
        let (alive, end) = channel();
        std::thread::spawn(move || {
            if end.recv_timeout(Duration::from_secs(10)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("HANGS: {what} has not come to its end after 10 s");
                std::process::abort();
            }
        });
        Watchdog { _alive: alive }
    }
}
