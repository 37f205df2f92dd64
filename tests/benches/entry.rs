//! The time of an entry of a scope, in nanoseconds, under each policy: an empty entry, and an entry with a single array that is
//! dropped in it.
//!
//! `cargo bench --bench entry -- --json`. Each figure is the median over rounds that alternate between the subjects.
#![allow(unsafe_code)]

use std::hint::black_box;
use std::time::Instant;

use gpucache::{Array, Recycle, Scope, device::Host};
use gpucache_tests::timing::{Options, median};

const ROUNDS: usize = 51;
/// The entries of each subject in a round.
const ENTRIES: usize = 32 * 1024;
/// Entries before the first round. A scope that plans has learned its plan by then.
const WARM: usize = 1000;

struct Subject {
    name: &'static str,
    scope: Scope<'static>,
    has_array: bool,
    nanoseconds: Vec<f64>,
}

impl Subject {
    fn entries(&self, host: &Host, entries: usize) {
        for _ in 0..entries {
            let _inside = self.scope.enter();
            if self.has_array {
                // SAFETY: nobody reads the array.
                drop(black_box(unsafe { Array::<f32, Host>::uninit(host, black_box([4, 16])) }));
            }
        }
    }

    fn measure(&mut self, host: &Host) {
        let start = Instant::now();
        self.entries(host, ENTRIES);
        self.nanoseconds.push(start.elapsed().as_nanos() as f64 / ENTRIES as f64);
    }

    fn median(&mut self) -> f64 {
        median(&mut self.nanoseconds)
    }
}

fn main() {
    let wants_json = Options::wants_json();
    let host = Host::new();
    let policies = [
        ("empty", Recycle::Auto, false),
        ("auto", Recycle::Auto, true),
        ("range", Recycle::Range, true),
        ("keyed", Recycle::Keyed, true),
    ];
    let mut subjects = policies.map(|(name, recycle, has_array)| Subject {
        name,
        scope: Scope::new(name).recycle(recycle),
        has_array,
        nanoseconds: Vec::new(),
    });
    subjects.iter().for_each(|subject| subject.entries(&host, WARM));
    for _ in 0..ROUNDS {
        subjects.iter_mut().for_each(|subject| subject.measure(&host));
    }
    let found = subjects.iter_mut().map(|subject| (subject.name, subject.median()));
    let parts: Vec<String> = match wants_json {
        true => found.map(|(name, ns)| format!("\"{name}_ns\": {ns:.1}")).collect(),
        false => found.map(|(name, ns)| format!("{name} {ns:.1} ns")).collect(),
    };
    println!(
        "{}",
        if wants_json { format!("{{{}}}", parts.join(", ")) } else { format!("an entry: {}", parts.join(", ")) }
    );
}
