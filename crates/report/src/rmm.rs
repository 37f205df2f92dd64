//! Writes the log format of RMM's `logging_resource_adaptor`, which other programs can replay.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Write};

use crate::run::{Event, Op, Run};

/// Writes the allocations and frees of a run in their order. Times count from the beginning of the trace; sizes are in bytes.
///
/// A pointer is the address of an array. The format has one device. In a run on several devices, the pointers of all but the first have
/// the number of the device, counted from 1, in their highest byte.
///
/// # Errors
/// Errors of the writer.
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
    let devices: BTreeSet<u64> =
        run.events.iter().filter(|event| event.op == Op::Allocate).map(|event| event.device).collect();
    let places: HashMap<u64, u64> = devices.into_iter().zip(0..).collect();
    let place = |event: &Event| places.get(&event.device).copied().unwrap_or(0);
    writeln!(to, "Thread,Time,Action,Pointer,Size,Stream")?;
    for event in &run.events {
        let action = match event.op {
            Op::Allocate => "allocate",
            Op::Free => "free",
            Op::Short => "allocate failure",
            Op::Enter | Op::Leave => continue,
        };
        let (time, pointer) = (clock(event.time_ns), event.address ^ (place(event) << 56));
        writeln!(to, "{},{time},{action},{pointer:#x},{},{:#x}", event.thread, event.bytes, event.stream)?;
    }
    Ok(())
}

/// The time since the trace began in RMM's format of the time of day: hours, minutes, seconds and microseconds.
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
    fn pointers_of_two_devices_are_told_apart() {
        let mut run = example();
        run.events[2].device = 9;
        run.events[2].address = run.events[0].address;
        let mut log = Vec::new();
        write(&run, &mut log).unwrap();
        let log = String::from_utf8(log).unwrap();
        let pointers: Vec<&str> = log.lines().skip(1).take(2).map(|line| line.split(',').nth(3).unwrap()).collect();
        assert_eq!(pointers, ["0x200000", "0x100000000200000"]);
    }

    #[test]
    fn times_are_of_a_day() {
        assert_eq!(clock(((25 * 60 + 61) * 60 + 7) * 1_000_000_000 + 8_999), "02:01:07:000008");
    }
}
