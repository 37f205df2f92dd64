//! Two threads that work in turns, so that a program with two threads allocates in the same order in each run.

use std::sync::mpsc::{Receiver, Sender, channel};

/// One thread's side. The thread that holds it works until it passes the turn on.
#[derive(Debug)]
pub(crate) struct Turn {
    other: Sender<()>,
    own: Receiver<()>,
}

impl Turn {
    /// Both sides. The thread with the second one begins with [`wait`](Turn::wait).
    pub(crate) fn pair() -> (Self, Self) {
        let (first, second) = (channel(), channel());
        (Self { other: second.0, own: first.1 }, Self { other: first.0, own: second.1 })
    }

    /// Waits for the first turn.
    pub(crate) fn wait(&self) {
        // An error means that the other thread has ended, so nobody else works.
        let _ = self.own.recv();
    }

    /// Lets the other thread work, until it passes the turn back or ends.
    pub(crate) fn pass(&self) {
        if self.other.send(()).is_ok() {
            self.wait();
        }
    }
}

/// Starts a thread, which waits for its first turn.
pub(crate) fn spawn(turn: Turn, work: impl FnOnce(&Turn) + Send + 'static) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || {
        turn.wait();
        work(&turn);
    })
}

/// Ends this thread's turns, and waits for the end of the other thread.
pub(crate) fn join(turn: Turn, thread: std::thread::JoinHandle<()>) {
    drop(turn);
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}
