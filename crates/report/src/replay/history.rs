//! The allocation history of a program, completely checked before it is replayed.
//!
//! Invariants:
//!
//! - A slot is below `slots` and holds one allocation at a time.
//! - A free names a slot with an allocation.
//! - A scope is one of `scopes`, and is left at most as often as it is entered.

/// The last steps, as many as this, are the steady state.
const STEADY: usize = 3;

/// The allocations and frees of a program in their order, by steps, with the scopes that it entered.
///
/// [`History::read`] reads a history from a file. [`History::of`] takes it from a [`Run`](crate::Run).
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, replay::History};
///
/// trace::start(1000);
/// for _ in 0..10 {
///     cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// }
/// let history = History::of("ten steps", &Run::from(&trace::stop()))?;
/// assert_eq!((history.name(), history.operations(), history.peak_live_bytes()), ("ten steps", 20, 8192));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct History {
    pub(super) name: String,
    pub(super) steps: Vec<Vec<Op>>,
    /// The scopes that the steps enter and leave. Without any, each step is an entry of one scope.
    pub(super) scopes: Vec<String>,
    /// The number of slots.
    pub(super) slots: usize,
    pub(super) peak_live_bytes: u64,
    pub(super) page_bytes: u64,
    pub(super) is_one_entry: bool,
}

/// An operation of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Allocate {
        slot: u32,
        bytes: usize,
    },
    Free {
        slot: u32,
    },
    /// Enters a scope, by its place among the scopes of the history. `None` leaves all scopes for a while.
    Enter {
        scope: Option<u32>,
    },
    /// Ends the newest entry of that kind.
    Leave {
        scope: Option<u32>,
    },
}

impl History {
    /// The name of the history: that of its file, without endings.
    ///
    /// ```
    /// # use gpucache_report::replay::History;
    /// # let path = std::env::temp_dir().join("gpucache-history-name.csv");
    /// # std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,512,0\n")?;
    /// assert_eq!(History::read(&path)?.name(), "gpucache-history-name");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of operations: allocations and frees.
    ///
    /// ```
    /// # use gpucache_report::replay::History;
    /// # let path = std::env::temp_dir().join("gpucache-history-operations.csv");
    /// std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,512,0\n0,f,0,512,0\n")?;
    /// assert_eq!(History::read(&path)?.operations(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn operations(&self) -> usize {
        operations(&self.steps)
    }

    /// The peak of live bytes. Each allocation is rounded up to 256 bytes, as GPU allocators do.
    ///
    /// ```
    /// # use gpucache_report::replay::History;
    /// # let path = std::env::temp_dir().join("gpucache-history-peak.csv");
    /// std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,512,0\n0,a,1,8,0\n")?;
    /// assert_eq!(History::read(&path)?.peak_live_bytes(), 512 + 256);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn peak_live_bytes(&self) -> u64 {
        self.peak_live_bytes
    }

    /// The size of the pages of the device that wrote the trace. It is 2 MiB, as on GPUs, if the trace does not say it. With several
    /// devices it is the largest size.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*, trace};
    /// use gpucache_report::{Run, replay::History};
    ///
    /// trace::start(1000);
    /// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
    /// let history = History::of("one step on a host", &Run::from(&trace::stop()))?;
    /// assert_eq!(history.page_bytes(), 64 << 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// The same history for a device with pages of another size.
    ///
    /// ```
    /// # use gpucache_report::replay::History;
    /// # let path = std::env::temp_dir().join("gpucache-history-pages.csv");
    /// std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,512,0\n0,a,1,8,0\n")?;
    /// let history = History::read(&path)?;
    /// assert_eq!((history.page_bytes(), history.with_page_bytes(64 << 10).page_bytes()), (2 << 20, 64 << 10));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_page_bytes(self, page_bytes: u64) -> History {
        History { page_bytes, ..self }
    }

    /// Lets all steps of all passes be one entry of one scope, like a program with a scope around `main`.
    ///
    /// ```
    /// # use gpucache_report::replay::History;
    /// # let path = std::env::temp_dir().join("gpucache-history-one-entry.csv");
    /// # std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,512,0\n")?;
    /// let history = History::read(&path)?.in_one_entry();
    /// # assert_eq!(history.operations(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn in_one_entry(self) -> History {
        History { is_one_entry: true, scopes: Vec::new(), ..self }
    }

    /// The steps before the steady state, and those in it.
    pub(super) fn split_steady(&self) -> (&[Vec<Op>], &[Vec<Op>]) {
        self.steps.split_at(self.steps.len().saturating_sub(STEADY))
    }
}

/// The operations of some steps.
pub(super) fn operations(steps: &[Vec<Op>]) -> usize {
    let is_operation = |op: &&Op| matches!(op, Op::Allocate { .. } | Op::Free { .. });
    steps.iter().flatten().filter(is_operation).count()
}
