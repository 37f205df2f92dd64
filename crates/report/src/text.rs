//! Reads the whole text of a file, packed by gzip or not, and the numbers in its fields.

use std::fmt::Display;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use flate2::read::MultiGzDecoder;

use crate::error::Error;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// A line, counted from 1, and its problem.
pub(crate) type Damage = (usize, String);

/// Reads a file and parses its text by `parse`.
pub(crate) fn read<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, Damage>) -> Result<T, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    let damaged = |(line, what)| Error::Damaged { path: path.to_owned(), line, what };
    parse(&text_of(&bytes).map_err(damaged)?).map_err(damaged)
}

fn text_of(mut bytes: &[u8]) -> Result<String, Damage> {
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

/// The line after so many bytes.
fn line_at(bytes: &[u8]) -> usize {
    1 + bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// The number in the field `name`.
pub(crate) fn number<N: FromStr<Err: Display>>(name: &str, text: &str) -> Result<N, String> {
    text.parse().map_err(|error| format!("{name} is {text:?} ({error})"))
}

/// The address in the field `name`, in hexadecimal digits. RMM's versions write them with `0x` or without.
pub(crate) fn address(name: &str, text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    u64::from_str_radix(digits, 16).map_err(|error| format!("{name} is {text:?} ({error})"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    const GOOD: &str = "first\nsecond\nthird\n";

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_text_is_read_packed_or_not() {
        assert_eq!(text_of(GOOD.as_bytes()).unwrap(), GOOD);
        assert_eq!(text_of(&packed(GOOD)).unwrap(), GOOD);
    }

    #[test]
    fn a_last_line_without_its_end_is_refused() {
        let (line, what) = text_of(GOOD.trim_end().as_bytes()).unwrap_err();
        assert_eq!(line, 3);
        assert!(what.contains("cut off"), "{what}");
    }

    #[test]
    fn a_packed_text_that_is_cut_off_anywhere_is_refused() {
        let bytes = packed(GOOD);
        for end in 2..bytes.len() {
            let (line, _) = text_of(&bytes[..end]).unwrap_err();
            assert!((1..=4).contains(&line), "cut off at {end}: line {line}");
        }
        let (line, _) = text_of(&bytes[..bytes.len() - 1]).unwrap_err();
        assert_eq!(line, 4, "all lines are there, only the checksum is not");
    }

    #[test]
    fn what_is_no_text_is_refused() {
        let bytes = [GOOD.as_bytes(), b"0,a,\xff,1,0\n"].concat();
        assert_eq!(text_of(&bytes), Err((4, "this is not text".to_owned())));
    }
}
