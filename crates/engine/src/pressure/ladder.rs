//! The ladder as data: what is done, in which order, for an allocation that the device has no memory for.
//!
//! Each rung takes more from somebody than the one below it. On each as little is done as suffices, and only on the device
//! that is short. What is done there stands in `climb`; what came of it is counted in `tally`.

use std::fmt;

/// A rung of the ladder that an allocation climbs when its device is short of memory, until it is served.
///
/// ```
/// use gpucache::{Cost, Rung};
///
/// let names: Vec<_> = Rung::ALL.iter().map(|rung| rung.name()).collect();
/// assert_eq!(names, ["pages", "others", "own", "streams", "waiting", "spill", "arenas", "patience", "handlers"]);
/// assert!(Rung::ALL.iter().is_sorted_by_key(|rung| rung.cost()));
/// assert_eq!(Rung::Handlers.cost(), Cost::Program);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rung {
    /// Pages in which nothing lies move to where the allocation fits.
    Pages,
    /// Other scopes' idle memory, one scope after the other: those of threads that have ended, then the one that was
    /// entered least recently.
    Others,
    /// The asking scope's own idle memory: its lists, what was idle longest first, then its plan's block.
    Own,
    /// Memory that other streams freed and may still use: the asking stream comes behind them.
    Streams,
    /// Memory whose work is done in a moment, for which the thread waits.
    Waiting,
    /// Arrays in use that may rest on the host (`Placed`): those that were used least recently leave.
    Spill,
    /// The blocks of plans that other threads are inside of, where nothing in them is alive.
    Arenas,
    /// What other threads drop meanwhile, for which the thread waits as long as [`patience`](crate::patience) says.
    Patience,
    /// What the program gives up, by [`on_pressure`](crate::on_pressure).
    Handlers,
}

/// What a rung costs, the least first.
///
/// ```
/// use gpucache::{Cost, Rung};
///
/// assert!(Rung::Pages.cost() < Rung::Others.cost());
/// assert_eq!(Rung::Waiting.cost(), Cost::Time);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cost {
    /// Calls of the device.
    Calls,
    /// Calls now, and more when a scope is entered next that has to have its memory again.
    Entries,
    /// Time: a thread or a stream waits for work.
    Time,
    /// Copies to the host, and back when the arrays are used next.
    Copies,
    /// A scope that a thread is inside of goes on without its plan.
    Plans,
    /// As much time as the program said.
    Patience,
    /// Whatever the program does.
    Program,
}

impl Rung {
    /// All of them, from the bottom.
    ///
    /// ```
    /// assert_eq!(gpucache::Rung::ALL.len(), 9);
    /// ```
    pub const ALL: [Rung; 9] = [
        Rung::Pages,
        Rung::Others,
        Rung::Own,
        Rung::Streams,
        Rung::Waiting,
        Rung::Spill,
        Rung::Arenas,
        Rung::Patience,
        Rung::Handlers,
    ];

    /// Its name.
    ///
    /// ```
    /// assert_eq!(gpucache::Rung::Others.name(), "others");
    /// ```
    pub const fn name(self) -> &'static str {
        match self {
            Rung::Pages => "pages",
            Rung::Own => "own",
            Rung::Others => "others",
            Rung::Streams => "streams",
            Rung::Waiting => "waiting",
            Rung::Spill => "spill",
            Rung::Arenas => "arenas",
            Rung::Patience => "patience",
            Rung::Handlers => "handlers",
        }
    }

    /// What it costs.
    ///
    /// ```
    /// assert_eq!(gpucache::Rung::Others.cost(), gpucache::Cost::Entries);
    /// ```
    pub const fn cost(self) -> Cost {
        match self {
            Rung::Pages => Cost::Calls,
            Rung::Own | Rung::Others => Cost::Entries,
            Rung::Streams | Rung::Waiting => Cost::Time,
            Rung::Spill => Cost::Copies,
            Rung::Arenas => Cost::Plans,
            Rung::Patience => Cost::Patience,
            Rung::Handlers => Cost::Program,
        }
    }
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
