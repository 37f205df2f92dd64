//! Numbers with units for people to read, and sums that do not overflow.

use std::fmt;

/// Shows bytes in the largest binary unit that gives a number of at least 1, for example `1.50 GiB`. Below 10 KiB it shows the exact number
/// of bytes. `{:#}` shows both: `1610612736 bytes (1.50 GiB)`.
pub struct Bytes(pub u64);

/// A number of things, with the name of one thing and the name of several.
pub struct Count(pub u64, pub &'static str, pub &'static str);

/// Adds to a sum of counts or bytes. The sum stays at the largest number instead of wrapping around, in debug and release builds.
#[inline]
pub fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The sum of counts or bytes. It saturates, as [`add`] does.
pub fn total(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count(number, one, several) = self;
        write!(f, "{number} {}", if *number == 1 { one } else { several })
    }
}

/// Below this number of bytes, people read the exact number faster than a number with a unit.
const EXACT: u64 = 10 << 10;

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => return f.write_str("1 byte"),
            0..EXACT => return write!(f, "{} bytes", self.0),
            _ => {}
        }
        let power = self.0.ilog2() / 10;
        let unit = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"][power as usize % 7];
        let number = self.0 as f64 / (1u64 << (10 * power)) as f64;
        match f.alternate() {
            true => write!(f, "{} bytes ({number:.2} {unit})", self.0),
            false => write!(f, "{number:.2} {unit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bytes, Count};

    #[test]
    fn one_thing_is_named_otherwise_than_several() {
        let shown = [0, 1, 2].map(|number| Count(number, "entry", "entries").to_string());
        assert_eq!(shown, ["0 entries", "1 entry", "2 entries"]);
    }

    #[test]
    fn bytes_are_shown_in_the_unit_that_fits() {
        let shown = [0, 10239, 10240, 3 << 19, 3 << 29, u64::MAX].map(|bytes| Bytes(bytes).to_string());
        assert_eq!(format!("{:#} {:#}", Bytes(1), Bytes(3 << 29)), "1 byte 1610612736 bytes (1.50 GiB)");
        assert_eq!(shown, ["0 bytes", "10239 bytes", "10.00 KiB", "1.50 MiB", "1.50 GiB", "16.00 EiB"]);
    }
}
