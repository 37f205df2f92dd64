//! The log format of RMM's `logging_resource_adaptor`. It has no steps, so the whole log is one step.
//!
//! A pointer names one allocation until it is freed. Failed allocations are skipped. So are allocations of 0 bytes, which have no memory
//! and often no pointer of their own.

use std::collections::HashMap;

use super::builder::Builder;
use super::format::{Format, fields};
use crate::text::{address, number};

pub(super) const HEADER: &str = "Thread,Time,Action,Pointer,Size,Stream";

#[derive(Debug, Default)]
pub(super) struct Rmm {
    /// The allocation that each pointer names now.
    ids: HashMap<u64, u64>,
    allocations: u64,
}

impl Format for Rmm {
    fn line(&mut self, line: &str, history: &mut Builder) -> Result<(), String> {
        let [_thread, _time, action, pointer, size, _stream] = fields(line)?;
        let bytes: u64 = number("Size", size)?;
        history.step(0)?;
        match action {
            "allocate failure" => Ok(()),
            "allocate" | "free" if bytes == 0 => Ok(()),
            "allocate" => history.allocate(self.begin(address("Pointer", pointer)?)?, bytes),
            "free" => history.free(self.end(address("Pointer", pointer)?)?, bytes),
            _ => Err(format!("Action is {action:?}, not allocate, free or allocate failure")),
        }
    }
}

impl Rmm {
    fn begin(&mut self, pointer: u64) -> Result<u64, String> {
        self.allocations += 1;
        match self.ids.insert(pointer, self.allocations) {
            None => Ok(self.allocations),
            Some(_) => Err(format!("{pointer:#x} is allocated, but was not freed before")),
        }
    }

    fn end(&mut self, pointer: u64) -> Result<u64, String> {
        self.ids.remove(&pointer).ok_or_else(|| format!("{pointer:#x} is freed, but is not allocated"))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::replay::history::{History, Op};

    fn parse(lines: &[&str]) -> Result<History, String> {
        let mut builder = Builder::default();
        let mut rmm = Rmm::default();
        lines.iter().try_for_each(|line| rmm.line(&format!("7,10:00:00:000001,{line},0x0"), &mut builder))?;
        builder.finish(String::new())
    }

    #[test]
    fn a_pointer_may_name_another_allocation_once_it_is_freed() {
        let history = parse(&[
            "allocate,0x7f00,1000",
            "allocate failure,(nil),9999999",
            "free,0x7f00,1000",
            "allocate,7F00,2000",
            "allocate,(nil),0",
            "allocate,(nil),0",
            "free,(nil),0",
        ])
        .unwrap();
        let ops = [Op::Allocate { slot: 0, bytes: 1000 }, Op::Free { slot: 0 }, Op::Allocate { slot: 0, bytes: 2000 }];
        assert_eq!(history.steps[..], [ops.to_vec()]);
        assert_eq!((history.operations(), history.peak_live_bytes), (3, 2048));
    }

    #[test]
    fn a_damaged_line_is_refused() {
        let cases: [(&[&str], &str); 8] = [
            (&["allocate,0x7f00"], "5 fields"),
            (&["resize,0x7f00,8"], "Action is \"resize\""),
            (&["allocate,0x7f00,8 B"], "Size is \"8 B\""),
            (&["allocate,(nil),8"], "Pointer is \"(nil)\""),
            (&["free,0x7f00,8"], "not allocated"),
            (&["allocate,0x7f00,8", "free,0x7f00,8", "free,0x7f00,8"], "not allocated"),
            (&["allocate,0x7f00,8", "allocate,0x7f00,8"], "not freed before"),
            (&["allocate,0x7f00,8", "free,0x7f00,9"], "9 bytes"),
        ];
        for (lines, expected) in cases {
            let what = parse(lines).unwrap_err();
            assert!(what.contains(expected), "{lines:?}: {what}");
        }
    }
}
