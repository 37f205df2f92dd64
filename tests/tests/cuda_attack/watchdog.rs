//! A watchdog for code that must not hang.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the process and names the hanging part, unless it is dropped within ten seconds.
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
