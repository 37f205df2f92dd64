//! Code that all clients share: the mode they run in, steps, times, memory, and the report.

mod captured;
mod foreign;
mod memory;
mod mode;
mod nvml;
mod pool;
mod report;
mod scope;
mod seconds;
mod session;

pub use captured::{Captured, GraphReport};
pub use mode::Mode;
pub use report::{Bits, print};
pub use scope::report as scope_report;
pub use seconds::{median, timed};
pub use session::{Common, Run, Session};
