//! Tests by a call through cudarc whether calls of the driver arrive here, and by which way.

use std::cell::Cell;
use std::fmt;

use cudarc::driver::sys;

/// How the driver calls of other crates reach gpucache.
///
/// ```no_run
/// println!("{}", gpucache::foreign::status()?);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entrance {
    /// The program links the driver, as with candle.
    Linked,
    /// The program loads the driver at run time, as cudarc does by default.
    Loaded,
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entrance::Linked => {
                "scopes serve allocations that other crates request from the CUDA driver (linked into the program)"
            }
            Entrance::Loaded => {
                "scopes serve allocations that other crates request from the CUDA driver (loaded at run time)"
            }
        })
    }
}

thread_local! {
    /// The way by which this thread's last question for the free memory arrived here.
    static ARRIVED: Cell<Option<Entrance>> = const { Cell::new(None) };
}

/// The way by which a call of cudarc arrives here; `None` if it does not.
pub(super) fn arrival() -> Option<Entrance> {
    ARRIVED.set(None);
    let mut answer = 0usize;
    let place = &raw mut answer;
    // SAFETY: the driver writes two numbers to this place, one after the other, and the place has room for a number.
    let _ = unsafe { sys::cuMemGetInfo_v2(place, place) };
    ARRIVED.get()
}

/// Notes that a question for the free memory arrived by this way.
pub(super) fn arrived(entrance: Entrance) {
    ARRIVED.set(Some(entrance));
}
