//! The graphs of a captured scope by key, bounded in number and bytes. The least recently used one goes first.

use std::any::Any;
use std::hash::Hash;
use std::ops::Range;

use hashbrown::HashMap;

use super::slots::Slots;
use super::visitor::Operand;
use gpucache_engine::cache::Cache;
use gpucache_engine::device::LaunchableGraph;

/// The most graphs, unless the program says otherwise. Keys without end, such as lengths of sequences, must not take all memory. Servers use
/// 30 to 70 batch sizes. An executable of some dozen kernels takes about 150 KiB, so 64 of them take about 10 MiB.
const MOST_GRAPHS: usize = 64;

/// So many keys without a graph are remembered. A key without a graph takes some hundred bytes of the host, and a server may use many in turn.
const KEYS: usize = 1 << 12;

/// The state of each key.
pub(super) struct Kept<K> {
    pub(super) keys: HashMap<K, KeyState>,
    clock: u64,
    /// Whether keys without a graph were forgotten, since there were too many.
    pub(super) has_forgotten: bool,
    pub(super) most_graphs: usize,
    pub(super) most_bytes: u64,
}

#[derive(Default)]
pub(super) struct KeyState {
    used: u64,
    pub(super) launchable: Option<Launchable>,
    /// The shapes of the outputs, as the last direct run returned them.
    pub(super) like: Option<Box<dyn Any + Send>>,
    pub(super) tries: Tries,
}

/// When the block of a key is captured.
#[derive(Default)]
pub(super) struct Tries {
    /// Whether the plan served all of the last direct run.
    pub(super) is_planned: bool,
    /// How many runs to wait for before the next try.
    wait: u32,
    /// Captures in a row that gave no graph, or one that was never launched.
    failed: u32,
    is_unused: bool,
    /// Direct runs in a row that the plan did not serve.
    unplanned: u32,
    /// Graphs that failed at a launch, or lost their executables in a shortage. Many launches make up for one.
    lost: u32,
    /// Launches since the last loss, or since `lost` became smaller.
    launches: u32,
}

/// A graph with all that it depends on.
pub(super) struct Launchable {
    pub(super) graph: LaunchableGraph,
    pub(super) slots: Slots,
    /// The memory of the scope's plans, and the scope's cache on the thread that captured.
    pub(super) place: Option<Range<u64>>,
    pub(super) cache: &'static Cache,
    /// The inputs, and behind them the outputs.
    pub(super) operands: Vec<Operand>,
    pub(super) inputs: usize,
    /// How the inputs are arranged in lists.
    pub(super) lens: Vec<usize>,
    /// The words that a launch replaces, in memory that all launches use.
    pub(super) changes: Vec<(usize, u64)>,
}

/// A plan serves most blocks after three to five runs. After so many without one, the statistics say it.
const UNPLANNED: u32 = 8;

/// The longest wait after failed captures: a capture costs as much host time as some direct runs.
const LONGEST_WAIT: u32 = 1 << 10;

impl Tries {
    /// Whether to capture in this run. Counts the run.
    pub(super) fn is_due(&mut self) -> bool {
        if std::mem::take(&mut self.is_unused) {
            self.note_failure();
        }
        let is_due = self.is_planned && self.wait == 0;
        self.wait = self.wait.saturating_sub(1);
        is_due
    }

    /// Notes whether the plan served a direct run. Returns whether it is time to say that it does not.
    pub(super) fn note_direct(&mut self, is_planned: bool) -> bool {
        self.is_planned = is_planned;
        self.unplanned = if is_planned { 0 } else { self.unplanned.saturating_add(1) };
        self.unplanned == UNPLANNED
    }

    /// Whether twice as many direct runs in a row went without the plan, so that there will be no graph.
    pub(super) fn are_hopeless(&self) -> bool {
        self.unplanned >= 2 * UNPLANNED
    }

    /// Notes a capture that gave no graph. The next one follows after twice as many runs.
    pub(super) fn note_failure(&mut self) {
        self.wait = (1u32 << self.failed.min(30)).min(LONGEST_WAIT);
        self.failed += 1;
    }

    /// Notes a capture that gave a graph.
    pub(super) fn note_success(&mut self) {
        (self.wait, self.is_unused) = (0, true);
    }

    /// Notes that the graph failed, or lost its executable in a shortage. The next capture follows after twice as many runs as after the last
    /// such loss: allocations that need the memory may come again and again.
    pub(super) fn note_loss(&mut self) {
        self.wait = self.wait_after_loss();
        (self.lost, self.launches, self.is_unused) = (self.lost.saturating_add(1), 0, false);
    }

    fn wait_after_loss(&self) -> u32 {
        (1u32 << self.lost.min(30)).min(LONGEST_WAIT)
    }

    #[inline]
    pub(super) fn note_launch(&mut self) {
        (self.failed, self.is_unused) = (0, false);
        if self.lost > 0 {
            self.note_launch_after_loss();
        }
    }

    /// Forgets a loss after as many launches as the next loss would cost.
    fn note_launch_after_loss(&mut self) {
        self.launches += 1;
        if self.launches >= self.wait_after_loss() {
            (self.lost, self.launches) = (self.lost - 1, 0);
        }
    }
}

impl<K: Hash + Eq + Clone> Kept<K> {
    pub(super) fn new() -> Kept<K> {
        Kept { keys: HashMap::new(), clock: 0, has_forgotten: false, most_graphs: MOST_GRAPHS, most_bytes: u64::MAX }
    }

    /// The state of `key`, which is used now.
    #[inline]
    pub(super) fn of(&mut self, key: &K) -> &mut KeyState {
        self.forget_old_keys();
        self.clock += 1;
        let known = self.keys.entry_ref(key).or_default();
        known.used = self.clock;
        known
    }

    /// The state of `key`, which is used now, if it has a graph.
    #[inline]
    pub(super) fn with_graph(&mut self, key: &K) -> Option<&mut KeyState> {
        self.clock += 1;
        let known = self.keys.get_mut(key).filter(|known| known.launchable.is_some())?;
        known.used = self.clock;
        Some(known)
    }

    /// Forgets keys without a graph that were not used lately, if there are too many.
    fn forget_old_keys(&mut self) {
        let without_graph = || self.keys.values().filter(|known| known.launchable.is_none()).map(|known| known.used);
        if self.keys.len() <= KEYS || without_graph().count() <= KEYS {
            return;
        }
        // Of the keys without a graph alone: those with one may all be older.
        let mut used: Vec<u64> = without_graph().collect();
        used.sort_unstable();
        let median = used[used.len() / 2];
        self.keys.retain(|_, known| known.launchable.is_some() || known.used > median);
        self.has_forgotten = true;
    }

    pub(super) fn graphs(&self) -> usize {
        self.all_bytes().count()
    }

    /// The memory of the device that the graphs take, beside that of their arrays.
    pub(super) fn bytes(&self) -> u64 {
        self.all_bytes().sum()
    }

    /// The memory of each graph that has its executable.
    fn all_bytes(&self) -> impl Iterator<Item = u64> {
        self.keys.values().filter_map(|known| known.launchable.as_ref()?.graph.bytes())
    }

    /// Drops graphs of other keys, so that there is room for one of `key`. Returns how many.
    pub(super) fn make_room(&mut self, key: &K) -> u64 {
        let (mut graphs, mut bytes, mut dropped) = (self.graphs() + usize::from(!self.has_graph(key)), self.bytes(), 0);
        while graphs > self.most_graphs || bytes > self.most_bytes {
            let Some(freed) = self.drop_oldest(key) else { break };
            (graphs, bytes, dropped) = (graphs.saturating_sub(1), bytes.saturating_sub(freed), dropped + 1);
        }
        dropped
    }

    /// Forgets the graphs that lost their executables in a shortage. Returns how many.
    pub(super) fn forget_lost(&mut self) -> u64 {
        let mut lost = 0;
        for known in self.keys.values_mut() {
            if known.launchable.take_if(|launchable| launchable.graph.bytes().is_none()).is_some() {
                known.tries.note_loss();
                lost += 1;
            }
        }
        lost
    }

    fn has_graph(&self, key: &K) -> bool {
        self.keys.get(key).is_some_and(|known| known.launchable.is_some())
    }

    /// Drops the graph that was used least recently, but not that of `except`. Returns its bytes.
    fn drop_oldest(&mut self, except: &K) -> Option<u64> {
        let others = self.keys.iter_mut().filter(|(key, known)| known.launchable.is_some() && *key != except);
        let (_, oldest) = others.min_by_key(|(_, known)| known.used)?;
        oldest.launchable.take().map(|launchable| launchable.graph.bytes().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Host};
    use crate::scope::{Scope, ScopeGuard};
    use gpucache_engine::device::Capture;

    /// A graph without work.
    fn launchable(host: &Host) -> Launchable {
        let graph = Capture::begin(host.stream_handle()).unwrap().end().unwrap().into_graph(None).unwrap();
        let cache = ScopeGuard::innermost().unwrap().cache;
        let (slots, operands, lens, changes) = (Slots::unknown(), Vec::new(), Vec::new(), Vec::new());
        Launchable { graph, slots, place: None, cache, operands, inputs: 0, lens, changes }
    }

    #[test]
    fn keys_without_a_graph_are_forgotten_also_if_most_keys_have_one() {
        let host = Host::new_stream().unwrap();
        let _inside = Scope::new("kept: forgotten keys").enter();
        let (mut kept, graphs) = (Kept::new(), 2 * KEYS);
        for key in 0..graphs {
            kept.of(&key).launchable = Some(launchable(&host));
        }
        for key in graphs..=graphs + KEYS {
            kept.of(&key);
        }
        assert!(!kept.has_forgotten && kept.keys.len() == graphs + KEYS + 1);
        kept.of(&usize::MAX);
        assert!(kept.has_forgotten && kept.graphs() == graphs);
        assert_eq!(kept.keys.len(), graphs + KEYS / 2 + 1);
    }
}
