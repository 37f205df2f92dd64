//! The `{:?}` output of an array: its type, shape and device, and on a host its values. Long arrays show only the values at both ends.

use std::any::Any;
use std::fmt;

use super::{Array, Element};
use crate::device::{Device, Host};

/// Up to this many values are all shown.
const MANY: usize = 500;

/// With more dimensions, the values are one list. Lists within lists take the stack of the thread.
const DEEP: usize = 32;

/// If the ends of all dimensions are more values than this, the values are one list. Any three dimensions have fewer.
const MOST_AT_ENDS: usize = 1000;

/// Shows the type of the elements, the shape and the device, and on a host also the values. If there are more than 500 values, it shows
/// those at both ends of each dimension, and `..` for the rest. The values are one list if there are more than 32 dimensions, or if the ends of
/// all dimensions are more than 1000 values.
///
/// This neither waits nor fails. An array on a stream of [`Host::new_stream`] shows its values only while the stream has no work and no
/// other stream was lent the array. Values that failed work should have written are not shown. `&array[..]` waits, and shows all values.
///
/// ```
/// use gpucache::prelude::*;
///
/// let array = Array::from_slice(&Host::new(), [2, 2], &[1, 2, 3, 4])?;
/// assert_eq!(format!("{array:?}"), "Array<i32>[2, 2] on host: [[1, 2], [3, 4]]");
/// # Ok::<(), gpucache::Error>(())
/// ```
impl<T: Element, D: Device> fmt::Debug for Array<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The format's precision applies to values only, and the dimensions are always on one line.
        write!(f, "Array<{}>{:?} on {:?}", std::any::type_name::<T>(), self.shape(), self.device())?;
        let array: &dyn Any = self;
        let Some(values) = array.downcast_ref().and_then(Array::<T, Host>::at_rest) else { return Ok(()) };
        f.write_str(": ")?;
        let (flat, is_whole) = ([values.len()], values.len() <= MANY);
        let is_flat = self.shape().len() > DEEP || !is_whole && at_ends(self.shape()) > MOST_AT_ENDS;
        Rows { values, dims: if is_flat { &flat } else { self.shape() }, is_whole }.fmt(f)
    }
}

/// How many values are shown at each end of a dimension with `inner` dimensions inside it.
fn edge(inner: usize) -> usize {
    if inner < 2 { 5 } else { 3 }
}

/// How many values the ends of all dimensions are, each gap counted as one.
fn at_ends(dims: &[usize]) -> usize {
    let shown = dims.iter().rev().enumerate().map(|(inner, &len)| len.min(2 * edge(inner) + 1));
    shown.fold(1, usize::saturating_mul)
}

/// Values in row-major order, shown as lists within lists.
struct Rows<'a, T> {
    values: &'a [T],
    dims: &'a [usize],
    is_whole: bool,
}

impl<T> Rows<'_, T> {
    /// How many values are shown at each end of the outermost dimension.
    fn edge(&self) -> usize {
        match self.dims.len() {
            _ if self.is_whole => usize::MAX,
            rank => edge(rank - 1),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Rows<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((&len, dims)) = self.dims.split_first() else {
            return self.values.iter().try_for_each(|value| value.fmt(f));
        };
        let mut list = f.debug_list();
        // Without values the number of rows may be arbitrarily large, so none are shown.
        let stride = self.values.len().checked_div(len).unwrap_or(0);
        let len = if stride == 0 { 0 } else { len };
        let row = |at: usize| Rows { values: &self.values[at * stride..][..stride], dims, is_whole: self.is_whole };
        match self.edge() {
            edge if len / 2 <= edge => list.entries((0..len).map(row)),
            edge => list.entries((0..edge).map(row)).entry(&format_args!("..")).entries((len - edge..len).map(row)),
        };
        list.finish()
    }
}

#[cfg(test)]
mod tests {
    use crate::array::Array;
    use crate::device::Host;

    #[test]
    fn any_number_of_dimensions_is_shown() {
        let array = Array::<u8, _>::zeros(&Host::new(), vec![1; 100_000]).unwrap();
        assert!(format!("{array:?}").ends_with("on host: [0]"));
    }

    #[test]
    fn few_values_are_shown_of_any_shape() {
        let shown = |dims: &[usize]| format!("{:?}", Array::<u8, _>::zeros(&Host::new(), dims).unwrap());
        assert!(shown(&[2; 20]).ends_with(": [0, 0, 0, 0, 0, .., 0, 0, 0, 0, 0]"));
        assert!(shown(&[100; 3]).contains("[[["), "three dimensions are lists in lists");
    }
}
