//! Diagnoses of many scopes that name the same causes at the same line become one: [`joined`].

use super::cause::Cause;
use super::finding::Diagnosis;
use super::merge;
use gpucache_engine::base::amounts::add;

/// Joins the diagnoses of scopes with problems that have the same source line and the same causes, such as `layer0` to `layer31` of one
/// macro with a computed name. The first scope by name stays, and has the names of the others.
pub(crate) fn joined(all: impl Iterator<Item = Diagnosis>) -> Vec<Diagnosis> {
    let mut kept: Vec<Diagnosis> = Vec::new();
    for new in all {
        match kept.iter_mut().find(|known| is_alike(known, &new)) {
            Some(known) => join(known, new),
            None => kept.push(new),
        }
    }
    kept
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
