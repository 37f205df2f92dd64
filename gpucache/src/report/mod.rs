//! What the process does, read as plain data: of a device, of all scopes, and as text that shows it while it runs.
//!
//! Nothing here is counted: what is read was counted where it happened. While nobody reads, nothing here runs.
//!
//! | file | its one matter |
//! |---|---|
//! | `device` | [`DeviceStats`]: one device |
//! | `scope` | [`NamedStats`]: one scope, with its threads |
//! | `process` | [`ProcessStats`]: all of them |
//! | `peaks` | peaks that begin anew |
//! | `guard` | [`StatsGuard`]: what a stretch of the program allocated |
//! | `top` | [`Top`]: a line for each scope and thread, with bars |
//! | `watch` | the same in a file, once a second, for who asks for it from outside |

mod device;
mod guard;
mod peaks;
mod process;
mod scope;
mod top;
mod watch;

pub(crate) use device::read as of_device;
pub use device::{DeviceStats, RangeUse, device_stats};
pub use guard::{StatsGuard, report_on_drop};
pub use peaks::{reset_peaks, reset_peaks_of};
pub use process::{ProcessStats, process_stats};
pub use scope::{NamedStats, ThreadStats};
pub use top::{Top, top};
pub(crate) use watch::start_from_environment;
