//! The format of the traces in `examples/traces`: an `a` allocates, an `f` frees, and an id names one allocation for good.

use crate::file::{Format, fields, number};
use crate::trace::Builder;

pub(crate) const HEADER: &str = "step,op,id,bytes,stream";

#[derive(Debug)]
pub(crate) struct Csv;

impl Format for Csv {
    fn line(&mut self, line: &str, trace: &mut Builder) -> Result<(), String> {
        let [step, op, id, bytes, stream] = fields(line)?;
        let (step, id, bytes) = (number("step", step)?, number("id", id)?, number("bytes", bytes)?);
        // All streams are replayed on one, but a field that is not what it should be means a damaged line.
        number::<u32>("stream", stream)?;
        trace.step(step)?;
        match op {
            "a" => trace.allocate(id, bytes),
            "f" => trace.free(id, bytes),
            _ => Err(format!("op is {op:?}, not a or f")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Op, Trace};

    fn parse(lines: &[&str]) -> Result<Trace, String> {
        let mut builder = Builder::default();
        lines.iter().try_for_each(|line| Csv.line(line, &mut builder))?;
        builder.finish(String::new())
    }

    #[test]
    fn what_an_earlier_step_allocated_may_be_freed() {
        let trace = parse(&["0,a,7,100,0", "0,a,8,200,1", "2,f,7,100,0", "2,a,9,300,0"]).unwrap();
        let [first, second] = &trace.steps[..] else { panic!("{} steps", trace.steps.len()) };
        assert_eq!(first[..], [Op::Allocate { slot: 0, bytes: 100 }, Op::Allocate { slot: 1, bytes: 200 }]);
        assert_eq!(second[..], [Op::Free { slot: 0 }, Op::Allocate { slot: 0, bytes: 300 }]);
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
