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

pub mod backend;
#[cfg(feature = "cuda")]
mod cuda;
mod handle;
mod host;
mod limit;

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use gpucache_engine::device::{MemoryUse, OrderUse, Virtual};
pub use gpucache_engine::pressure::{Pressure, PressureHandler};
pub use handle::Device;
pub use host::Host;
pub use limit::{IntoLimit, set_process_limit};
