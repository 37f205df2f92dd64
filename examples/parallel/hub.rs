//! Where the ranks of one process meet: shared memory, with a lock for each kind of meeting.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::peers::{Join, Outcome, Peers, join};

/// How long ranks wait for each other in a meeting. A rank that hangs may still answer pings. PyTorch's process groups wait as long.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The meetings of all ranks.
#[derive(Debug)]
pub(crate) struct Hub {
    ranks: usize,
    longest_wait: Duration,
    texts: Meeting<String, Arc<[String]>>,
    numbers: Meeting<Vec<f32>, Arc<[f32]>>,
    failure: Mutex<Option<String>>,
}

/// Rounds in which each rank brings a part, and all ranks take the result.
///
/// The result of a round stays until the next round is complete. By then every rank has taken it, because it brought its next part.
#[derive(Debug)]
struct Meeting<P, R> {
    round: Mutex<Round<P, R>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Round<P, R> {
    number: u64,
    parts: Vec<Option<P>>,
    /// The result of the round before.
    result: Option<Outcome<R>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it holds one of these locks half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<P, R: Clone> Meeting<P, R> {
    fn new(ranks: usize) -> Self {
        let round = Round { number: 0, parts: (0..ranks).map(|_| None).collect(), result: None };
        Self { round: Mutex::new(round), changed: Condvar::new() }
    }

    /// Brings the part of `rank`, and waits for the result or for a failure. The last rank to come computes the result.
    fn meet(&self, rank: usize, part: P, hub: &Hub, result: impl FnOnce(Vec<P>) -> Outcome<R>) -> Outcome<R> {
        let mut round = lock(&self.round);
        let number = round.number;
        match round.parts.get_mut(rank) {
            Some(place @ None) => *place = Some(part),
            _ => return Err(format!("rank {rank} is there twice, or is none of {} ranks", hub.ranks)),
        }
        if round.parts.iter().all(Option::is_some) {
            let parts = round.parts.iter_mut().filter_map(Option::take).collect();
            round.result = Some(result(parts));
            round.number += 1;
            self.changed.notify_all();
        }
        let deadline = Instant::now() + hub.longest_wait;
        loop {
            if round.number > number {
                return round.result.clone().unwrap_or_else(|| Err("a meeting without a result".to_owned()));
            }
            // Who sets the failure takes this lock before it notifies, so the notice is not missed.
            if let Some(cause) = hub.failure() {
                return Err(cause);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late(&round.parts, hub.longest_wait));
            }
            round = self.changed.wait_timeout(round, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn wake(&self) {
        let _round = lock(&self.round);
        self.changed.notify_all();
    }
}

/// The error of a meeting to which some ranks did not come.
fn late<P>(parts: &[Option<P>], waited: Duration) -> String {
    let missing = parts.iter().enumerate().filter(|(_, part)| part.is_none());
    let missing: Vec<String> = missing.map(|(rank, _)| rank.to_string()).collect();
    let (ranks, missing, seconds) = (parts.len(), missing.join(", "), waited.as_secs());
    format!("of {ranks} ranks, these did not bring their part within {seconds} s: {missing}; see whether they hang")
}

impl Hub {
    pub(crate) fn new(ranks: usize) -> Arc<Self> {
        Self::waiting(ranks, LONGEST_WAIT)
    }

    fn waiting(ranks: usize, longest_wait: Duration) -> Arc<Self> {
        let (texts, numbers) = (Meeting::new(ranks), Meeting::new(ranks));
        Arc::new(Self { ranks, longest_wait, texts, numbers, failure: Mutex::new(None) })
    }

    pub(crate) fn ranks(&self) -> usize {
        self.ranks
    }

    pub(crate) fn gather(&self, rank: usize, text: String) -> Outcome<Arc<[String]>> {
        self.texts.meet(rank, text, self, |texts| Ok(texts.into()))
    }

    pub(crate) fn join(&self, rank: usize, numbers: Vec<f32>, by: Join) -> Outcome<Arc<[f32]>> {
        self.numbers.meet(rank, numbers, self, |parts| join(&parts, by))
    }

    pub(crate) fn failure(&self) -> Option<String> {
        lock(&self.failure).clone()
    }

    pub(crate) fn fail(&self, cause: &str) {
        lock(&self.failure).get_or_insert_with(|| cause.to_owned());
        self.texts.wake();
        self.numbers.wake();
    }
}

/// A rank of the process that has the hub.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) hub: Arc<Hub>,
    pub(crate) rank: usize,
}

impl Peers for Member {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.hub.ranks()
    }

    fn gather(&self, text: String) -> Outcome<Arc<[String]>> {
        self.hub.gather(self.rank, text)
    }

    fn join(&self, numbers: Vec<f32>, by: Join) -> Outcome<Arc<[f32]>> {
        self.hub.join(self.rank, numbers, by)
    }

    fn failure(&self) -> Option<String> {
        self.hub.failure()
    }

    fn fail(&self, cause: &str) {
        self.hub.fail(cause);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_get_the_result_of_each_round() {
        let hub = Hub::new(3);
        std::thread::scope(|threads| {
            for rank in 0..3 {
                let hub = &hub;
                threads.spawn(move || {
                    for round in 0..200 {
                        let found = hub.join(rank, vec![(round + rank) as f32], Join::Mean).unwrap();
                        assert_eq!(*found, [round as f32 + 1.0]);
                        let texts = hub.gather(rank, format!("{rank} in {round}")).unwrap();
                        assert_eq!(texts[2], format!("2 in {round}"));
                    }
                });
            }
        });
    }

    #[test]
    fn ranks_that_do_not_come_are_named() {
        let hub = Hub::waiting(3, Duration::from_millis(50));
        let error = hub.join(1, vec![1.0], Join::Mean).unwrap_err();
        assert!(error.contains(": 0, 2; see whether they hang"), "{error}");
    }

    #[test]
    fn the_first_failure_ends_those_who_wait() {
        let hub = Hub::new(2);
        std::thread::scope(|threads| {
            let waiting = threads.spawn(|| hub.join(0, vec![1.0], Join::Mean));
            hub.fail("rank 1 is gone");
            hub.fail("a consequence");
            assert_eq!(waiting.join().unwrap().unwrap_err(), "rank 1 is gone");
        });
        assert_eq!(hub.gather(1, String::new()).unwrap_err(), "rank 1 is gone");
    }
}
