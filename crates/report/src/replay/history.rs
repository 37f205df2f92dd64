//! The allocation history of a program as it is replayed: checked as a whole before anything is allocated.
//!
//! Invariants: a slot holds one allocation at a time and is below `slots`; a free names a slot that holds one; a scope is one of
//! `scopes`, and is left as often as it was entered, at most.

/// So many steps at the end are the steady state.
const STEADY: usize = 3;

/// What a program allocated and freed, in order and by steps, and which scopes it was in.
///
/// [`History::read`] reads one from a file, [`History::of`] has it from a [`Run`](crate::Run).
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
    /// How many slots the operations name.
    pub(super) slots: usize,
    pub(super) peak_live_bytes: u64,
    pub(super) page_bytes: u64,
}

/// What a program has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Allocate {
        slot: u32,
        bytes: usize,
    },
    Free {
        slot: u32,
    },
    /// Enters a scope, by its place among the history's, or goes outside of all.
    Enter {
        scope: Option<u32>,
    },
    /// Ends the newest entry of that kind.
    Leave {
        scope: Option<u32>,
    },
}

impl History {
    /// What the history is called: its file's name without endings.
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

    /// How much there is to do: an allocation is one operation, and so is a free.
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

    /// The largest sum of bytes that were alive at once, each allocation rounded up to 256, as allocators of GPU memory do.
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

    /// The size of the pages of the device that wrote the trace: 2 MiB, as on GPUs, if the trace does not say it. Of several devices it
    /// is the largest size.
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
