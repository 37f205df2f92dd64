//! Numbers for the source lines that allocate: known to the thread, so that an event seldom asks the session.

use std::panic::Location;

use hashbrown::HashMap;

use super::packed::MOST_SITES;
use super::session::{self, Site};

/// Lines that are found by their address alone, without a hash.
const NEAR: usize = 64;

/// The source lines that a thread has numbers of.
pub(super) struct Sites {
    /// The newest line for each place, and its number.
    near: [(*const Location<'static>, u32); NEAR],
    numbers: HashMap<*const Location<'static>, u32>,
}

impl Default for Sites {
    fn default() -> Sites {
        Sites { near: [(std::ptr::null(), 0); NEAR], numbers: HashMap::new() }
    }
}

impl Sites {
    /// The number of a line in a session. With the feature `backtrace` lines with other callers have other numbers.
    #[inline(always)]
    pub(super) fn number_of(&mut self, session: u64, site: &'static Location<'static>) -> u32 {
        if cfg!(feature = "backtrace") {
            return number_in(session, &(site, super::stack::callers(site)));
        }
        let key = std::ptr::from_ref(site);
        // A line has an odd number of words, so neighbours in memory have places of their own.
        let place = key.addr() / align_of::<Location<'static>>() % NEAR;
        match self.near[place] {
            (near, number) if std::ptr::eq(near, key) => number,
            _ => self.find(session, site, place),
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&mut self, session: u64, site: &'static Location<'static>, place: usize) -> u32 {
        let key = std::ptr::from_ref(site);
        let number = *self.numbers.entry(key).or_insert_with(|| number_in(session, &(site, None)));
        self.near[place] = (key, number);
        number
    }
}

fn number_in(session: u64, site: &Site) -> u32 {
    session::number_of(session, MOST_SITES, |session| session.sites.number_of(site))
}
