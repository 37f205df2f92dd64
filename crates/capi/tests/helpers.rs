//! Threads of backward passes that enter scopes themselves, as a checkpoint does that computes anew.
#![allow(clippy::unwrap_used)]

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

use gpucache_capi::{allocate, enter, free, leave};

/// The host.
const DEVICE: i32 = -1;

/// A thread that enters a scope at once, and leaves it once it is asked to.
struct Inside {
    ask: Sender<()>,
    has_entered: Receiver<()>,
    thread: JoinHandle<()>,
}

impl Inside {
    fn start(thread: &str, scope: &'static str) -> Inside {
        let ((ask, asked), (tell, has_entered)) = (channel(), channel());
        let work = move || {
            let entry = enter(scope).unwrap();
            free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
            tell.send(()).unwrap();
            asked.recv().unwrap();
            leave(entry).unwrap();
        };
        let inside = Inside { ask, has_entered, thread: Builder::new().name(thread.into()).spawn(work).unwrap() };
        inside.has_entered.recv().unwrap();
        inside
    }

    fn leave(self) {
        self.ask.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// A helper finds the thread that waits for it among all threads of the process, so one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_helper_leaves_the_scope_that_it_entered_for_another_caller() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let allocations = |name| gpucache::stats(name).map_or(0, |stats| stats.allocations());
    // A plan of an earlier thread may serve the scope `auto`. It is counted at the end of an entry, and this one does not end.
    let entries = || gpucache::stats("auto").map_or(0, |stats| stats.entries);
    let before = entries();
    let step = enter("step").unwrap();
    let helper = Inside::start("pt_autograd_0", "recompute");
    // From now on nobody knows for which of two threads a helper works.
    let other = Inside::start("other", "evaluate");
    helper.leave();
    other.leave();
    free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    leave(step).unwrap();
    // The entry of the helper is not left open: this allocation is in no scope of the program.
    free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    assert_eq!((allocations("recompute"), allocations("step"), entries() - before), (1, 1, 1));
}

/// A thread that ended waits for no helper. The next thread that takes over its caller has entered nothing.
#[test]
fn a_helper_does_not_work_for_a_thread_that_has_ended() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let outside = || free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    std::thread::spawn(outside).join().unwrap();
    let helper = Inside::start("pt_autograd_0", "of a helper");
    std::thread::spawn(outside).join().unwrap();
    helper.leave();
    assert_eq!(gpucache::stats("of a helper").unwrap().allocations(), 1);
}

/// Entries of a helper end with its thread. A helper cannot end those of the thread that it works for.
/// Outside of all scopes, a helper works in the name of the thread that allocated last. That thread may have nothing to do with it.
#[test]
fn the_scope_of_a_helper_outlives_the_thread_in_whose_name_it_was_entered() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let ((end, ends), (tell, has_allocated)) = (channel::<()>(), channel());
    let loader = std::thread::spawn(move || {
        free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
        tell.send(()).unwrap();
        ends.recv().unwrap();
    });
    has_allocated.recv().unwrap();
    let hook = move || {
        let entry = enter("hook").unwrap();
        end.send(()).unwrap();
        loader.join().unwrap();
        free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
        assert_eq!(gpucache::stats("hook").unwrap().allocations(), 1);
        leave(entry).unwrap();
        assert!(leave(entry).is_err());
    };
    Builder::new().name("pt_autograd_0".into()).spawn(hook).unwrap().join().unwrap();
    // The next thread takes the caller over, with no scope open.
    std::thread::spawn(|| free(allocate(4096, DEVICE, 0).unwrap()).unwrap()).join().unwrap();
    assert_eq!(gpucache::stats("hook").unwrap().allocations(), 1);
}

#[test]
fn a_helper_ends_its_own_scopes_and_no_others() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let allocations = |name| gpucache::stats(name).map_or(0, |stats| stats.allocations());
    let step = enter("step of its own").unwrap();
    let helps = move || {
        assert!(leave(step).is_err());
        enter("never left").unwrap();
        free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    };
    Builder::new().name("pt_autograd_0".into()).spawn(helps).unwrap().join().unwrap();
    assert_eq!(allocations("never left"), 1);
    free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    leave(step).unwrap();
    free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    assert_eq!((allocations("never left"), allocations("step of its own")), (1, 1));
}

/// The name of a thread is found without a file, so the first call of each thread takes no time, and no limit on open files matters.
#[test]
#[allow(unsafe_code)]
fn a_helper_is_known_if_the_process_cannot_open_files() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let helps = || free(allocate(4096, DEVICE, 0).unwrap()).unwrap();
    let step = enter("without files").unwrap();
    let mut before = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the system writes one limit, for which there is room.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut before) }, 0);
    let none = libc::rlimit { rlim_cur: 0, ..before };
    // SAFETY: the system reads one limit. Files that are open stay open.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) }, 0);
    let joined = Builder::new().name("pt_autograd_0".into()).spawn(helps).unwrap().join();
    // SAFETY: as above.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &before) }, 0);
    joined.unwrap();
    leave(step).unwrap();
    assert_eq!(gpucache::stats("without files").unwrap().allocations(), 1);
}
