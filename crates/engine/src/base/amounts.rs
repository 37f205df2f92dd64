//! Numbers with units for people to read, sums that do not overflow, and statistics that are summed and compared.

use std::fmt;
use std::time::Duration;

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

/// Combines two numbers.
type With = fn(u64, u64) -> u64;

/// Statistics, of which sums and differences are taken: [`SUM`], [`SINCE`].
pub trait Combine {
    /// Combines all counts with those of another reading by `with[0]`, and the amounts of the moment by `with[1]`.
    fn combine(&mut self, other: &Self, with: [With; 2]);
}

/// The sums of both readings.
pub const SUM: [With; 2] = [u64::saturating_add; 2];

/// What was counted since the other reading, and the amounts of this one.
pub const SINCE: [With; 2] = [u64::saturating_sub, |now, _| now];

impl Combine for u64 {
    fn combine(&mut self, other: &u64, with: [With; 2]) {
        *self = with[0](*self, *other);
    }
}

impl Combine for Duration {
    fn combine(&mut self, other: &Duration, with: [With; 2]) {
        let [own, other] = [*self, *other].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        *self = Duration::from_nanos(with[0](own, other));
    }
}

impl<T: Combine, const N: usize> Combine for [T; N] {
    fn combine(&mut self, other: &[T; N], with: [With; 2]) {
        self.iter_mut().zip(other).for_each(|(own, other)| own.combine(other, with));
    }
}

/// Implements [`Combine`] for a struct: its counts, and then its amounts of the moment.
#[doc(hidden)]
#[macro_export]
macro_rules! combine {
    ($name:ty: $($count:ident)*; $($amount:ident)*) => {
        impl $crate::base::amounts::Combine for $name {
            fn combine(&mut self, other: &Self, with: [fn(u64, u64) -> u64; 2]) {
                $($crate::base::amounts::Combine::combine(&mut self.$count, &other.$count, with);)*
                $($crate::base::amounts::Combine::combine(&mut self.$amount, &other.$amount, [with[1]; 2]);)*
            }
        }
    };
}

pub use combine;

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
