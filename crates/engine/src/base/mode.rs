//! What a thread is about, where calls further down go by it: one value for each thread, without a destructor, so that it can be asked
//! at any time of a thread's end.

use std::cell::Cell;

thread_local! {
    /// The bits of the modes that are on.
    static MODES: Cell<u8> = const { Cell::new(0) };
}

/// A mode that a thread is in while some code runs.
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// Soft limits count as hard ones.
    Soft = 1,
    /// No handler of the program is called for what finds no memory.
    WithoutHandlers = 2,
    /// Calls of the driver's allocator are this crate's own.
    #[cfg(feature = "cuda")]
    OwnCall = 4,
}

impl Mode {
    /// Runs `act` in this mode, and in those that are on.
    pub(crate) fn run<R>(self, act: impl FnOnce() -> R) -> R {
        struct Restore(u8);
        impl Drop for Restore {
            fn drop(&mut self) {
                MODES.set(self.0);
            }
        }
        let _restore = Restore(MODES.replace(MODES.get() | self as u8));
        act()
    }

    /// Whether the thread is in this mode.
    #[inline]
    pub(crate) fn is_on(self) -> bool {
        MODES.get() & self as u8 != 0
    }
}
