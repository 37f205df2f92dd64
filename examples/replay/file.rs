//! From a file to a trace: unpacks it, sees to it that it is whole, and has each line read by the format that the first
//! one names. Every error says the file and the line.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use flate2::read::MultiGzDecoder;

use crate::common::Result;
use crate::csv::{self, Csv};
use crate::rmm::{self, Rmm};
use crate::trace::{Builder, Trace};

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// How the lines after the first one are read.
pub(crate) trait Format {
    /// Takes one line, without its end.
    ///
    /// # Errors
    /// What is wrong with it.
    fn line(&mut self, line: &str, trace: &mut Builder) -> Result<(), String>;
}

/// Reads the trace in a file, packed by gzip or not.
///
/// # Errors
/// When the file cannot be read, is cut off, or breaks its format.
pub(crate) fn read(path: &Path) -> Result<Trace> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    parse(&bytes, name_of(path)).map_err(|(line, what)| format!("{}:{line}: {what}", path.display()).into())
}

/// The file's name up to its endings.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}

/// An error comes with the line that it is in, counted from 1.
fn parse(bytes: &[u8], name: String) -> Result<Trace, (usize, String)> {
    let text = text_of(bytes)?;
    let mut lines = text.lines().zip(1..);
    let (header, _) = lines.next().ok_or((1, "the file is empty".to_owned()))?;
    let mut format = format_of(header).ok_or_else(|| (1, unknown(header)))?;
    let mut builder = Builder::default();
    for (line, number) in lines {
        format.line(line, &mut builder).map_err(|what| (number, what))?;
    }
    builder.finish(name).map_err(|what| (text.lines().count(), what))
}

fn format_of(header: &str) -> Option<Box<dyn Format>> {
    match header {
        rmm::HEADER => Some(Box::<Rmm>::default()),
        _ => Csv::of(header).map(|csv| Box::new(csv) as Box<dyn Format>),
    }
}

fn unknown(header: &str) -> String {
    let header: String = header.chars().take(80).collect();
    format!("{header:?} is not the first line of a trace, which is {:?} or {:?}", csv::HEADER, rmm::HEADER)
}

/// The text of the file, if all of it is there.
fn text_of(mut bytes: &[u8]) -> Result<String, (usize, String)> {
    let mut plain = Vec::new();
    let unpacked = match bytes.starts_with(&GZIP_MAGIC) {
        true => MultiGzDecoder::new(bytes).read_to_end(&mut plain),
        false => bytes.read_to_end(&mut plain),
    };
    unpacked.map_err(|error| (line_at(&plain), format!("the packed file is cut off or damaged here ({error})")))?;
    let text = String::from_utf8(plain).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        (line_at(&error.as_bytes()[..valid]), "this is not text".to_owned())
    })?;
    match text.is_empty() || text.ends_with('\n') {
        true => Ok(text),
        false => Err((line_at(text.as_bytes()), "the file is cut off in this line, which has no end".to_owned())),
    }
}

/// The line that comes after so many bytes.
fn line_at(bytes: &[u8]) -> usize {
    1 + bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// Exactly `N` fields, separated by commas.
pub(crate) fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split(',').collect();
    fields.try_into().map_err(|fields: Vec<_>| format!("there are {} fields, not {N}", fields.len()))
}

/// The number in the field `name`.
pub(crate) fn number<N: FromStr<Err: Display>>(name: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|error| format!("{name} is {text:?} ({error})"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const GOOD: &str = "step,op,id,bytes,stream\n0,a,0,512,0\n0,f,0,512,0\n";

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn wrong(bytes: &[u8]) -> (usize, String) {
        parse(bytes, String::new()).unwrap_err()
    }

    #[test]
    fn a_file_is_read_packed_or_not() {
        for bytes in [GOOD.into(), GOOD.replace('\n', "\r\n").into(), packed(GOOD)] {
            assert_eq!(parse(&bytes, String::new()).unwrap().operations(), 2);
        }
    }

    #[test]
    fn a_last_line_without_its_end_is_refused() {
        let (line, what) = wrong(GOOD.trim_end().as_bytes());
        assert_eq!(line, 3);
        assert!(what.contains("cut off"), "{what}");
    }

    #[test]
    fn a_packed_file_that_is_cut_off_anywhere_is_refused() {
        let bytes = packed(GOOD);
        for end in 0..bytes.len() {
            let (line, _) = wrong(&bytes[..end]);
            assert!((1..=4).contains(&line), "cut off at {end}: line {line}");
        }
        assert_eq!(wrong(&bytes[..bytes.len() - 1]).0, 4, "all lines are there, only the checksum is not");
    }

    #[test]
    fn what_is_no_trace_is_refused() {
        for bytes in [&b""[..], b"\n", b"id,bytes\n", b"\xff\xfe\n", b"step,op,id,bytes,stream\n"] {
            assert_eq!(wrong(bytes).0, 1, "{bytes:?}");
        }
        assert_eq!(wrong(&[GOOD.as_bytes(), b"0,a,\xff,1,0\n"].concat()), (4, "this is not text".to_owned()));
    }

    #[test]
    fn errors_name_file_and_line() {
        let folder = std::env::temp_dir().join(format!("gpucache-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("bad.csv");
        std::fs::write(&path, format!("{GOOD}0,f,7,512,0\n")).unwrap();
        let error = read(&path).unwrap_err().to_string();
        let missing = read(&folder.join("missing.csv")).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(error, format!("{}:4: 7 is freed, but was never allocated", path.display()));
        assert!(missing.contains("missing.csv"), "{missing}");
    }

    #[test]
    fn names_lose_their_endings() {
        for path in ["a/gpt2.csv.gz", "gpt2.csv", "gpt2"] {
            assert_eq!(name_of(Path::new(path)), "gpt2");
        }
        assert_eq!(name_of(Path::new("rmm_log.dev0.txt")), "rmm_log.dev0.txt");
    }
}
