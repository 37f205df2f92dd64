//! The findings of a diagnosis, as data and as text for a terminal.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::cause::Cause;
use gpucache_engine::base::amounts::{Bytes, Count};
use gpucache_engine::base::shortage::Short;
use gpucache_engine::home::{Facts, Sample};

/// The result of [`diagnose`](crate::diagnose): the causes that prevent a scope from being planned, or make it reserve more
/// memory than it needs. `Display` gives text for a terminal.
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..20 {
///     cache_scope!(healthy, { drop(host.zeros::<f32>([32, 10])?) });
/// }
/// let diagnosis = gpucache::diagnose("healthy").unwrap();
/// assert!(diagnosis.is_healthy() && !diagnosis.is_early);
/// assert_eq!(diagnosis.to_string(), "scope `healthy`, 20 entries: no problem found");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The name of the scope.
    pub scope: Arc<str>,
    /// Other scopes with the same causes and the same source line, from [`diagnose_all`](crate::diagnose_all). The figures cover these too.
    pub alike: Vec<Arc<str>>,
    /// The source line of the scope: the macro, or the call of [`Scope::new`](crate::Scope::new), that the first thread used.
    pub scope_site: Option<&'static Location<'static>>,
    /// Entries of the scope on all threads.
    pub entries: u64,
    /// Whether it is too early to tell: the scope had too few entries to be planned, and no problem so far.
    pub is_early: bool,
    /// Live arrays of earlier entries, if their number rose so far and it is too early to tell whether they leak; otherwise 0.
    pub still_alive: u64,
    /// The problems, sorted by the share of entries that they affect, the largest share first. Empty for a healthy scope.
    pub findings: Vec<Finding>,
}

/// One cause, its cost, and the source lines.
///
/// The counts cover the last 16 to 31 entries of each thread. For a leak, they cover the last three quarters of all entries.
/// `allocations` and `bytes` then count the additional live arrays, and so does the first of the `details`.
///
/// ```
/// use gpucache::{cache_scope, diagnosis::Cause, prelude::*};
///
/// let host = Host::new();
/// for entry in 0..64 {
///     cache_scope!(irregular, {
///         for _ in 0..=(entry * entry) % 11 {
///             drop(host.zeros::<f32>([32, 10 + entry])?);
///         }
///     });
/// }
/// let diagnosis = gpucache::diagnose("irregular").unwrap();
/// let finding = &diagnosis.findings[0];
/// assert_eq!(finding.cause, Cause::ChangingOrder);
/// assert!(finding.entries > 0 && finding.entries <= finding.of_entries);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// Entries in which the problem occurred, of [`of_entries`](Finding::of_entries).
    pub entries: u64,
    /// Entries that the diagnosis covers. Each iteration of a loop within an entry counts as one.
    pub of_entries: u64,
    /// Affected allocations in those entries. For [`Cause::Escapes`] these are the arrays that outlived their entry. For other causes
    /// they are allocations that no plan served.
    pub allocations: u64,
    /// `allocations` as a share of all allocations of the covered entries, from 0 to 1.
    pub share: f64,
    /// The bytes of the affected arrays, or the bytes that the scope reserves without need. 0 if they are not known.
    pub bytes: u64,
    /// Source lines that allocated the affected arrays, as far as they are known: three at most.
    pub sites: Vec<&'static Location<'static>>,
    /// Observations, mostly one example for each source line, as sentences without their full stops: four at most.
    pub details: Vec<String>,
}

impl Diagnosis {
    /// Whether the diagnosis found no problem so far. See [`is_early`](Diagnosis::is_early).
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*};
    ///
    /// cache_scope!(new, { drop(Host::new().zeros::<u8>(4096)?) });
    /// let diagnosis = gpucache::diagnose("new").unwrap();
    /// assert!(diagnosis.is_healthy() && diagnosis.is_early);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn is_healthy(&self) -> bool {
        self.findings.is_empty()
    }
}

/// So many names of other scopes fit the line of a terminal.
const MOST_NAMES: usize = 2;

impl Diagnosis {
    fn write_alike(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.alike.iter().take(MOST_NAMES).try_for_each(|name| write!(f, ", `{}`", Short(name)))?;
        match self.alike.len().saturating_sub(MOST_NAMES) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }

    fn write_no_problem(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no problem found")?;
        if self.still_alive == 0 {
            return Ok(());
        }
        let (arrays, are) =
            (Count(self.still_alive, "array", "arrays"), if self.still_alive == 1 { "is" } else { "are" });
        write!(f, " so far; {arrays} of earlier entries {are} still alive")?;
        write!(f, " (a leak shows after about {} entries)", Facts::FIRST_GROWTH)
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scope `{}`", Short(&self.scope))?;
        self.write_alike(f)?;
        if let Some(site) = self.scope_site.filter(|_| !self.is_healthy()) {
            write!(f, " at {site}")?;
        }
        write!(f, ", {}: ", Count(self.entries, "entry", "entries"))?;
        match (self.findings.len(), self.is_early) {
            (0, true) => f.write_str("too early to tell, the scope is still learning"),
            (0, false) => self.write_no_problem(f),
            (several, _) => write!(f, "{}", Count(several as u64, "finding", "findings")),
        }?;
        self.findings.iter().try_for_each(|finding| {
            // An entry around a whole program has iterations of loops instead.
            let parts = if finding.of_entries > self.entries { "iterations" } else { "entries" };
            f.write_str("\n- ")?;
            finding.write(f, parts)
        })
    }
}

impl Finding {
    /// The description and its frequency, the reason why it matters, examples with their source lines, and the remedy, each on a line.
    fn write(&self, f: &mut fmt::Formatter<'_>, parts: &str) -> fmt::Result {
        write!(f, "{}\n  in {} of {} {parts}", self.cause.meaning(), self.entries, self.of_entries)?;
        if self.allocations > 0 {
            let allocations = Count(self.allocations, "allocation", "allocations");
            write!(f, ": {allocations} ({:.0}%)", 100.0 * self.share)?;
        }
        if self.bytes > 0 {
            write!(f, ", {}", Bytes(self.bytes))?;
        }
        write!(f, "\n  why: {}", self.cause.reason())?;
        self.details.iter().try_for_each(|detail| write!(f, "\n  {detail}"))?;
        write!(f, "\n  remedy: {}", self.cause.remedy())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, "entries")
    }
}

/// An example as a sentence without its end.
pub(super) fn told(sample: &Sample) -> String {
    let (dims, has_more) = sample.dims();
    let dims: Vec<String> = dims.iter().map(usize::to_string).chain(has_more.then(|| "..".into())).collect();
    let array = format!("{} [{}], {}", sample.type_name, dims.join(", "), Bytes(sample.bytes));
    let which =
        if sample.number > 0 { format!("allocation {} of an entry", sample.number) } else { "one array".into() };
    let expected = match sample.expected {
        Some((least, most)) if least == most => format!(", where the plan expected {}", Bytes(most)),
        Some((least, most)) => format!(", where the plan expected {} to {}", Bytes(least), Bytes(most)),
        None => String::new(),
    };
    let site = sample.site.map_or_else(String::new, |site| format!(", at {site}"));
    format!("{which} was {array}{expected}{site}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_within_one_entry_are_not_called_entries() {
        let finding = Finding {
            cause: Cause::Escapes,
            entries: 20,
            of_entries: 22,
            allocations: 3,
            share: 0.1,
            bytes: 0,
            sites: Vec::new(),
            details: Vec::new(),
        };
        let diagnosis = |entries| Diagnosis {
            scope: "train".into(),
            alike: Vec::new(),
            scope_site: None,
            entries,
            is_early: false,
            still_alive: 0,
            findings: vec![finding.clone()],
        };
        assert!(
            diagnosis(1)
                .to_string()
                .contains("1 entry: 1 finding\n- arrays outlive their entry\n  in 20 of 22 iterations: 3")
        );
        assert!(
            diagnosis(22)
                .to_string()
                .contains("22 entries: 1 finding\n- arrays outlive their entry\n  in 20 of 22 entries: 3")
        );
    }
}
