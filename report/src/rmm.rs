//! The log that RMM's `logging_resource_adaptor` writes, which other programs replay.

use std::io::{self, Write};

use crate::run::{Op, Run};

/// Writes the allocations and the frees of a run, in their order: times of day since the trace began, sizes in bytes.
///
/// # Errors
/// Those of the writer.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, rmm};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let mut log = Vec::new();
/// rmm::write(&Run::from(&trace::stop()), &mut log)?;
/// assert_eq!(String::from_utf8(log)?.lines().count(), 3); // a head, an allocation and its free
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(run: &Run, mut to: impl Write) -> io::Result<()> {
    writeln!(to, "Thread,Time,Action,Pointer,Size,Stream")?;
    for event in &run.events {
        let action = match event.op {
            Op::Allocate => "allocate",
            Op::Free => "free",
            Op::Short => "allocate failure",
            Op::Enter | Op::Leave => continue,
        };
        let time = clock(event.time_ns);
        writeln!(to, "{},{time},{action},{:#x},{},{:#x}", event.thread, event.address, event.bytes, event.stream)?;
    }
    Ok(())
}

/// Hours, minutes, seconds and microseconds, as RMM tells the time of day: here since the trace began.
fn clock(time_ns: u64) -> String {
    let seconds = time_ns / 1_000_000_000;
    let micros = time_ns % 1_000_000_000 / 1000;
    format!("{:02}:{:02}:{:02}:{micros:06}", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn a_line_for_each_allocation_and_each_free() {
        let mut log = Vec::new();
        write(&example(), &mut log).unwrap();
        let log = String::from_utf8(log).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines.len(), 1 + 6);
        assert_eq!(lines[1], "0,00:00:00:000001,allocate,0x200000,4096,0x1");
        assert_eq!(lines[4], "0,00:00:00:000002,allocate failure,0x0,99999999,0x1");
        assert_eq!(lines[6], "1,00:00:00:000005,free,0x700000,2097152,0x2");
    }

    #[test]
    fn times_are_of_a_day() {
        assert_eq!(clock(((25 * 60 + 61) * 60 + 7) * 1_000_000_000 + 8_999), "02:01:07:000008");
    }
}
