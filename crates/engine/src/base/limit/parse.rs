//! The parser of limits. It runs in constants too, so that the compiler reads the texts in macros.

use super::{Limit, LimitKind, PERCENT, WHOLE};

/// The limit of a text; `None` for a text that is none.
pub(super) const fn limit(text: &str) -> Option<Limit> {
    let mut rest = trimmed(text.as_bytes());
    if is_same(rest, b"none") {
        return Some(Limit::NONE);
    }
    let is_soft = starts_with(rest, b"soft ");
    if is_soft {
        rest = trimmed(rest.split_at(5).1);
    }
    if let Some((b'%', digits)) = rest.split_last() {
        return match scaled(digits, PERCENT) {
            Some(amount) if amount <= WHOLE => {
                Some(Limit { amount, kind: if is_soft { LimitKind::SoftShare } else { LimitKind::HardShare } })
            }
            _ => None,
        };
    }
    let (digits, unit) = split_unit(rest);
    match scaled(digits, unit) {
        // There is no half of a byte.
        Some(_) if unit == 1 && !is_whole(digits) => None,
        Some(bytes) if is_soft => Some(Limit::soft(bytes)),
        Some(bytes) => Some(Limit::hard(bytes)),
        None => None,
    }
}

/// Why a text is no limit.
pub(super) const fn reason(text: &str) -> &'static str {
    if is_above_whole(text) {
        "a share is at most 100%"
    } else if is_too_large(text) {
        "a limit is less than 2^64 bytes"
    } else {
        "it is neither bytes nor a share"
    }
}

/// Whether a text is a number of bytes that no 64 bits hold.
const fn is_too_large(text: &str) -> bool {
    let text = trimmed(text.as_bytes());
    let amount = if starts_with(text, b"soft ") { text.split_at(5).1 } else { text };
    let (digits, unit) = split_unit(amount);
    is_whole(digits) && scaled(digits, unit).is_none()
}

/// Whether a text has digits alone.
const fn is_whole(text: &[u8]) -> bool {
    let (text, mut place) = (trimmed(text), 0);
    while place < text.len() && text[place].is_ascii_digit() {
        place += 1;
    }
    place > 0 && place == text.len()
}

/// Whether a text is a share of more than the whole.
pub(super) const fn is_above_whole(text: &str) -> bool {
    let text = trimmed(text.as_bytes());
    let share = if starts_with(text, b"soft ") { text.split_at(5).1 } else { text };
    match share.split_last() {
        Some((b'%', digits)) => matches!(scaled(digits, PERCENT), Some(amount) if amount > WHOLE),
        _ => false,
    }
}

/// The units, each behind those that end in it.
pub(super) const UNITS: [(&[u8], u64); 9] = [
    (b"KiB", 1 << 10),
    (b"MiB", 1 << 20),
    (b"GiB", 1 << 30),
    (b"TiB", 1 << 40),
    (b"KB", 1_000),
    (b"MB", 1_000_000),
    (b"GB", 1_000_000_000),
    (b"TB", 1_000_000_000_000),
    (b"B", 1),
];

/// A number and the bytes of the unit behind it; 1 without a unit.
const fn split_unit(text: &[u8]) -> (&[u8], u64) {
    let mut place = 0;
    while place < UNITS.len() {
        let (name, bytes) = UNITS[place];
        if text.len() >= name.len() {
            let (digits, end) = text.split_at(text.len() - name.len());
            if is_same(end, name) {
                return (digits, bytes);
            }
        }
        place += 1;
    }
    (text, 1)
}

/// More digits behind the point than this make less than a byte of the largest unit, and are left out. A number of 64 bits with as many
/// more, times the largest unit, has less than 128.
const MOST_DECIMALS: u32 = 7;

/// A decimal number as it is read, digit by digit.
struct Decimal {
    /// All digits that count, without the point.
    number: u128,
    digits: usize,
    has_point: bool,
    /// How many of the digits are behind the point.
    decimals: u32,
}

impl Decimal {
    /// Reads one more character. `None` for one that no number has there, and for a number of more than 64 bits.
    const fn with(self, character: u8) -> Option<Decimal> {
        match character {
            b'.' if !self.has_point => Some(Decimal { has_point: true, ..self }),
            b'0'..=b'9' if self.decimals == MOST_DECIMALS => Some(self),
            b'0'..=b'9' => {
                let number = self.number * 10 + (character - b'0') as u128;
                let decimals = self.decimals + self.has_point as u32;
                let is_too_large = decimals == 0 && number > u64::MAX as u128;
                if is_too_large { None } else { Some(Decimal { number, digits: self.digits + 1, decimals, ..self }) }
            }
            _ => None,
        }
    }
}

/// A decimal number times `unit`, rounded down. `None` for what is no number, or too large.
const fn scaled(text: &[u8], unit: u64) -> Option<u64> {
    let (text, mut place) = (trimmed(text), 0);
    let mut decimal = Decimal { number: 0, digits: 0, has_point: false, decimals: 0 };
    while place < text.len() {
        decimal = match decimal.with(text[place]) {
            Some(decimal) => decimal,
            None => return None,
        };
        place += 1;
    }
    let Some(product) = decimal.number.checked_mul(unit as u128) else { return None };
    let bytes = product / 10u128.pow(decimal.decimals);
    if decimal.digits == 0 || bytes > u64::MAX as u128 { None } else { Some(bytes as u64) }
}

const fn trimmed(text: &[u8]) -> &[u8] {
    text.trim_ascii()
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && starts_with(one, other)
}

/// In capitals or not.
const fn starts_with(text: &[u8], beginning: &[u8]) -> bool {
    if text.len() < beginning.len() {
        return false;
    }
    let mut place = 0;
    while place < beginning.len() {
        if !text[place].eq_ignore_ascii_case(&beginning[place]) {
            return false;
        }
        place += 1;
    }
    true
}
