//! The argument of `--limit`: bytes, or a fraction of the memory that training needs without a limit.

use std::str::FromStr;

/// The most memory that may be reserved on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    Bytes(u64),
    /// A fraction of the most memory reserved in some steps without a limit.
    Share(f64),
}

const UNITS: [(&str, u64); 7] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let limit = match text.strip_suffix('x') {
            Some(share) => number(share).map(Self::Share),
            None => bytes(text).map(Self::Bytes),
        };
        limit.ok_or_else(|| "say bytes, as 20GiB or 500MB, or a share of the peak without a limit, as 0.6x".to_owned())
    }
}

fn bytes(text: &str) -> Option<u64> {
    let unit = |(name, bytes): (&str, u64)| Some((text.strip_suffix(name)?, bytes));
    let (digits, unit) = UNITS.into_iter().find_map(unit).unwrap_or((text, 1));
    Some((number(digits)? * unit as f64) as u64)
}

/// A number above 0, written as digits with or without a point.
fn number(text: &str) -> Option<f64> {
    let text = text.trim_end();
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|&number: &f64| is_plain && number > 0.0)
}

impl Limit {
    /// Converts to bytes; `peak` is the most memory reserved without a limit.
    pub(crate) fn bytes(self, peak: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Share(share) => (share * peak as f64) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_bytes_or_a_share() {
        assert_eq!("20GiB".parse(), Ok(Limit::Bytes(20 << 30)));
        assert_eq!("1.5 MiB".parse(), Ok(Limit::Bytes(3 << 19)));
        assert_eq!("500MB".parse(), Ok(Limit::Bytes(500_000_000)));
        assert_eq!(("7".parse(), "9B".parse()), (Ok(Limit::Bytes(7)), Ok(Limit::Bytes(9))));
        assert_eq!("0.6x".parse(), Ok(Limit::Share(0.6)));
        for wrong in ["", "x", "GiB", "-1", "0", "0x", "1e9", "inf", "20gib", "60%", "1.2.3x", "0.6y"] {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?} is no limit");
        }
    }

    #[test]
    fn a_share_is_one_of_the_peak() {
        assert_eq!((Limit::Share(0.5).bytes(1000), Limit::Bytes(7).bytes(1000)), (500, 7));
    }
}
