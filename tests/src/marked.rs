//! Arrays of several types that know their contents, so that a block with two owners is noticed.

use std::fmt::Debug;

use gpucache::device::Device;
use gpucache::{Array, Element, Result};

/// The number of types that a [`Marked`] array can have.
pub const TYPES: usize = 4;

/// An array, and the mark from which its contents are computed.
pub struct Marked<D: Device> {
    mark: u32,
    array: Typed<D>,
}

enum Typed<D: Device> {
    Bytes(Array<u8, D>),
    Words(Array<u32, D>),
    Doubles(Array<f64, D>),
    Triples(Array<[u16; 3], D>),
}

/// An element that depends on the array's mark and its own place.
trait Sample: Element + PartialEq + Debug {
    fn sample(bits: u32) -> Self;

    fn samples(mark: u32, len: usize) -> Vec<Self> {
        let bits = |place: u32| (mark ^ place.wrapping_mul(0x85EB_CA6B)).wrapping_mul(0x9E37_79B9).rotate_left(15);
        (0..len as u32).map(|place| Self::sample(bits(place))).collect()
    }
}

impl Sample for u8 {
    fn sample(bits: u32) -> u8 {
        bits as u8
    }
}

impl Sample for u32 {
    fn sample(bits: u32) -> u32 {
        bits
    }
}

impl Sample for f64 {
    fn sample(bits: u32) -> f64 {
        bits.into()
    }
}

impl Sample for [u16; 3] {
    fn sample(bits: u32) -> [u16; 3] {
        [bits as u16, (bits >> 16) as u16, !bits as u16]
    }
}

/// The size of elements of type number `kind`, in bytes.
pub fn element_size(kind: usize) -> usize {
    [1, 4, 8, 6][kind]
}

fn make<T: Sample, D: Device>(device: &D, shape: &[usize], mark: u32) -> Result<Array<T, D>> {
    let values = T::samples(mark, shape.iter().product());
    if mark.is_multiple_of(2) {
        return Array::from_slice(device, shape, &values);
    }
    let mut array = Array::zeros(device, shape)?;
    array.copy_from_slice(&values)?;
    Ok(array)
}

fn check<T: Sample, D: Device>(array: &Array<T, D>, mark: u32) {
    let found = array.to_vec().expect("readable");
    assert_eq!(found, T::samples(mark, array.len()), "array {mark} contains something else");
}

fn flat<T: Element, D: Device>(array: Array<T, D>) -> Result<Array<T, D>> {
    let len = array.len();
    array.reshape(len)
}

macro_rules! each {
    ($typed:expr, $array:ident => $act:expr) => {
        match $typed {
            Typed::Bytes($array) => $act,
            Typed::Words($array) => $act,
            Typed::Doubles($array) => $act,
            Typed::Triples($array) => $act,
        }
    };
}

impl<D: Device> Marked<D> {
    /// An array of type number `kind` with the contents of `mark`.
    ///
    /// # Errors
    /// As for [`Array::from_slice`].
    pub fn new(device: &D, kind: usize, shape: &[usize], mark: u32) -> Result<Marked<D>> {
        let array = match kind {
            0 => Typed::Bytes(make(device, shape, mark)?),
            1 => Typed::Words(make(device, shape, mark)?),
            2 => Typed::Doubles(make(device, shape, mark)?),
            _ => Typed::Triples(make(device, shape, mark)?),
        };
        Ok(Marked { mark, array })
    }

    /// # Panics
    /// If the array contains anything but the contents of its mark.
    pub fn check(&self) {
        each!(&self.array, array => check(array, self.mark));
    }

    /// Gives the array another mark.
    ///
    /// # Errors
    /// As for [`Array::copy_from_slice`].
    pub fn rewrite(&mut self, mark: u32) -> Result<()> {
        self.mark = mark;
        each!(&mut self.array, array => array.copy_from_slice(&Sample::samples(mark, array.len())))
    }

    /// A copy, with the same mark.
    ///
    /// # Errors
    /// As for [`Array::try_clone`].
    pub fn try_clone(&self) -> Result<Marked<D>> {
        let array = match &self.array {
            Typed::Bytes(array) => Typed::Bytes(array.try_clone()?),
            Typed::Words(array) => Typed::Words(array.try_clone()?),
            Typed::Doubles(array) => Typed::Doubles(array.try_clone()?),
            Typed::Triples(array) => Typed::Triples(array.try_clone()?),
        };
        Ok(Marked { mark: self.mark, array })
    }

    /// The same elements in one row.
    ///
    /// # Errors
    /// As for [`Array::reshape`].
    pub fn flatten(self) -> Result<Marked<D>> {
        let array = match self.array {
            Typed::Bytes(array) => Typed::Bytes(flat(array)?),
            Typed::Words(array) => Typed::Words(flat(array)?),
            Typed::Doubles(array) => Typed::Doubles(flat(array)?),
            Typed::Triples(array) => Typed::Triples(flat(array)?),
        };
        Ok(Marked { mark: self.mark, array })
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        each!(&self.array, array => array.shape())
    }
}
