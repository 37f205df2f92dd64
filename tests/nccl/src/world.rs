//! The meeting place of the ranks of one id.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The ranks of one id, and what they exchange.
pub(crate) struct World {
    pub(crate) ranks: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) arrived: usize,
    /// The inputs of each collective, by its number, for each rank.
    rounds: HashMap<usize, Vec<Option<Arc<Vec<u8>>>>>,
    /// Sent messages that nobody has received, by sender and receiver.
    mail: HashMap<(usize, usize), VecDeque<Vec<u8>>>,
}

static WORLDS: Mutex<Vec<(Vec<u8>, Arc<World>)>> = Mutex::new(Vec::new());

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// The world of an id, which one more rank enters.
    pub(crate) fn enter(id: &[u8], ranks: usize) -> Arc<World> {
        let mut worlds = lock(&WORLDS);
        let place = worlds.iter().position(|known| known.0 == id).unwrap_or_else(|| {
            let world = World { ranks, state: Mutex::default(), changed: Condvar::new() };
            worlds.push((id.to_vec(), Arc::new(world)));
            worlds.len() - 1
        });
        let world = worlds[place].1.clone();
        lock(&world.state).arrived += 1;
        world.wake();
        world
    }

    pub(crate) fn is_complete(&self) -> bool {
        lock(&self.state).arrived >= self.ranks
    }

    /// Lets all who wait look again.
    pub(crate) fn wake(&self) {
        let _state = lock(&self.state);
        self.changed.notify_all();
    }

    /// Gives this rank's input of a collective.
    pub(crate) fn give(&self, round: usize, rank: usize, input: Vec<u8>) {
        let mut state = lock(&self.state);
        let all = state.rounds.entry(round).or_insert_with(|| vec![None; self.ranks]);
        all[rank] = Some(Arc::new(input));
        self.changed.notify_all();
    }

    pub(crate) fn send(&self, from: usize, to: usize, message: Vec<u8>) {
        lock(&self.state).mail.entry((from, to)).or_default().push_back(message);
        self.changed.notify_all();
    }

    /// The inputs of all ranks of a collective; `None` if the waiting ends before.
    pub(crate) fn inputs(&self, round: usize, ends: impl Fn() -> bool) -> Option<Vec<Arc<Vec<u8>>>> {
        self.wait(ends, |state| state.rounds.get(&round)?.iter().cloned().collect())
    }

    pub(crate) fn receive(&self, from: usize, to: usize, ends: impl Fn() -> bool) -> Option<Vec<u8>> {
        self.wait(ends, |state| state.mail.get_mut(&(from, to))?.pop_front())
    }

    fn wait<R>(&self, ends: impl Fn() -> bool, mut look: impl FnMut(&mut State) -> Option<R>) -> Option<R> {
        let mut state = lock(&self.state);
        loop {
            if ends() {
                return None;
            }
            if let Some(found) = look(&mut state) {
                return Some(found);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
