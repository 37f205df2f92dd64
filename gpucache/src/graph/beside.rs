//! Captured scopes of one name on several streams.
//!
//! The plans of a scope lie on one stream. So captured scopes of one name that work on several streams take the plans from each other, if
//! one thread runs them, and captures give no graphs. The first one keeps the scope of its name. Each other one takes a scope of its own
//! after some captures without a graph. On several threads, each thread has a cache of the scope, and nobody needs another scope.

use hashbrown::HashMap;

use super::stats::GraphStats;
use gpucache_engine::base::sync::{LazyLock, Mutex, lock};

/// The captured scopes of a name on one stream. A place without any serves another stream.
struct Place {
    stream: u64,
    scopes: usize,
}

static PLACES: LazyLock<Mutex<HashMap<String, Vec<Place>>>> = LazyLock::new(Mutex::default);

/// The place of a captured scope among those of its name, until it is dropped.
pub(super) struct OnStream {
    name: String,
    place: usize,
    has_own_scope: bool,
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
            places.push(Place { stream, scopes: 0 });
        }
        places[place] = Place { stream, scopes: places[place].scopes + 1 };
        OnStream { name: name.to_owned(), place, has_own_scope: false }
    }

    /// The name of the scope that the captured scope takes now, if it has none of its own and needs one.
    pub(super) fn own_scope(&mut self, stats: &GraphStats) -> Option<String> {
        if self.place == 0 || self.has_own_scope || stats.refused < MANY_REFUSALS {
            return None;
        }
        let all = lock(&PLACES);
        let mut others = all.get(&self.name)?.iter().enumerate().filter(|(place, _)| *place != self.place);
        self.has_own_scope = others.any(|(_, place)| place.scopes > 0);
        self.has_own_scope.then(|| format!("{}, stream {}", self.name, self.place + 1))
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
