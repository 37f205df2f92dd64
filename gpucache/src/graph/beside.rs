//! Captured scopes of one name on several streams.
//!
//! The plans of a scope lie on one stream. So captured scopes of one name that work on several streams take the plans from each other, if
//! one thread runs them, and some of them get no graphs. Those take a scope of their own. On several threads, each thread has a cache of the
//! scope, and nobody needs another scope.

use hashbrown::HashMap;

use super::kept::Tries;
use super::stats::GraphStats;
use gpucache_engine::base::sync::{LazyLock, Mutex, lock};

/// The captured scopes of a name on one stream. A place without any serves another stream.
struct StreamPlace {
    stream: u64,
    scopes: usize,
    /// Whether a captured scope in this place took a scope of its own. Later ones take it at once.
    is_apart: bool,
}

/// By name. A name is forgotten with its last captured scope.
static PLACES: LazyLock<Mutex<HashMap<String, Vec<StreamPlace>>>> = LazyLock::new(Mutex::default);

/// The place of a captured scope among those of its name, until it is dropped.
pub(super) struct OnStream {
    name: String,
    place: usize,
    is_apart: bool,
}

/// So many captures without a graph show that something takes the plans away. Fewer may come of a block that changes in its first runs.
const MANY_REFUSALS: u64 = 3;

impl OnStream {
    pub(super) fn new(name: &str, stream: u64) -> OnStream {
        let mut all = lock(&PLACES);
        let places = all.entry_ref(name).or_default();
        let found = places.iter().position(|place| place.scopes > 0 && place.stream == stream);
        let free = || places.iter().position(|place| place.scopes == 0);
        let place = found.or_else(free).unwrap_or(places.len());
        if place == places.len() {
            places.push(StreamPlace { stream, scopes: 0, is_apart: false });
        }
        let StreamPlace { scopes, is_apart, .. } = places[place];
        places[place] = StreamPlace { stream, scopes: scopes + 1, is_apart };
        OnStream { name: name.to_owned(), place, is_apart }
    }

    /// The scope whose plans the graphs use.
    pub(super) fn scope(&self) -> String {
        if self.is_apart { format!("{}, stream {}", self.name, self.place + 1) } else { self.name.clone() }
    }

    /// Takes a scope of its own if the captured scope needs one. Returns whether it does so now.
    pub(super) fn take_own_scope(&mut self, stats: &GraphStats, tries: &Tries) -> bool {
        if self.is_apart || (stats.refused < MANY_REFUSALS && !tries.are_hopeless()) {
            return false;
        }
        let mut all = lock(&PLACES);
        let Some(places) = all.get_mut(&self.name) else { return false };
        let mut others = places.iter().enumerate().filter(|(place, _)| *place != self.place);
        self.is_apart = others.any(|(_, other)| other.scopes > 0 && !other.is_apart);
        places[self.place].is_apart |= self.is_apart;
        self.is_apart
    }
}

impl Drop for OnStream {
    fn drop(&mut self) {
        let mut all = lock(&PLACES);
        let Some(places) = all.get_mut(&self.name) else { return };
        places[self.place].scopes -= 1;
        if places.iter().all(|place| place.scopes == 0) {
            all.remove(&self.name);
        }
    }
}
