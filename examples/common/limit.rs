//! The argument of `--limit`: a limit as everywhere in gpucache, or a multiple of a peak that the program knows.

use std::str::FromStr;

use crate::common::Result;

/// How much memory may be reserved on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    Fixed(gpucache::Limit),
    /// A multiple of the peak.
    TimesPeak(f64),
}

impl FromStr for Limit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(factor) = text.strip_suffix('x') else {
            return text
                .parse()
                .map(Self::Fixed)
                .map_err(|error: gpucache::Error| format!("{error}, or a multiple of the peak (`0.6x`)"));
        };
        let is_plain = factor.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        let factor = factor.parse().ok().filter(|factor| is_plain && *factor > 0.0 && *factor < 1e6);
        factor.map(Self::TimesPeak).ok_or_else(|| "write a multiple of the peak as 0.6x".to_owned())
    }
}

impl Limit {
    /// The limit, where `peak` is the peak in bytes. A multiple is rounded up.
    pub(crate) fn of(self, peak: u64) -> gpucache::Limit {
        match self {
            Self::Fixed(limit) => limit,
            Self::TimesPeak(factor) => gpucache::Limit::hard((factor * peak as f64).ceil() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_one_of_gpucache_or_a_multiple_of_the_peak() {
        for text in ["20GiB", "1.5 MiB", "500MB", "1048576", "80%", "soft 1GiB", "none"] {
            assert_eq!(text.parse(), Ok(Limit::Fixed(text.parse().unwrap())));
        }
        assert_eq!("0.6x".parse(), Ok(Limit::TimesPeak(0.6)));
        for wrong in
            ["", "x", "GiB", "-1", "-1x", "0x", "1e9", "1e9x", "inf", "nanx", "20gib", "160%", "1.2.3x", "0.6y"]
        {
            assert!(wrong.parse::<Limit>().is_err(), "{wrong:?} is no limit");
        }
    }

    #[test]
    fn a_multiple_is_one_of_the_peak() {
        let of = |text: &str, peak| text.parse::<Limit>().unwrap().of(peak);
        assert_eq!([of("1.02x", 1024), of("0.5x", 1000), of("7", 1000)], [1045, 500, 7].map(gpucache::Limit::hard));
    }
}
