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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn threads_work_by_turns_until_one_ends() {
        let (events, (turn, other)) = (Arc::new(Mutex::new(Vec::new())), Turn::pair());
        let note = |events: &Mutex<Vec<u32>>, number| events.lock().unwrap().push(number);
        let shared = events.clone();
        let thread = spawn(other, move |turn| {
            for number in [1, 3] {
                note(&shared, number);
                turn.pass();
            }
            note(&shared, 5);
        });
        for number in [0, 2, 4, 6, 7] {
            note(&events, number);
            turn.pass();
        }
        join(turn, thread);
        assert_eq!(*events.lock().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    }
}
