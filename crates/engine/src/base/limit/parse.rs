//! The parser of limits. It runs in constants too, so that the compiler reads the texts in macros.

use super::{Limit, LimitKind, NoLimit, PERCENT, WHOLE};

/// The limit of a text.
pub(super) const fn limit(text: &str) -> Result<Limit, NoLimit> {
    let mut rest = text.as_bytes().trim_ascii();
    if is_same(rest, b"none") {
        return Ok(Limit::NONE);
    }
    let is_soft = starts_with(rest, b"soft ");
    if is_soft {
        rest = rest.split_at(5).1.trim_ascii();
    }
    if let Some((b'%', digits)) = rest.split_last() {
        return share(digits, is_soft);
    }
    let (digits, unit) = split_unit(rest);
    match scaled(digits, unit) {
        None if is_whole(digits) => Err(NoLimit::TooLarge),
        None => Err(NoLimit::NoAmount),
        // There is no half of a byte.
        Some(_) if unit == 1 && !is_whole(digits) => Err(NoLimit::NoAmount),
        Some(bytes) => Ok(if is_soft { Limit::soft(bytes) } else { Limit::hard(bytes) }),
    }
}

/// The limit of so many percent.
const fn share(digits: &[u8], is_soft: bool) -> Result<Limit, NoLimit> {
    match scaled(digits, PERCENT) {
        Some(amount) if amount <= WHOLE => {
            Ok(Limit { amount, kind: if is_soft { LimitKind::SoftShare } else { LimitKind::HardShare } })
        }
        Some(_) => Err(NoLimit::AboveWhole),
        None => Err(NoLimit::NoAmount),
    }
}

/// Whether a text has digits alone.
const fn is_whole(text: &[u8]) -> bool {
    let (text, mut place) = (text.trim_ascii(), 0);
    while place < text.len() && text[place].is_ascii_digit() {
        place += 1;
    }
    place > 0 && place == text.len()
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

/// A decimal number times `unit`, rounded down. `None` for what is no number, or too large.
const fn scaled(text: &[u8], unit: u64) -> Option<u64> {
    let (text, mut place) = (text.trim_ascii(), 0);
    // All digits that count, without the point, and how many of them are behind it.
    let (mut number, mut decimals) = (0, 0);
    let (mut has_digits, mut has_point) = (false, false);
    while place < text.len() {
        match text[place] {
            b'.' if !has_point => has_point = true,
            b'0'..=b'9' if decimals == MOST_DECIMALS => {}
            digit @ b'0'..=b'9' => {
                number = number * 10 + (digit - b'0') as u128;
                decimals += has_point as u32;
                has_digits = true;
            }
            _ => return None,
        }
        if decimals == 0 && number > u64::MAX as u128 {
            return None;
        }
        place += 1;
    }
    let Some(product) = number.checked_mul(unit as u128) else { return None };
    let bytes = product / 10u128.pow(decimals);
    if !has_digits || bytes > u64::MAX as u128 { None } else { Some(bytes as u64) }
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
