//! What a diagnosis says: its findings as data, and as text for a terminal.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::cause::Cause;
use gpucache_engine::base::amounts::{Bytes, Count};
use gpucache_engine::base::shortage::Short;
use gpucache_engine::home::Sample;

/// What keeps a scope from being planned, or has it hold more than it needs: of [`diagnose`](crate::diagnose). Shown as text for
/// a terminal.
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
/// assert_eq!(diagnosis.to_string(), "scope `healthy`, 20 entries: nothing is wrong with it");
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The name of the scope.
    pub scope: Arc<str>,
    /// Where the scope is named in the program: the macro, or the call of [`Scope::new`](crate::Scope::new), by which its first
    /// thread came.
    pub scope_site: Option<&'static Location<'static>>,
    /// How often it was entered, on all threads.
    pub entries: u64,
    /// Whether it is too early to say: entries were too few to be planned, and nothing is wrong so far.
    pub is_early: bool,
    /// What is wrong, what affects most entries first. None where the scope is healthy.
    pub findings: Vec<Finding>,
}

/// One cause, what it costs, and where it comes from.
///
/// What is counted is of lately: of the last 16 to 31 entries of each thread. A leak is counted over the last three quarters of all
/// entries: `allocations` and `bytes` are those by which more is alive, and `details` begin with that.
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
    /// What it is.
    pub cause: Cause,
    /// Entries that it was seen in, of [`of_entries`](Finding::of_entries).
    pub entries: u64,
    /// Entries that were looked at.
    pub of_entries: u64,
    /// Allocations that were affected in those entries: not served by a plan, or served twice.
    pub allocations: u64,
    /// The share of all allocations of the entries that were looked at: 0 to 1.
    pub share: f64,
    /// Bytes that are concerned: of memory that is held and need not be, or of the arrays that were affected. 0 where they are not
    /// known.
    pub bytes: u64,
    /// Lines of the program that allocated what was affected, as far as they are known: three at most.
    pub sites: Vec<&'static Location<'static>>,
    /// What was seen at those lines, as sentences without their ends: three at most.
    pub details: Vec<String>,
}

impl Diagnosis {
    /// Whether nothing is wrong, as far as can be said by now ([`is_early`](Diagnosis::is_early)).
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

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scope `{}`", Short(&self.scope))?;
        if let Some(site) = self.scope_site.filter(|_| !self.is_healthy()) {
            write!(f, " at {site}")?;
        }
        write!(f, ", {}: ", Count(self.entries, "entry", "entries"))?;
        match (self.findings.len(), self.is_early) {
            (0, true) => f.write_str("too early to say, entries are still learned from"),
            (0, false) => f.write_str("nothing is wrong with it"),
            (several, _) => write!(f, "{}", Count(several as u64, "finding", "findings")),
        }?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n- {finding}"))
    }
}

/// The cause, what it costs, where it was seen, and the remedy, each on a line.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.cause.meaning())?;
        write!(f, "  seen in {} of {} entries", self.entries, self.of_entries)?;
        if self.allocations > 0 {
            let allocations = Count(self.allocations, "allocation", "allocations");
            write!(f, ", {allocations} ({:.0}%)", 100.0 * self.share)?;
        }
        if self.bytes > 0 {
            write!(f, ", {}", Bytes(self.bytes))?;
        }
        self.details.iter().try_for_each(|detail| write!(f, "\n  {detail}"))?;
        write!(f, "\n  remedy: {}", self.cause.remedy())
    }
}

/// What was seen in a sample, as a sentence without its end.
pub(super) fn told(sample: &Sample) -> String {
    let (dims, has_more) = sample.shape.dims();
    let dims: Vec<String> = dims.iter().map(usize::to_string).chain(has_more.then(|| "..".into())).collect();
    let what = format!("{} [{}], {}", sample.type_name, dims.join(", "), Bytes(sample.bytes));
    let which = if sample.number > 0 { format!("allocation {} of an entry", sample.number) } else { "one".into() };
    let expected = match sample.expected {
        Some((least, most)) if least == most => format!(", where {} were expected", Bytes(most)),
        Some((least, most)) => format!(", where {} to {} were expected", Bytes(least), Bytes(most)),
        None => String::new(),
    };
    let site = sample.site.map_or_else(String::new, |site| format!(", at {site}"));
    format!("{which} was {what}{expected}{site}")
}
