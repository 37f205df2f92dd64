//! A run as the library's trace tells it: the events of a file that `GPUCACHE_TRACE` or `Trace::write_csv` wrote.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::common::Result;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Allocate,
    Free,
    Enter,
    Leave,
    Short,
}

/// A line of the file.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) op: Op,
    /// Names an allocation, in its free too.
    pub(crate) id: u64,
    pub(crate) bytes: u64,
    pub(crate) stream: u64,
    pub(crate) time_ns: u64,
    pub(crate) thread: u64,
    /// Empty for none.
    pub(crate) scope: String,
    pub(crate) served: String,
    pub(crate) address: u64,
    pub(crate) dtype: String,
    pub(crate) shape: String,
    /// `file:line:column` of the scope.
    pub(crate) site: String,
    /// By number; addresses are those of one device.
    pub(crate) device: u64,
}

/// What is held from a device from some event on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reserved {
    /// Where the event that follows stands among the events.
    pub(crate) before: usize,
    pub(crate) time_ns: u64,
    pub(crate) device: u64,
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Run {
    pub(crate) events: Vec<Event>,
    /// In their order; none in a file of before they were told.
    pub(crate) reserved: Vec<Reserved>,
    /// Events that the trace had no room for.
    pub(crate) lost: u64,
}

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Reads a file, packed by gzip or not.
///
/// # Errors
/// When it cannot be read, or is no trace of the library's, with the line.
pub(crate) fn read(path: &Path) -> Result<Run> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut text = String::new();
    match bytes.starts_with(&GZIP_MAGIC) {
        true => MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text),
        false => (&bytes[..]).read_to_string(&mut text),
    }?;
    parse(&text).map_err(|(line, what)| format!("{}:{line}: {what}", path.display()).into())
}

/// An error comes with the line that it is in, counted from 1.
pub(crate) fn parse(text: &str) -> Result<Run, (usize, String)> {
    let mut lines = text.lines().zip(1..);
    let header: Vec<&str> = lines.next().map(|(header, _)| header.split(',').collect()).unwrap_or_default();
    let mut run = Run::default();
    for (line, number) in lines {
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != header.len() {
            return Err((number, format!("there are {} fields, not {}", fields.len(), header.len())));
        }
        run.take(&Line { header: &header, fields: &fields }).map_err(|what| (number, what))?;
    }
    Ok(run)
}

struct Line<'a> {
    header: &'a [&'a str],
    fields: &'a [&'a str],
}

impl Line<'_> {
    fn text(&self, name: &str) -> Result<&str, String> {
        let place = self.header.iter().position(|column| *column == name);
        let missing = || format!("the file has no column {name:?}: it is no trace of GPUCACHE_TRACE");
        place.map(|place| self.fields[place]).ok_or_else(missing)
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        let text = self.text(name)?;
        text.parse().map_err(|error| format!("{name} is {text:?} ({error})"))
    }

    /// The number of the device; 0 in a file that does not tell.
    fn device(&self) -> Result<u64, String> {
        if self.header.contains(&"device") { self.number("device") } else { Ok(0) }
    }

    fn address(&self) -> Result<u64, String> {
        let text = self.text("address")?;
        let digits = text.strip_prefix("0x").unwrap_or(text);
        u64::from_str_radix(digits, 16).map_err(|error| format!("address is {text:?} ({error})"))
    }
}

impl Run {
    fn take(&mut self, line: &Line<'_>) -> Result<(), String> {
        let op = match line.text("op")? {
            "a" => Op::Allocate,
            "f" => Op::Free,
            "enter" => Op::Enter,
            "leave" => Op::Leave,
            "short" => Op::Short,
            "reserve" => {
                let (time_ns, bytes) = (line.number("time_ns")?, line.number("bytes")?);
                let (before, device) = (self.events.len(), line.device()?);
                self.reserved.push(Reserved { before, time_ns, device, bytes });
                return Ok(());
            }
            "lost" => {
                self.lost += line.number("bytes")?;
                return Ok(());
            }
            other => return Err(format!("op is {other:?}")),
        };
        self.events.push(Event {
            op,
            id: line.number("id")?,
            bytes: line.number("bytes")?,
            stream: line.number("stream")?,
            time_ns: line.number("time_ns")?,
            thread: line.number("thread")?,
            scope: plain(line.text("scope")?),
            served: line.text("served")?.to_owned(),
            address: line.address()?,
            dtype: plain(line.text("dtype")?),
            shape: line.text("shape")?.to_owned(),
            site: plain(line.text("site")?),
            device: line.device()?,
        });
        Ok(())
    }

    /// The largest sum of bytes that were alive at once.
    #[cfg(test)]
    pub(crate) fn peak_bytes(&self) -> u64 {
        let (mut live, mut peak) = (0, 0);
        for event in &self.events {
            match event.op {
                Op::Allocate => live += event.bytes,
                Op::Free => live -= event.bytes,
                Op::Enter | Op::Leave | Op::Short => {}
            }
            peak = peak.max(live);
        }
        peak
    }
}

/// A name as it was before its commas were written as `%2C`.
fn plain(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, after @ ..] = rest {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match (first, code.and_then(|code| u8::from_str_radix(code, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two scopes, one within the other, an array of none, a shortage, and what lives to the end.
    pub(crate) const EXAMPLE: &str = "\
step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device
0,a,1,4096,1,1000,0,,device,0x200000,f32,32x32,,7
1,enter,0,0,0,2000,0,train%2C step,,0x0,,,src/main.rs:7:5,0
1,a,2,1000,1,2500,0,train%2C step,plan,0x600000,u8,1000,src/main.rs:7:5,7
1,enter,0,0,0,2600,0,inner,,0x0,,,src/main.rs:9:9,0
1,reserve,0,4194304,0,2650,0,inner,,0x0,,,src/main.rs:9:9,7
1,a,3,2097152,2,2700,0,inner,range,0x700000,f64,262144,src/main.rs:9:9,7
1,short,0,99999999,1,2800,0,inner,,0x0,u8,99999999,src/main.rs:9:9,7
1,leave,0,0,0,3000,0,inner,,0x0,,,src/main.rs:9:9,0
1,f,2,1000,1,3500,0,train%2C step,,0x600000,,,src/main.rs:7:5,7
1,leave,0,0,0,4000,0,train%2C step,,0x0,,,src/main.rs:7:5,0
1,f,3,2097152,2,5000,1,,,0x700000,,,,7
1,lost,0,12,0,0,0,,,0x0,,,,0
";

    pub(crate) fn example() -> Run {
        parse(EXAMPLE).unwrap()
    }

    #[test]
    fn a_file_is_read() {
        let run = example();
        assert_eq!((run.events.len(), run.lost, run.peak_bytes()), (10, 12, 4096 + 1000 + 2_097_152));
        let event = &run.events[2];
        assert_eq!((event.op, event.address, &*event.scope), (Op::Allocate, 0x0060_0000, "train, step"));
        assert_eq!(run.reserved, [Reserved { before: 4, time_ns: 2650, device: 7, bytes: 4_194_304 }]);
        assert_eq!(parse(&EXAMPLE.replace("site,device", "site,other")).unwrap().reserved[0].device, 0);
    }

    #[test]
    fn names_are_plain_again() {
        assert_eq!(plain("a%2Cb%0A%25%C2%85 %zz%2"), "a,b\n%\u{85} %zz%2");
    }

    #[test]
    fn a_damaged_line_is_refused() {
        let damaged = |from: &str, to: &str| parse(&EXAMPLE.replace(from, to)).unwrap_err();
        assert_eq!(damaged("1,a,2,1000,1,", "1,b,2,1000,1,").0, 4);
        assert_eq!(damaged("1,a,2,1000,1,", "1,a,2,x,1,").0, 4);
        assert_eq!(damaged("1,a,2,1000,1,", "1,a,2,1000,").0, 4);
        assert!(damaged(",served,", ",serves,").1.contains("no column"));
    }
}
