//! [`Placement`]: where an array rests while nobody uses it, and the default for new arrays. [`Tag`]: the part of a placed array's slot that
//! every thread reads without a lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Where a [`Placed`](super::Placed) array rests while nobody uses it.
///
/// ```
/// use gpucache::offload::Placement;
///
/// assert_eq!(Placement::default(), Placement::Auto);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Placement {
    /// Always on the device.
    Device,
    /// On the host. The array leaves the device when its last guard is dropped.
    Host,
    /// On the device, until its memory is needed for something else.
    #[default]
    Auto,
}

/// The default of the process.
static DEFAULT: Chosen = Chosen::new(Placement::Auto);

/// Sets the placement of arrays that are placed from now on. Without this call it is `Auto`.
///
/// The default holds for the whole process, on all threads and devices: the author of a program knows whether its arrays fit, and a library
/// that places arrays need not know. Arrays that are placed already stay as they are. A scope can set another placement for the arrays
/// placed inside it ([`Scope::placement`](crate::Scope::placement)), and [`Placed::choose_placement`](super::Placed::choose_placement) sets
/// the placement of one array.
///
/// ```
/// use gpucache::{offload::{Placed, Placement, set_default_placement}, prelude::*};
///
/// let host = Host::new();
/// set_default_placement(Placement::Host);
/// assert_eq!(Placed::<f32, _>::zeros(&host, 8)?.placement(), Placement::Host);
/// # set_default_placement(Placement::Auto);
/// # Ok::<(), gpucache::Error>(())
/// ```
pub fn set_default_placement(placement: Placement) {
    DEFAULT.set(placement);
}

/// The placement of a new array, if no scope sets one.
pub(super) fn of_process() -> Placement {
    DEFAULT.get()
}

/// A placement that may change at any time.
#[derive(Debug)]
pub(super) struct Chosen(AtomicU8);

impl Chosen {
    pub(super) const fn new(placement: Placement) -> Chosen {
        Chosen(AtomicU8::new(placement as u8))
    }

    #[inline]
    pub(super) fn get(&self) -> Placement {
        match self.0.load(Relaxed) {
            0 => Placement::Device,
            1 => Placement::Host,
            _ => Placement::Auto,
        }
    }

    pub(super) fn set(&self, placement: Placement) {
        self.0.store(placement as u8, Relaxed);
    }
}

/// The number, the size, the placement and the last use of a slot.
#[derive(Debug)]
pub(super) struct Tag {
    /// Never used again for another slot.
    pub(super) id: u64,
    pub(super) bytes: u64,
    pub(super) placement: Chosen,
    /// The time of the last fetch, by the clock of the pool.
    pub(super) used: AtomicU64,
    /// The recorded entry that made it, and its place among those that this one made.
    pub(super) born_in: AtomicU64,
    pub(super) born_as: AtomicU64,
}
