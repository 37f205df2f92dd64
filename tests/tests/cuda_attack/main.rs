//! Unusual but allowed uses of a GPU: contexts of several objects, streams of others, captures beside other threads, streams that
//! wait for the host, a device that is nearly full.
//!
//! A failure can lose the context, hang, or end the process, so each test runs in a process of its own.
#![cfg(all(feature = "cuda", target_os = "linux"))]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, unsafe_code)]

mod bare;
mod capture;
mod cost;
mod errors;
mod matrix;
mod order;
mod place;
mod shortage;
mod slices;
mod waiting;
mod watchdog;

use gpucache::{cache_scope as scope, invalidate, uncached};

/// The part that serves an allocation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Service {
    Planned,
    Listed,
    Ranged,
    Uncached,
}

impl Service {
    const ALL: [Service; 4] = [Service::Planned, Service::Listed, Service::Ranged, Service::Uncached];
    const SCOPES: [Service; 3] = [Service::Planned, Service::Listed, Service::Ranged];

    /// Runs `act` in an entry of the scope `name`, or outside of all scopes.
    fn enter<R>(self, name: &str, act: impl FnOnce() -> R) -> R {
        match self {
            Service::Planned => scope!(name = name, { act() }),
            Service::Listed => scope!(name = name, recycle = "keyed", { act() }),
            Service::Ranged => scope!(name = name, recycle = "range", { act() }),
            Service::Uncached => uncached!({ act() }),
        }
    }

    /// The number of entries after which memory is served as the service's name says.
    fn warm(self) -> usize {
        if self == Service::Planned { 8 } else { 2 }
    }
}

/// The failures of several attempts, for one result at the end.
#[derive(Default)]
struct Tally(Vec<String>);

impl Tally {
    /// Makes `rounds` attempts, each of which reports whether it went wrong. Counts those that did.
    fn count(&mut self, what: &str, rounds: usize, mut goes_wrong: impl FnMut() -> bool) {
        let wrong = (0..rounds).filter(|_| goes_wrong()).count();
        if wrong > 0 {
            println!("WRONG {wrong} of {rounds}: {what}");
            self.0.push(format!("{wrong} of {rounds}: {what}"));
        }
    }

    fn finish(self) {
        assert!(self.0.is_empty(), "{} went wrong: {:#?}", self.0.len(), self.0);
    }
}

/// Counts the rounds that go wrong with each service, once the service is warm.
fn by_service(tally: &mut Tally, what: &str, mut round: impl FnMut() -> bool) {
    for service in Service::ALL {
        let name = format!("{what}, {service:?}");
        (0..service.warm()).for_each(|_| _ = service.enter(&name, &mut round));
        tally.count(&name, 10, || service.enter(&name, &mut round));
        let _ = invalidate(&name);
    }
}
