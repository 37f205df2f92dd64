//! How much memory may be held: the one type of limit, and the one parser of its text.

mod parse;
mod rejected;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use self::parse::UNITS;
use super::error::{Error, Result};

/// How much memory may be held: bytes or a share of the device's memory, hard or soft.
///
/// A hard limit is never exceeded: an allocation beyond it gets idle memory, or fails. A soft limit refuses no allocation: idle
/// memory goes back first, and then gpucache reserves more. Code, both macros, the environment and the command-line tools take
/// the same texts:
///
/// | text | limit |
/// |---|---|
/// | `20GiB`, `1.5 MiB`, `500MB`, `1048576` | bytes; units are `B`, `KiB` to `TiB` (powers of 1024), and `KB` to `TB` (powers of 1000) |
/// | `80%` | a share of the device's memory |
/// | `soft 20GiB`, `soft 80%` | the same as a soft limit |
/// | `none` | no limit |
///
/// Upper and lower case mean the same: `20gib` is `20GiB`.
///
/// ```
/// use gpucache::{Limit, device::Virtual, prelude::*};
///
/// let device = Virtual::new(1000 << 20);
/// device.set_limit("80%")?;
/// assert_eq!(device.memory().limit, Some(800 << 20));
/// device.set_limit(Limit::soft(512 << 20))?; // beside the hard one
/// assert_eq!("soft 512MiB".parse::<Limit>()?, Limit::soft(512 << 20));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Bytes, or billionths of the device's memory.
    amount: u64,
    kind: LimitKind,
}

/// The unit of a limit, and whether the limit is hard.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LimitKind {
    /// Bytes.
    Hard,
    /// Bytes, softly.
    Soft,
    /// Billionths of the device's memory.
    HardShare,
    /// Billionths of the device's memory, softly.
    SoftShare,
    /// A share that is no number from 0 to 1, or a text that is no limit. The amount is the place of its error.
    Invalid,
    /// No limit.
    None,
}

/// Why a text is no limit.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLimit {
    #[error("a share is at most 100%")]
    AboveWhole,
    #[error("a limit is less than 2^64 bytes")]
    TooLarge,
    #[error("it is neither bytes nor a share")]
    NoAmount,
}

/// The bits of a packed limit that its amount has.
const AMOUNT_BITS: u32 = 61;
/// The largest packed amount: 2 EiB.
const AMOUNTS: u64 = (1 << AMOUNT_BITS) - 1;

/// The whole of a device's memory, in the unit of shares.
const WHOLE: u64 = 1_000_000_000;
/// One percent.
const PERCENT: u64 = WHOLE / 100;

/// The accepted forms of a text. Messages end with them.
pub(crate) const FORMS: &str = "write bytes (`20GiB`, `500MB` or `1048576`; the units are `KiB MiB GiB TiB` and `KB MB GB TB`) \
    or a share of the device (`80%`), with `soft ` in front for a soft limit, or `none`";

impl Limit {
    /// No limit, hard or soft.
    ///
    /// ```
    /// use gpucache::{Limit, device::Virtual, prelude::*};
    ///
    /// let device = Virtual::new(1 << 30);
    /// device.set_limit("16MiB")?;
    /// device.set_limit(Limit::NONE)?;
    /// assert_eq!(device.memory().limit, None);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub const NONE: Limit = Limit { amount: u64::MAX, kind: LimitKind::None };

    /// Stands for a share that is no number from 0 to 1. A scope with this limit returns the error from its first allocation.
    #[doc(hidden)]
    pub const INVALID: Limit = Limit { amount: u64::MAX, kind: LimitKind::Invalid };

    /// Stands for this error, for a call that cannot return it. A scope with this limit returns the error from its first allocation.
    #[doc(hidden)]
    pub fn rejected(error: Error) -> Limit {
        rejected::keep(error)
    }

    /// At most `bytes`; an allocation beyond them is an error.
    ///
    /// ```
    /// use gpucache::Limit;
    ///
    /// assert_eq!(Limit::hard(20 << 30).to_string(), "20GiB");
    /// ```
    pub const fn hard(bytes: u64) -> Limit {
        Limit { amount: bytes, kind: LimitKind::Hard }
    }

    /// Idle memory is returned before more than `bytes` are reserved. No allocation fails because of this limit.
    ///
    /// ```
    /// use gpucache::Limit;
    ///
    /// assert_eq!(Limit::soft(20 << 30).to_string(), "soft 20GiB");
    /// ```
    pub const fn soft(bytes: u64) -> Limit {
        Limit { amount: bytes, kind: LimitKind::Soft }
    }

    /// At most this share of the device's memory, from 0.0 to 1.0. With another number, the call that sets the limit returns an error.
    ///
    /// ```
    /// use gpucache::Limit;
    ///
    /// assert_eq!(Limit::share(0.8).to_string(), "80%");
    /// assert!(Limit::share(1.5).bytes(Some(1 << 30)).unwrap_err().is_unavailable());
    /// ```
    pub const fn share(share: f64) -> Limit {
        Limit::of_share(share, LimitKind::HardShare)
    }

    /// As [`share`](Limit::share), but as a soft limit.
    ///
    /// ```
    /// use gpucache::Limit;
    ///
    /// assert_eq!(Limit::soft_share(0.8).to_string(), "soft 80%");
    /// ```
    pub const fn soft_share(share: f64) -> Limit {
        Limit::of_share(share, LimitKind::SoftShare)
    }

    const fn of_share(share: f64, kind: LimitKind) -> Limit {
        // Not a number is in no range.
        if share >= 0.0 && share <= 1.0 {
            Limit { amount: (share * WHOLE as f64 + 0.5) as u64, kind }
        } else {
            Limit::INVALID
        }
    }

    /// Whether the limit is soft: it makes idle memory go back, and no allocation fails because of it.
    ///
    /// ```
    /// use gpucache::Limit;
    ///
    /// assert!(Limit::soft(1 << 30).is_soft() && !Limit::share(0.5).is_soft());
    /// ```
    pub const fn is_soft(self) -> bool {
        self.kind.is_soft()
    }

    /// The bytes that the limit allows on a device of `size` bytes; `u64::MAX` for no limit.
    ///
    /// # Errors
    /// [`is_unavailable`](Error::is_unavailable) for a share where the size is `None`, and for a share that is no number from 0
    /// to 1.
    ///
    /// ```
    /// use gpucache::Limit;
    ///
    /// assert_eq!(Limit::share(0.5).bytes(Some(80 << 30))?, 40 << 30);
    /// assert_eq!(Limit::hard(1000).bytes(None)?, 1000);
    /// assert!(Limit::share(0.5).bytes(None).is_err()); // the size is not known
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    pub fn bytes(self, size: Option<u64>) -> Result<u64> {
        match (self.kind, size) {
            (LimitKind::None | LimitKind::Hard | LimitKind::Soft, _) => Ok(self.amount),
            (LimitKind::HardShare | LimitKind::SoftShare, Some(size)) => Ok(share_of(self.amount, size)),
            (LimitKind::HardShare | LimitKind::SoftShare, None) => Err(Error::unavailable(
                format_args!("the limit `{self}`"),
                "this device does not tell how much memory it has",
                "set a number of bytes, as `20GiB`",
            )),
            (LimitKind::Invalid, _) => Err(rejected::error(self.amount)),
        }
    }

    /// The limit in one word: its kind in the upper bits, its amount in all others.
    pub(crate) const fn packed(self) -> u64 {
        let (amount, kind) = (self.amount, self.kind as u64);
        match self.kind {
            LimitKind::None => u64::MAX,
            // No device has as much.
            LimitKind::Hard | LimitKind::Soft if amount > AMOUNTS => u64::MAX,
            _ => (kind << AMOUNT_BITS) | (amount & AMOUNTS),
        }
    }

    /// The limit of this word.
    pub(crate) const fn of_packed(word: u64) -> Limit {
        let kind = match word >> AMOUNT_BITS {
            0 => LimitKind::Hard,
            1 => LimitKind::Soft,
            2 => LimitKind::HardShare,
            3 => LimitKind::SoftShare,
            4 => LimitKind::Invalid,
            _ => return Limit::NONE,
        };
        Limit { amount: word & AMOUNTS, kind }
    }

    /// The amount and its kind.
    #[doc(hidden)]
    pub const fn parts(self) -> (u64, LimitKind) {
        (self.amount, self.kind)
    }

    /// The limit of this text, also in constants; or why it is none.
    #[doc(hidden)]
    pub const fn parse(text: &str) -> Result<Limit, NoLimit> {
        parse::limit(text)
    }
}

impl LimitKind {
    /// Whether a limit of this kind refuses no allocation.
    #[doc(hidden)]
    pub const fn is_soft(self) -> bool {
        matches!(self, LimitKind::Soft | LimitKind::SoftShare)
    }

    /// Whether the amount is in bytes, and counts as it is.
    #[inline]
    pub(crate) const fn is_in_bytes(self) -> bool {
        matches!(self, LimitKind::None | LimitKind::Hard | LimitKind::Soft)
    }
}

/// This many billionths of `bytes`.
pub(crate) fn share_of(billionths: u64, bytes: u64) -> u64 {
    // At most all of them.
    (u128::from(bytes) * u128::from(billionths) / u128::from(WHOLE)) as u64
}

/// The text that parses to the same limit.
impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_soft() {
            f.write_str("soft ")?;
        }
        match self.kind {
            LimitKind::None => f.write_str("none"),
            LimitKind::Invalid => f.write_str("not a limit"),
            LimitKind::HardShare | LimitKind::SoftShare => {
                let (percent, rest) = (self.amount / PERCENT, self.amount % PERCENT);
                let decimals = format!("{rest:07}");
                let decimals = decimals.trim_end_matches('0');
                let point = if decimals.is_empty() { "" } else { "." };
                write!(f, "{percent}{point}{decimals}%")
            }
            LimitKind::Hard | LimitKind::Soft => {
                let whole = |unit: &&(&[u8], u64)| self.amount > 0 && self.amount.is_multiple_of(unit.1);
                match UNITS[..4].iter().rev().find(whole) {
                    Some((name, bytes)) => write!(f, "{}{}", self.amount / bytes, String::from_utf8_lossy(name)),
                    None => write!(f, "{}", self.amount),
                }
            }
        }
    }
}

impl FromStr for Limit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Limit> {
        Limit::parse(text).map_err(|why| Error::unavailable(format_args!("the limit {text:?}"), why, FORMS))
    }
}
