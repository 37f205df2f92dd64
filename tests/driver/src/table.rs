//! Handles: numbers that programs hold, and the values behind them. A destroyed handle goes to the next value, as drivers do it.

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) struct Table<T> {
    used: BTreeMap<usize, Arc<T>>,
    free: Vec<usize>,
    next: usize,
}

impl<T> Table<T> {
    /// A table whose handles begin with `first`.
    pub(crate) const fn from(first: usize) -> Table<T> {
        Table { used: BTreeMap::new(), free: Vec::new(), next: first }
    }

    pub(crate) fn add(&mut self, value: Arc<T>) -> usize {
        let handle = self.free.pop().unwrap_or_else(|| {
            self.next += 16;
            self.next
        });
        self.used.insert(handle, value);
        handle
    }

    pub(crate) fn get(&self, handle: usize) -> Option<Arc<T>> {
        self.used.get(&handle).cloned()
    }

    pub(crate) fn remove(&mut self, handle: usize) -> Option<Arc<T>> {
        let value = self.used.remove(&handle)?;
        self.free.push(handle);
        Some(value)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<T>> {
        self.used.values()
    }
}
