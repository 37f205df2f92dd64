//! Devices: handles of their streams, and all that a program does with a device as a whole.
//!
//! A [`Device`] is a handle ([`Host`], `Cuda`, [`Virtual`]) of a stream. Its methods read the device's statistics, limit its memory, and
//! give idle memory back. [`backend`] has the traits and types with which a program adds a kind of device.
//!
//! ```
//! use gpucache::{device::Virtual, prelude::*};
//!
//! let device = Virtual::new(1 << 30);
//! device.set_limit("80%")?;
//! let array = device.zeros::<f32>([1024, 1024])?;
//! assert_eq!(device.memory().bytes, 4 << 20);
//! drop(array);
//! device.trim();
//! # Ok::<(), gpucache::Error>(())
//! ```

mod counts;
#[cfg(feature = "cuda")]
mod cuda;
mod handle;
mod host;
mod limit;

pub use counts::{MemoryUse, OrderUse};
#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use gpucache_engine::device::{DeviceKind, Virtual};
pub use gpucache_engine::pressure::{Pressure, PressureHandler};
pub use handle::Device;
pub use host::Host;
pub use limit::{IntoLimit, set_process_limit};

pub mod backend {
    //! The traits that a new kind of device implements: its memory, its streams, and their events.
    //!
    //! A kind of device has a [`Backend`], which allocates and copies on one stream, and a handle, which implements
    //! [`Device`](crate::device::Device). All [`Stream`]s of one device share a [`Memory`]. [`VirtualMemory`] gives the device pages, so
    //! that one array can use free memory from several places. [`Copies`] is a queue for copies from and to the host.
    //!
    //! The methods of a [`Backend`], an [`Event`], a [`Mark`] and a [`VirtualMemory`] are called while this crate holds locks, and so are
    //! the destructors of events and marks. They must not call this crate, and must not wait for a thread that calls it. The destructor of
    //! a backend runs without a lock held.
    //!
    //! The example of [`Backend`] implements a whole device.

    pub use gpucache_engine::device::{Backend, Copies, Event, Mark, Memory, Stream, Unfinished, VirtualMemory};
}
