//! The format `step,op,id,bytes,stream`, and the traces of gpucache, which have more columns. `a` allocates, `f` frees, and an id names
//! one allocation.
//!
//! Two further columns are read: `scope` and `thread`. In a file with scopes, `enter` and `leave` enter and leave a scope, and each
//! allocation is made in its scope. A scope has one cache for each thread that entered it. A line `device` has the size of the device's pages.

use super::builder::Builder;
use super::caches::Caches;
use super::format::Format;
use crate::text::number;

pub(super) const HEADER: &str = "step,op,id,bytes,stream";

#[derive(Debug)]
pub(super) struct Csv {
    columns: usize,
    /// The places of these columns, if the file has them.
    scope: Option<usize>,
    thread: Option<usize>,
    caches: Caches,
}

impl Csv {
    /// The format of files with this first line, if they have one.
    pub(super) fn of(header: &str) -> Option<Csv> {
        let more = header.strip_prefix(HEADER)?;
        if !more.is_empty() && !more.starts_with(',') {
            return None;
        }
        let place = |name| header.split(',').position(|column| column == name);
        let (columns, caches) = (header.split(',').count(), Caches::default());
        Some(Csv { columns, scope: place("scope"), thread: place("thread"), caches })
    }
}

impl Format for Csv {
    fn line(&mut self, line: &str, history: &mut Builder) -> Result<(), String> {
        let fields: Vec<&str> = line.split(',').collect();
        let [step, op, id, bytes, stream, ..] = fields[..] else {
            return Err(format!("there are {} fields, not {}", fields.len(), self.columns));
        };
        if fields.len() != self.columns {
            return Err(format!("there are {} fields, not {}", fields.len(), self.columns));
        }
        let (step, id, bytes) = (number("step", step)?, number("id", id)?, number("bytes", bytes)?);
        // A replay has one stream, but a bad number means a damaged line.
        number::<u32>("stream", stream)?;
        if op == "device" && self.scope.is_some() {
            history.pages(bytes);
            return Ok(());
        }
        history.step(step)?;
        let thread = self.thread.map_or("0", |place| fields[place]);
        match (op, self.scope.map(|place| fields[place])) {
            ("a", None) => history.allocate(id, bytes),
            ("a", Some(scope)) => history.allocate_in(self.caches.serving(scope, thread).as_deref(), id, bytes),
            ("f", _) => history.free(id, bytes),
            ("enter", Some(scope)) if !scope.is_empty() => history.enter(&self.caches.enter(scope, thread)),
            ("leave", Some(scope)) if !scope.is_empty() => history.leave(&self.caches.leave(scope, thread)),
            ("short" | "reserve" | "lost", Some(_)) => Ok(()),
            _ => Err(format!("op is {op:?}, not a or f")),
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::replay::history::{History, Op};

    fn parse(lines: &[&str]) -> Result<History, String> {
        let mut builder = Builder::default();
        let mut csv = Csv::of(HEADER).unwrap();
        lines.iter().try_for_each(|line| csv.line(line, &mut builder))?;
        builder.finish(String::new())
    }

    #[test]
    fn what_an_earlier_step_allocated_may_be_freed() {
        let history = parse(&["0,a,7,100,0", "0,a,8,200,1", "2,f,7,100,0", "2,a,9,300,0"]).unwrap();
        let [first, second] = &history.steps[..] else { panic!("{} steps", history.steps.len()) };
        assert_eq!(first[..], [Op::Allocate { slot: 0, bytes: 100 }, Op::Allocate { slot: 1, bytes: 200 }]);
        assert_eq!(second[..], [Op::Free { slot: 0 }, Op::Allocate { slot: 0, bytes: 300 }]);
    }

    #[test]
    fn scopes_are_read_and_other_columns_are_not() {
        let mut csv = Csv::of("step,op,id,bytes,stream,time_ns,scope,served,thread").unwrap();
        let mut builder = Builder::default();
        let lines = [
            "0,device,0,65536,0,0,,,0",
            "0,a,1,8,0,7,,device,0",
            "1,enter,0,0,0,8,train,,0",
            "1,a,2,16,0,9,train,plan,0",
            "1,short,0,99,0,9,train,,0",
            "1,reserve,0,4096,0,9,train,,0",
            "2,enter,0,0,0,9,train,,3",
            "2,leave,0,0,0,9,train,,0",
            "2,f,2,16,0,9,,,0",
            "2,lost,0,5,0,0,,,0",
        ];
        lines.iter().try_for_each(|line| csv.line(line, &mut builder)).unwrap();
        let history = builder.finish(String::new()).unwrap();
        assert_eq!((history.page_bytes, history.steps.len()), (65536, 3));
        assert_eq!(history.scopes, ["train", "train of thread 3"]);
        let (train, other) = (Some(0), Some(1));
        let [enter, leave] = [Op::Enter { scope: train }, Op::Leave { scope: train }];
        assert_eq!(history.steps[1], [enter, Op::Allocate { slot: 1, bytes: 16 }]);
        assert_eq!(history.steps[2], [Op::Enter { scope: other }, leave, Op::Free { slot: 1 }]);
        assert!(Csv::of("step,op,id,bytes,stream2").is_none());
        assert!(csv.line("2,enter,0,0,0,9,,,0", &mut Builder::default()).is_err(), "no scope is entered");
    }

    #[test]
    fn a_damaged_line_is_refused() {
        let (alive, freed) = ("0,a,0,512,0", "0,f,0,512,0");
        let cases: [(&[&str], &str); 14] = [
            (&["0,a,0,512"], "4 fields"),
            (&["0,a,0,512,0,0"], "6 fields"),
            (&[""], "1 fields"),
            (&["x,a,0,512,0"], "step is \"x\""),
            (&["0,b,0,512,0"], "op is \"b\""),
            (&["0,a,,512,0"], "id is \"\""),
            (&["0,a,0,-1,0"], "bytes is \"-1\""),
            (&["0,a,0,512,s"], "stream is \"s\""),
            (&["1,a,0,512,0", "0,f,0,512,0"], "step 0 comes after step 1"),
            (&["0,f,0,512,0"], "never allocated"),
            (&[alive, freed, freed], "freed twice"),
            (&[alive, "0,a,0,512,0"], "allocated before"),
            (&[alive, freed, "0,a,0,512,0"], "allocated before"),
            (&[alive, "0,f,0,511,0"], "511 bytes, but was allocated with 512"),
        ];
        for (lines, expected) in cases {
            let what = parse(lines).unwrap_err();
            assert!(what.contains(expected), "{lines:?}: {what}");
        }
    }
}
