//! What is wrong with a scope, in plain words: causes found by rules over what was counted.
//!
//! | file | its one matter |
//! |---|---|
//! | `cause` | the causes, what each means, and its remedy |
//! | `rules` | which cause is behind what was counted: pure |
//! | `diagnosis` | findings as data and as text |

mod cause;
mod diagnosis;
mod rules;

use std::sync::Arc;

pub use cause::Cause;
pub use diagnosis::{Diagnosis, Finding};

use gpucache_engine::base::amounts::{add, total};
use gpucache_engine::cache::ScopeFacts;
use rules::Patient;

/// The same scope under many names: how many, how often they were entered, and what they keep idle.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Siblings {
    pub(crate) names: u64,
    pub(crate) entries: u64,
    pub(crate) idle_bytes: u64,
}

impl Siblings {
    /// Counts one more.
    pub(crate) fn add(&mut self, entries: u64, idle_bytes: u64) {
        add(&mut self.names, 1);
        add(&mut self.entries, entries);
        add(&mut self.idle_bytes, idle_bytes);
    }
}

/// So many names that differ in a number alone are many, and so many entries of each are few.
const MANY_NAMES: u64 = 16;
const FEW_ENTRIES: u64 = 4;

/// What is wrong with a scope of which this is known, thread by thread.
pub(crate) fn examine(scope: Arc<str>, threads: &[ScopeFacts], siblings: Siblings) -> Diagnosis {
    let patients: Vec<Patient<'_>> = threads.iter().map(Patient::new).filter(|known| known.entries() > 0).collect();
    let entries = total(patients.iter().map(Patient::entries));
    let mut findings = merged(patients.iter().filter_map(Patient::finding));
    if siblings.names >= MANY_NAMES && siblings.entries / FEW_ENTRIES < siblings.names {
        findings.push(of_names(siblings));
    }
    findings.sort_by(|one, other| affected(other).total_cmp(&affected(one)));
    let is_early = findings.is_empty() && !patients.is_empty() && patients.iter().all(Patient::is_early);
    let scope_site = threads.iter().find_map(|known| known.site);
    Diagnosis { scope, scope_site, entries, is_early, findings }
}

/// The share of entries that a finding is of.
fn affected(finding: &Finding) -> f64 {
    finding.entries as f64 / finding.of_entries.max(1) as f64
}

/// Findings of several threads with one cause are one.
fn merged(found: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut findings: Vec<Finding> = Vec::new();
    for new in found {
        let Some(known) = findings.iter_mut().find(|known| known.cause == new.cause) else {
            findings.push(new);
            continue;
        };
        add(&mut known.entries, new.entries);
        add(&mut known.of_entries, new.of_entries);
        add(&mut known.allocations, new.allocations);
        known.share = known.share.max(new.share);
        add(&mut known.bytes, new.bytes);
    }
    findings
}

fn of_names(siblings: Siblings) -> Finding {
    let Siblings { names, entries, idle_bytes } = siblings;
    let details = vec![format!("{names} names were entered {entries} times together")];
    let (sites, cause) = (Vec::new(), Cause::ManyNames);
    Finding { cause, entries, of_entries: entries, allocations: 0, share: 0.0, bytes: idle_bytes, sites, details }
}
