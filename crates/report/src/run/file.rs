//! Parses the text of a trace's file, line by line.

use super::{Event, Op, Reserved, Run};
use crate::text::{self, Damage};

/// The columns that every file has.
const COLUMNS: [&str; 12] =
    ["op", "id", "bytes", "stream", "time_ns", "thread", "scope", "served", "address", "dtype", "shape", "site"];

/// An error comes with the line that it is in, counted from 1.
pub(crate) fn parse(text: &str) -> Result<Run, Damage> {
    let mut lines = text.lines().zip(1..);
    let header: Vec<&str> = lines.next().map(|(header, _)| header.split(',').collect()).unwrap_or_default();
    if let Some(name) = COLUMNS.iter().find(|name| !header.contains(name)) {
        return Err((1, missing(name)));
    }
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

fn missing(column: &str) -> String {
    format!("the file has no column {column:?}: it is no trace of GPUCACHE_TRACE")
}

struct Line<'a> {
    header: &'a [&'a str],
    fields: &'a [&'a str],
}

impl Line<'_> {
    fn text(&self, name: &str) -> Result<&str, String> {
        let place = self.header.iter().position(|column| *column == name);
        place.and_then(|place| self.fields.get(place).copied()).ok_or_else(|| missing(name))
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        text::number(name, self.text(name)?)
    }

    /// The number of the device; 0 in older files.
    fn device(&self) -> Result<u64, String> {
        if self.header.contains(&"device") { self.number("device") } else { Ok(0) }
    }

    /// The lines of the array and of the scope. Older files have that of the scope alone, in the column `site`.
    fn sites(&self) -> Result<(String, String), String> {
        let site = plain(self.text("site")?);
        if self.header.contains(&"scope_site") {
            Ok((site, plain(self.text("scope_site")?)))
        } else {
            Ok((String::new(), site))
        }
    }

    fn stack(&self) -> String {
        self.text("stack").map(plain).unwrap_or_default()
    }

    fn address(&self) -> Result<u64, String> {
        text::address("address", self.text("address")?)
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
            "device" => {
                self.page_bytes.insert(line.device()?, line.number("bytes")?);
                return Ok(());
            }
            "lost" => {
                self.lost = self.lost.saturating_add(line.number("bytes")?);
                return Ok(());
            }
            other => return Err(format!("op is {other:?}")),
        };
        let (site, scope_site) = line.sites()?;
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
            site,
            scope_site,
            stack: line.stack(),
            device: line.device()?,
        });
        Ok(())
    }
}

/// Undoes the escapes of a name, such as `%2C` for a comma.
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::tests::EXAMPLE;

    #[test]
    fn a_damaged_line_is_refused() {
        let damaged = |from: &str, to: &str| parse(&EXAMPLE.replace(from, to)).unwrap_err();
        assert_eq!(damaged("1,a,2,1000,1,", "1,b,2,1000,1,").0, 5);
        assert_eq!(damaged("1,a,2,1000,1,", "1,a,2,x,1,").0, 5);
        assert_eq!(damaged("1,a,2,1000,1,", "1,a,2,1000,").0, 5);
        assert!(damaged(",served,", ",serves,").1.contains("no column"));
    }

    #[test]
    fn what_is_no_trace_of_the_library_is_refused() {
        for text in ["", "step,op,id,bytes,stream\n", "id,bytes\n1,2\n"] {
            let (line, what) = parse(text).unwrap_err();
            assert!(line == 1 && what.contains("no column"), "{text:?}: {line}: {what}");
        }
    }

    #[test]
    fn names_are_plain_again() {
        assert_eq!(plain("a%2Cb%0A%25%C2%85 %zz%2"), "a,b\n%\u{85} %zz%2");
    }
}
