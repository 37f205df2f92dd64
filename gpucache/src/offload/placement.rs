//! Where an array rests while nobody uses it, and what says so for those that are placed.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

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
    /// On the device, always.
    Device,
    /// On the host: it leaves the device when its last guard is dropped.
    Host,
    /// On the device as long as there is room for it.
    #[default]
    Auto,
}

/// Of the process.
static DEFAULT: Chosen = Chosen::new(Placement::Auto);

/// Where arrays rest from now on that are placed outside of scopes that say it: `Auto`, unless this was called.
///
/// It is of the whole process, all threads and devices: whoever starts a program knows whether its arrays fit, and the code that
/// places them, which may be a library's, need not. What is placed already stays as it is. A scope says it for what is placed inside
/// ([`Scope::placement`](crate::Scope::placement)), and [`Placed::choose_placement`](super::Placed::choose_placement) for one array.
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

/// Where an array rests that is placed now, if no scope says it.
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
