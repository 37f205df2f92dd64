//! The kind of a device, for tables that show several devices.

use std::fmt;

/// The kind of a device. Tables show it behind the number of the device.
///
/// ```
/// use gpucache::device::{DeviceKind, Virtual};
/// use gpucache::prelude::*;
///
/// assert_eq!(Virtual::new(1 << 30).stats().kind, DeviceKind::Virtual);
/// assert_eq!(DeviceKind::Cuda(1).to_string(), "cuda:1");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum DeviceKind {
    /// The memory of this machine.
    Host,
    /// A device with addresses and without memory.
    Virtual,
    /// The GPU with this number in CUDA.
    Cuda(usize),
    /// A device that the program implements.
    #[default]
    Custom,
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceKind::Host => f.write_str("host"),
            DeviceKind::Virtual => f.write_str("virtual"),
            DeviceKind::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            DeviceKind::Custom => f.write_str("custom"),
        }
    }
}
