//! A line for each scope and thread, with bars: what a terminal shows of a process while it runs.

use std::fmt;
use std::time::Instant;

use super::process::{ProcessStats, percent, process};
use super::scope::{ScopeStats, ThreadStats};
use gpucache_engine::base::amounts::Bytes;
use gpucache_engine::base::shortage::Short;
use gpucache_engine::base::table::Table;

/// Characters of a bar.
const BAR: u64 = 20;

/// The process at one moment, as a table: its devices, and its scopes by thread, the scopes with most memory first.
///
/// Each line of a scope has a bar. Its length is the memory of the scope compared with the scope that has most. `#` is memory in use,
/// `.` is idle memory. Planned shares and entries per second cover the time since the previous reading. In the first reading, planned
/// shares cover the time since the process began, and entries per second are missing.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, stats};
///
/// let mut top = stats::top();
/// cache_scope!(shown, { Host::new().zeros::<u8>(4096)? });
/// top.renew();
/// assert!(top.to_string().contains("\nshown  "));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Top {
    stats: ProcessStats,
    read: Instant,
    /// The reading before, and the seconds since.
    before: Option<(ProcessStats, f64)>,
}

/// Reads the statistics of the process, to display them.
///
/// ```
/// println!("{}", gpucache::stats::top());
/// ```
pub fn top() -> Top {
    Top { stats: process(), read: Instant::now(), before: None }
}

impl Top {
    /// Reads again.
    ///
    /// ```
    /// let mut top = gpucache::stats::top();
    /// top.renew();
    /// assert!(top.to_string().contains("entries/s"));
    /// ```
    pub fn renew(&mut self) {
        let (stats, read) = (process(), Instant::now());
        let seconds = read.duration_since(self.read).as_secs_f64();
        self.before = Some((std::mem::replace(&mut self.stats, stats), seconds));
        self.read = read;
    }

    /// The statistics of this thread in the reading before.
    fn before(&self, scope: &str, thread: &ThreadStats) -> Option<&ScopeStats> {
        let (before, _) = self.before.as_ref()?;
        // They are sorted, so that many scopes are shown in little more time each than few.
        let place = before.scopes.binary_search_by(|other| other.name.as_str().cmp(scope)).ok()?;
        before.scopes[place].same_thread(thread)
    }

    fn line(&self, scope: &ScopeStats, number: usize, most: u64) -> [String; 8] {
        let here @ ThreadStats { thread, stats, .. } = &scope.threads[number];
        let before = self.before(&scope.name, here).cloned().unwrap_or_default();
        let since = stats.since(&before);
        // A scope that did nothing meanwhile shows what it did before.
        let served = if since.allocations() > 0 { since.served } else { stats.served };
        let seconds = self.before.as_ref().map(|(_, seconds)| *seconds).filter(|seconds| *seconds > 0.0);
        let rate = seconds.map(|seconds| format!("{:.0}", since.entries as f64 / seconds));
        [
            Short(&scope.name).to_string(),
            thread.as_deref().map_or_else(|| "(ended)".into(), |name| Short(name).to_string()),
            Bytes(stats.busy_bytes).to_string(),
            Bytes(held(stats)).to_string(),
            bar(stats, most),
            percent(served.planned_share()),
            stats.entries.to_string(),
            rate.unwrap_or_else(|| "-".into()),
        ]
    }

    fn table(&self) -> Table {
        let mut table = Table::new(2, &["scope", "thread", "in use", "held", "", "planned", "entries", "entries/s"]);
        let numbers = |scope: &ScopeStats| 0..scope.threads.len();
        let mut lines: Vec<(&ScopeStats, usize)> =
            self.stats.scopes.iter().flat_map(|scope| numbers(scope).map(move |number| (scope, number))).collect();
        lines.sort_by_key(|(scope, number)| std::cmp::Reverse(held(&scope.threads[*number].stats)));
        let most = lines.first().map_or(0, |(scope, number)| held(&scope.threads[*number].stats));
        lines.into_iter().for_each(|(scope, number)| table.row(self.line(scope, number, most)));
        table
    }
}

/// The memory of a scope, in use or idle.
fn held(stats: &ScopeStats) -> u64 {
    stats.busy_bytes.saturating_add(stats.idle_bytes)
}

/// A bar whose length is the scope's part of `most`, with `#` for the memory in use.
fn bar(stats: &ScopeStats, most: u64) -> String {
    let part = |bytes: u64| (u128::from(bytes) * u128::from(BAR)).div_ceil(u128::from(most.max(1))) as usize;
    let (length, full) = (part(held(stats)), part(stats.busy_bytes));
    format!("[{}{}{}]", "#".repeat(full), ".".repeat(length - full), " ".repeat(BAR as usize - length))
}

impl fmt::Display for Top {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n\n{}", self.stats.devices_table(), self.table())
    }
}
