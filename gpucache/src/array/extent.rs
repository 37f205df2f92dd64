//! Computes the elements and bytes of a shape, and converts elements to bytes.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::slice::from_raw_parts;

use super::Element;
use gpucache_engine::base::amounts::Count;
use gpucache_engine::cache::Block;
use gpucache_engine::record::Request;
use gpucache_engine::{Error, Result};

/// The number of elements of `T` with these dimensions, if the product does not overflow and their bytes fit an `isize`.
///
/// Every way to make an array calls this function, so it also checks the alignment of `T`.
#[inline(always)]
pub(super) fn product<T>(dims: &[usize]) -> Option<usize> {
    const {
        assert!(align_of::<T>() as u64 <= Block::ALIGNMENT, "an element is aligned to at most 256 bytes, as blocks are")
    };
    let mut elements = 1usize;
    for &dim in dims {
        elements = elements.checked_mul(dim)?;
    }
    let most = (isize::MAX as usize).checked_div(size_of::<T>()).unwrap_or(usize::MAX);
    (elements <= most).then_some(elements)
}

/// Like [`product`], but with an error that explains why there is no result.
#[inline]
pub(super) fn elements<T>(dims: &[usize]) -> Result<usize> {
    product::<T>(dims).map_or_else(|| none::<T>(dims), Ok)
}

/// A zero dimension makes an array empty, even if the product of the others overflows.
#[cold]
#[inline(never)]
fn none<T>(dims: &[usize]) -> Result<usize> {
    if dims.contains(&0) {
        return Ok(0);
    }
    let dtype = std::any::type_name::<T>();
    Err(Error::invalid_shape(format!(
        "the shape {dims:?} of {dtype} overflows the address space: check the dimensions"
    )))
}

/// The allocation request for an array of this shape.
pub(super) fn request<T: 'static>(dims: &[usize]) -> Result<Request<'_>> {
    let bytes = elements::<T>(dims)? * size_of::<T>();
    Ok(Request { dtype: TypeId::of::<T>(), type_name: std::any::type_name::<T>(), dims, bytes, site: None })
}

pub(super) fn same_len<T>(dims: &[usize], len: usize) -> Result<()> {
    match elements::<T>(dims)? {
        elements if elements == len => Ok(()),
        elements => Err(Error::invalid_shape(format!(
            "the shape {dims:?} has {}, but {len} were passed: pass exactly as many as the shape has",
            Count(elements as u64, "element", "elements")
        ))),
    }
}

/// Elements as bytes.
pub(super) fn bytes_of<T: Element>(values: &[T]) -> &[u8] {
    // SAFETY: these are the bytes of `values`, borrowed equally long and also shared. An `Element` has no padding, so all
    // of them are initialized. Bytes need no alignment.
    unsafe { from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

/// The shortest part of `pattern` that yields `pattern` when repeated. Devices fill fastest with one byte, or a few.
pub(super) fn shortest_period(pattern: &[u8]) -> &[u8] {
    let mut period = pattern;
    while let (front, back) = period.split_at(period.len() / 2)
        && front == back
        && !front.is_empty()
    {
        period = front;
    }
    period
}

#[cfg(test)]
mod tests {
    use super::{elements, shortest_period};

    #[test]
    fn an_empty_array_has_no_elements_however_large_its_other_dimensions() {
        assert_eq!(elements::<u64>(&[usize::MAX, 0, usize::MAX]).unwrap(), 0);
    }

    #[test]
    fn overflow_is_an_error() {
        assert!(elements::<u8>(&[usize::MAX]).unwrap_err().is_invalid_shape());
        assert!(elements::<u8>(&[1 << 40, 1 << 40]).unwrap_err().is_invalid_shape());
        assert!(elements::<()>(&[usize::MAX]).is_ok());
    }

    #[test]
    fn periods_are_powers_of_two_of_the_pattern() {
        assert_eq!(shortest_period(&[0; 8]), [0]);
        assert_eq!(shortest_period(&[1, 2, 1, 2]), [1, 2]);
        assert_eq!(shortest_period(&[1, 2, 1, 3]), [1, 2, 1, 3]);
        assert_eq!(shortest_period(&[1, 1, 1]), [1, 1, 1]);
        assert_eq!(shortest_period(&[]), [0; 0]);
    }
}
