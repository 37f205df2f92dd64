//! Errands. An errand is work that one thread does for all threads that need it, while the other threads wait for it. They do not wait
//! while that thread runs code of the program, since this code may itself wait for them: the errand is then paused.
//!
//! The errands of a thread end in the reverse order of their beginnings. If some of them are paused, these are the first ones
//! (`PerThread::paused`).

use std::cell::{OnceCell, RefCell};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::finally::{Finally, finally};
use super::held::assert_nothing_held;
use super::per_thread::THREAD;
use super::sync::{Condvar, Mutex, MutexGuard, lock};

thread_local! {
    pub(crate) static ENDING: Ending = Ending::default();
}

/// Values of one thread that are dropped when the thread ends. Code that uses them later does without them.
#[derive(Default)]
pub(crate) struct Ending {
    /// Identifies the thread, and shows other threads whether it still lives (`order/slot`).
    pub(crate) alive: OnceCell<Arc<()>>,
    /// The errands of the thread, the latest last.
    errands: RefCell<Vec<Arc<Errand>>>,
    /// Code of the program that runs once the thread has ended all its errands.
    after: RefCell<Vec<Box<dyn FnOnce()>>>,
}

/// How many threads are doing this errand.
#[derive(Debug, Default)]
struct Threads {
    /// All of them. A second thread begins only while every other one is paused.
    all: usize,
    /// The threads that are not paused: they do not run code of the program now.
    running: usize,
}

/// One kind of work, which threads do again and again.
#[derive(Debug, Default)]
pub struct Errand {
    threads: Mutex<Threads>,
    changed: Condvar,
}

/// Shows that the calling thread does the errand, until this value is dropped.
#[derive(Debug)]
pub struct Turn<'a> {
    errand: &'a Arc<Errand>,
    /// Whether other threads do this errand too. All of them then ran code of the program when this turn began.
    pub is_beside_others: bool,
    /// False if the turn began while the thread was ending. Nothing could pause the errand then, so no thread waits for it.
    is_counted: bool,
}

/// Calls `act` with the errands of the thread. It returns `None` if the thread is ending, since the thread has no list of errands then.
fn with_mine<R>(act: impl FnOnce(&mut Vec<Arc<Errand>>) -> R) -> Option<R> {
    ENDING.try_with(|ending| act(&mut ending.errands.borrow_mut())).ok()
}

impl Errand {
    fn change(&self, change: impl FnOnce(&mut Threads)) {
        change(&mut lock(&self.threads));
        self.changed.notify_all();
    }

    /// Whether the calling thread does this errand. If so, the caller is code of the program that runs during the errand.
    pub fn is_mine(self: &Arc<Self>) -> bool {
        with_mine(|mine| mine.iter().any(|errand| Arc::ptr_eq(self, errand))).unwrap_or(false)
    }

    /// Lets the calling thread begin the errand, unless another thread is doing it.
    pub fn try_begin(self: &Arc<Self>) -> Option<Turn<'_>> {
        let threads = lock(&self.threads);
        if threads.all == 0 { self.begin_among(threads) } else { None }
    }

    /// Lets the calling thread begin the errand. If another thread is doing it and is not paused, this waits until that thread has ended or
    /// paused it, and returns `None`.
    pub fn begin(self: &Arc<Self>) -> Option<Turn<'_>> {
        let mut threads = lock(&self.threads);
        if threads.running == 0 {
            return self.begin_among(threads);
        }
        while threads.running > 0 {
            threads = self.changed.wait(threads).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn begin_among<'a>(self: &'a Arc<Self>, mut threads: MutexGuard<'_, Threads>) -> Option<Turn<'a>> {
        let is_beside_others = threads.all > 0;
        let is_counted = with_mine(|mine| mine.push(self.clone())).is_some();
        if is_counted {
            threads.all += 1;
            threads.running += 1;
        }
        Some(Turn { errand: self, is_beside_others, is_counted })
    }

    /// Waits until no thread does this errand. It waits without a limit for threads that are not paused, and up to `most` for threads that
    /// are. Returns whether there were such threads and none is left.
    pub fn wait_for_others(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let mut threads = lock(&self.threads);
        let were_others = threads.all > 0;
        while threads.all > 0 {
            let left = until.saturating_duration_since(Instant::now());
            threads = match threads.running {
                0 if left.is_zero() => return false,
                0 => self.changed.wait_timeout(threads, left).unwrap_or_else(PoisonError::into_inner).0,
                _ => self.changed.wait(threads).unwrap_or_else(PoisonError::into_inner),
            };
        }
        were_others
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.is_counted {
            return;
        }
        with_mine(|mine| {
            let place = mine.iter().rposition(|errand| Arc::ptr_eq(self.errand, errand));
            place.map(|place| mine.remove(place))
        });
        self.errand.change(|threads| {
            threads.all -= 1;
            threads.running -= 1;
        });
        run_after();
    }
}

/// Runs code of the program once the thread has no errand: at once if it has none. Code that ran during an errand would pause the errand,
/// and another thread would do the same work at the same time.
#[cfg(any(feature = "tracing", test))]
pub(crate) fn after_errands(act: impl FnOnce() + 'static) {
    let mut act = Some(act);
    if with_mine(|mine| !mine.is_empty()).unwrap_or(false) {
        let _ = ENDING.try_with(|ending| act.take().map(|act| ending.after.borrow_mut().push(Box::new(act))));
    }
    act.into_iter().for_each(run_user_code);
}

/// Runs the code that waited for the end of the thread's errands.
fn run_after() {
    let is_free = with_mine(|mine| mine.is_empty()).unwrap_or(true);
    let after = if is_free { ENDING.try_with(|ending| ending.after.take()) } else { Ok(Vec::new()) };
    // A panic in this code during the unwinding of another panic would abort the process.
    if !std::thread::panicking() {
        after.into_iter().flatten().for_each(run_user_code);
    }
}

/// Runs a function in the thread's own name, where the thread works in the name of another caller (`cache/caller`). Unset if the process has
/// no such callers.
pub(crate) static IN_OWN_NAME: OnceLock<fn(&mut dyn FnMut())> = OnceLock::new();

/// Runs code of the program, in the thread's own name. The thread must hold no lock of this crate. Its errands are paused, so no other thread
/// waits for them.
#[inline]
pub(crate) fn run_user_code(act: impl FnOnce()) {
    assert_nothing_held();
    let _paused = pause();
    match IN_OWN_NAME.get() {
        Some(in_own_name) => {
            let mut act = Some(act);
            in_own_name(&mut || act.take().into_iter().for_each(|act| act()));
        }
        None => act(),
    }
}

/// Pauses the errands of the thread while the returned value lives. Errands that were paused before, the first ones, stay as they are.
fn pause() -> Finally<impl FnMut()> {
    let before = THREAD.with(|thread| thread.paused.get());
    with_mine(|mine| {
        mine.iter().skip(before).for_each(|errand| errand.change(|threads| threads.running -= 1));
        THREAD.with(|thread| thread.paused.set(mine.len()));
    });
    finally(move || {
        let all = THREAD.with(|thread| thread.paused.replace(before));
        with_mine(|mine| {
            let paused = mine.iter().take(all).skip(before);
            paused.for_each(|errand| errand.change(|threads| threads.running += 1));
        });
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Barrier;
    use std::thread::{scope, sleep};

    use super::*;

    /// Longer than a busy machine keeps a thread from its processor.
    const MOMENT: Duration = Duration::from_secs(1);

    #[test]
    fn others_wait_until_it_is_done() {
        let (errand, begun) = (Arc::<Errand>::default(), Barrier::new(2));
        scope(|threads| {
            threads.spawn(|| {
                let _turn = errand.begin().unwrap();
                begun.wait();
                begun.wait();
                sleep(MOMENT);
            });
            begun.wait();
            assert!(errand.try_begin().is_none() && !errand.is_mine());
            let since = Instant::now();
            begun.wait();
            assert!(errand.begin().is_none(), "another thread did it");
            assert!(since.elapsed() >= MOMENT / 2);
        });
        assert!(errand.begin().is_some_and(|turn| !turn.is_beside_others));
    }

    #[test]
    fn nobody_waits_while_code_of_the_program_runs() {
        let (errand, inside, over) = (Arc::<Errand>::default(), Barrier::new(2), Barrier::new(2));
        scope(|threads| {
            threads.spawn(|| {
                let _turn = errand.begin().unwrap();
                run_user_code(|| {
                    assert!(errand.is_mine());
                    // One call within another, as a handler that tells a subscriber.
                    let _other = Arc::<Errand>::default();
                    run_user_code(|| _ = inside.wait());
                    over.wait();
                });
                sleep(MOMENT);
            });
            inside.wait();
            assert!(errand.try_begin().is_none());
            assert!(errand.begin().unwrap().is_beside_others);
            assert!(!errand.wait_for_others(Duration::ZERO));
            over.wait();
            assert!(errand.wait_for_others(Duration::from_secs(60)));
            assert!(!errand.wait_for_others(Duration::ZERO), "there is no other one");
        });
    }

    #[test]
    fn what_waits_for_the_end_of_errands_runs_then() {
        let (errand, runs) = (Arc::<Errand>::default(), std::rc::Rc::new(std::cell::Cell::new(0)));
        let run = || {
            let runs = runs.clone();
            after_errands(move || runs.set(runs.get() + 1));
        };
        run();
        assert_eq!(runs.get(), 1);
        let turn = errand.begin().unwrap();
        let inner = Arc::<Errand>::default();
        let inner_turn = inner.begin().unwrap();
        run();
        drop(inner_turn);
        assert_eq!(
            (runs.get(), lock(&errand.threads).running),
            (1, 1),
            "it waits for the outer one, which is not paused"
        );
        drop(turn);
        assert_eq!(runs.get(), 2);
    }

    #[test]
    fn a_panic_of_the_program_resumes_what_was_paused() {
        let errand = Arc::<Errand>::default();
        let turn = errand.begin().unwrap();
        let panicked = std::panic::catch_unwind(|| run_user_code(|| std::panic::panic_any(1)));
        assert!(panicked.is_err() && lock(&errand.threads).running == 1);
        drop(turn);
        let threads = lock(&errand.threads);
        assert_eq!((threads.all, threads.running, THREAD.with(|thread| thread.paused.get())), (0, 0, 0));
    }
}
