//! Whether calls of the driver come here, and by which way: asked by a call through cudarc.

use std::cell::Cell;
use std::fmt;

use cudarc::driver::sys;

/// How the calls of other crates come to their scopes.
///
/// ```no_run
/// println!("{}", gpucache::foreign::status()?);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entrance {
    /// The program links the driver, as candle has it.
    Linked,
    /// The program loads the driver when it needs it, as cudarc does by default.
    Loaded,
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entrance::Linked => {
                "scopes serve what the driver is asked for: by the functions that the program is linked with"
            }
            Entrance::Loaded => {
                "scopes serve what the driver is asked for: by a library that was opened in front of it"
            }
        })
    }
}

thread_local! {
    /// The question of this thread that is under way, and how it was answered.
    static PROBE: Cell<Option<Probe>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
enum Probe {
    Asked,
    Came(Entrance),
}

/// The way by which a call of cudarc's comes here, if it does.
pub(super) fn arrival() -> Option<Entrance> {
    PROBE.set(Some(Probe::Asked));
    let (mut free, mut total) = (0, 0);
    // SAFETY: the driver writes two numbers, for which there is room.
    let _ = unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) };
    match PROBE.take() {
        Some(Probe::Came(entrance)) => Some(entrance),
        _ => None,
    }
}

/// Whether a call of [`arrival`] is what came, by this way; it counts as answered then.
pub(super) fn is_probe(entrance: Entrance) -> bool {
    let is_asked = PROBE.get().is_some();
    if is_asked {
        PROBE.set(Some(Probe::Came(entrance)));
    }
    is_asked
}
