//! Where an array rests while nobody uses it.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// Where a [`Placed`](super::Placed) array rests while nobody uses it.
///
/// ```
/// use gpucache::Placement;
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

/// A placement that may change at any time.
#[derive(Debug)]
pub(super) struct Chosen(AtomicU8);

impl Chosen {
    pub(super) fn new(placement: Placement) -> Chosen {
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
