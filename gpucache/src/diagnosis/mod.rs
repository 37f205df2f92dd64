//! The diagnosis of a scope: rules find causes in the facts that the engine has noted.
//!
//! | file | content |
//! |---|---|
//! | `cause` | the causes: for each what happens, why it matters, and what to do |
//! | `rules` | pure rules from facts to causes |
//! | `finding` | findings, as data and as text |

mod cause;
mod finding;
mod rules;

use std::sync::Arc;

pub use cause::Cause;
pub use finding::{Diagnosis, Finding};

use gpucache_engine::base::amounts::{add, total};
use gpucache_engine::cache::ScopeFacts;
use rules::Case;

/// Scopes whose names differ only in a number: how many there are, their entries, and their idle memory.
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

/// This many names, with fewer than this many entries each, are a finding.
const MANY_NAMES: u64 = 16;
const FEW_ENTRIES: u64 = 4;

/// Diagnoses a scope from what is known of it on each thread, and whether placed arrays are prefetched for it.
pub(crate) fn examine(scope: Arc<str>, threads: &[ScopeFacts], siblings: Siblings, prefetches: bool) -> Diagnosis {
    let cases = threads.iter().map(|known| Case::new(known, prefetches));
    let cases: Vec<Case<'_>> = cases.filter(|case| case.entries() > 0).collect();
    let entries = total(cases.iter().map(Case::entries));
    // The findings with one cause on several threads become one finding.
    let found = cases.iter().filter_map(Case::finding);
    let mut findings = gather(found, |known, new| known.cause == new.cause, merge);
    if siblings.names >= MANY_NAMES && siblings.entries / FEW_ENTRIES < siblings.names {
        findings.push(of_names(siblings));
    }
    findings.sort_by(|one, other| affected(other).total_cmp(&affected(one)));
    let is_early = findings.is_empty() && !cases.is_empty() && cases.iter().all(Case::is_early);
    let still_alive = total(cases.iter().map(Case::still_alive));
    let scope_site = threads.iter().find_map(|known| known.site);
    let alike = Vec::new();
    Diagnosis { scope, alike, scope_site, entries, is_early, still_alive, findings }
}

/// The share of entries in which a finding occurs.
fn affected(finding: &Finding) -> f64 {
    finding.entries as f64 / finding.of_entries.max(1) as f64
}

/// Joins values that are alike with the first one of them.
fn gather<T>(all: impl Iterator<Item = T>, is_alike: fn(&T, &T) -> bool, join: fn(&mut T, T)) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for new in all {
        match kept.iter_mut().find(|known| is_alike(known, &new)) {
            Some(known) => join(known, new),
            None => kept.push(new),
        }
    }
    kept
}

fn merge(known: &mut Finding, new: Finding) {
    // All allocations of the covered entries.
    let covered =
        |finding: &Finding| if finding.share > 0.0 { finding.allocations as f64 / finding.share } else { 0.0 };
    let all = covered(known) + covered(&new);
    add(&mut known.entries, new.entries);
    add(&mut known.of_entries, new.of_entries);
    add(&mut known.allocations, new.allocations);
    add(&mut known.bytes, new.bytes);
    known.share = if all > 0.0 { known.allocations as f64 / all } else { known.share.max(new.share) };
    known.sites.extend(new.sites);
    known.details.extend(new.details);
    keep_first(&mut known.sites, MOST_SITES);
    keep_first(&mut known.details, MOST_SITES + 1);
}

/// A finding has at most so many source lines, and one detail more.
const MOST_SITES: usize = 3;

/// Keeps the first `most` values that differ from each other.
fn keep_first<T: PartialEq>(values: &mut Vec<T>, most: usize) {
    let mut kept: Vec<T> = Vec::new();
    for value in values.drain(..) {
        if kept.len() < most && !kept.contains(&value) {
            kept.push(value);
        }
    }
    *values = kept;
}

fn of_names(siblings: Siblings) -> Finding {
    let Siblings { names, entries, idle_bytes } = siblings;
    let details = vec![format!("{names} names have {entries} entries together")];
    let (sites, cause) = (Vec::new(), Cause::ManyNames);
    Finding { cause, entries, of_entries: entries, allocations: 0, share: 0.0, bytes: idle_bytes, sites, details }
}

/// Joins the diagnoses of scopes with problems that have the same source line and the same causes, such as `layer0` to `layer31` of one
/// macro with a computed name. The first scope by name stays, and has the names of the others.
pub(crate) fn joined(all: impl Iterator<Item = Diagnosis>) -> Vec<Diagnosis> {
    gather(all, is_alike, join)
}

fn is_alike(known: &Diagnosis, new: &Diagnosis) -> bool {
    let causes = |one: &Diagnosis| {
        let mut causes: Vec<Cause> = one.findings.iter().map(|finding| finding.cause).collect();
        causes.sort_unstable_by_key(|cause| *cause as usize);
        causes
    };
    let has_line = new.scope_site.is_some() && known.scope_site == new.scope_site;
    has_line && !new.is_healthy() && causes(known) == causes(new)
}

fn join(known: &mut Diagnosis, new: Diagnosis) {
    known.alike.push(new.scope);
    add(&mut known.entries, new.entries);
    add(&mut known.still_alive, new.still_alive);
    for finding in new.findings {
        // This one counts all names already.
        let is_of_names = finding.cause == Cause::ManyNames;
        let same = known.findings.iter_mut().find(|one| one.cause == finding.cause && !is_of_names);
        same.into_iter().for_each(|one| merge(one, finding.clone()));
    }
}
