//! Anybody can implement [`Shape`] in safe code, and an implementation may return something else each time. An array still has
//! exactly as many elements as its shape says, and all of them belong to it alone.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::fmt::Debug;

use fastrand::Rng;
use gpucache::device::{Device, Host, Virtual};
use gpucache::prelude::cache_scope;
use gpucache::{Array, Element, Result, Shape};

/// Returns one answer after the other, and then repeats the last one.
struct Liar {
    answers: Vec<Vec<usize>>,
    asked: Cell<usize>,
}

impl Shape for Liar {
    fn dims(&self) -> &[usize] {
        let place = self.asked.replace(self.asked.get() + 1);
        &self.answers[place.min(self.answers.len() - 1)]
    }
}

/// Dimensions of various ranks; many of them have 4, 24 or no elements.
fn dims(rng: &mut Rng) -> Vec<usize> {
    let known: [&[usize]; 13] = [
        &[4],
        &[2, 2],
        &[1, 4, 1, 1, 1, 1, 1],
        &[24],
        &[2, 3, 4],
        &[1, 1, 2, 3, 4, 1, 1, 1],
        &[],
        &[0],
        &[5, 0, 3],
        &[1 << 14],
        &[1, 1, 1 << 14, 1, 1, 1, 1],
        &[usize::MAX, 0],
        &[usize::MAX, usize::MAX],
    ];
    known[rng.usize(0..known.len())].to_vec()
}

fn liar(rng: &mut Rng) -> Liar {
    let mut answers: Vec<Vec<usize>> = (0..rng.usize(1..=6)).map(|_| dims(rng)).collect();
    // In half of the cases the first answer is true.
    if rng.bool() {
        answers.insert(0, if rng.bool() { vec![4] } else { vec![24] });
    }
    Liar { answers, asked: Cell::new(0) }
}

/// Devices on which a test can see that arrays do not overlap.
trait Own: Device {
    fn check<T: Element + PartialEq + Debug>(array: &Array<T, Self>, contents: Option<T>);
}

impl Own for Host {
    fn check<T: Element + PartialEq + Debug>(array: &Array<T, Host>, contents: Option<T>) {
        assert_eq!(array.iter().count(), array.len());
        if let Some(value) = contents {
            assert!(array.iter().all(|element| *element == value), "{array:?} has elements that nobody wrote");
        }
    }
}

/// The virtual device itself checks that nothing overlaps, and reports it when it is synchronized.
impl Own for Virtual {
    fn check<T: Element + PartialEq + Debug>(array: &Array<T, Virtual>, _: Option<T>) {
        array.device().synchronize().unwrap();
    }
}

/// Properties of every array, however it was made. `contents` is the value of all elements.
fn holds<T: Element + PartialEq + Debug, D: Own>(array: &Array<T, D>, contents: Option<T>) {
    let elements = |array: &Array<T, D>| {
        let product = match array.shape().contains(&0) {
            true => 0,
            false => array.shape().iter().product(),
        };
        assert_eq!(product, array.len(), "{array:?}");
        assert_eq!(array.byte_len(), array.len() * size_of::<T>(), "{array:?}");
        product
    };
    let number = elements(array);
    // Elements are read only after the numbers were checked.
    D::check(array, contents);
    let copy = array.try_clone().unwrap();
    assert_eq!((elements(&copy), copy.shape()), (number, array.shape()), "a copy of {array:?}");
    D::check(&copy, contents);
    assert_eq!(array.to_vec().unwrap().len(), number);
    assert_eq!(
        Array::from_slice(array.device(), array.shape(), &vec![array_element(array); number]).unwrap().len(),
        number
    );
}

fn array_element<T: Element, D: Device>(array: &Array<T, D>) -> T {
    // The array was filled with one value, or with zeros.
    array
        .to_vec()
        .unwrap()
        .first()
        .copied()
        .unwrap_or_else(|| Array::zeros(array.device(), 1).unwrap().to_vec().unwrap()[0])
}

/// Makes an array in each way that takes a shape, with a lying shape.
fn makes_all<T: Element + PartialEq + Debug, D: Own>(device: &D, rng: &mut Rng, value: T) {
    let zero = Array::<T, D>::zeros(device, 1).unwrap().to_vec().unwrap()[0];
    let check = |made: Result<Array<T, D>>, contents| made.iter().for_each(|array| holds(array, Some(contents)));
    check(Array::zeros(device, liar(rng)), zero);
    check(Array::full(device, liar(rng), value), value);
    for number in [4, 24] {
        check(Array::from_slice(device, liar(rng), &vec![value; number]), value);
        let array = Array::full(device, number, value).unwrap();
        check(array.reshape(liar(rng)), value);
        let nothing = Array::full(device, [number, 0], value).unwrap();
        check(nothing.reshape(liar(rng)), value);
    }
}

#[cache_scope(lies)]
fn recycled<D: Own>(device: &D, rng: &mut Rng) {
    // Later arrays get this memory with these stale bytes, and have to overwrite all of their elements.
    drop(Array::full(device, 1 << 15, 0xEEu8).unwrap());
    of_all_elements(device, rng);
}

#[cache_scope(lies, recycle = "keyed")]
fn kept<D: Own>(device: &D, rng: &mut Rng) {
    of_all_elements(device, rng);
}

#[cache_scope(lies, recycle = "range")]
fn shared<D: Own>(device: &D, rng: &mut Rng) {
    of_all_elements(device, rng);
}

fn of_all_elements<D: Own>(device: &D, rng: &mut Rng) {
    match rng.usize(0..4) {
        0 => makes_all(device, rng, 7u8),
        1 => makes_all(device, rng, true),
        2 => makes_all(device, rng, [1.5f32; 3]),
        _ => makes_all(device, rng, 9u64),
    }
}

fn lies_do_no_harm<D: Own>(device: &D) {
    let rng = &mut Rng::with_seed(11);
    for _ in 0..200 {
        of_all_elements(device, rng);
        recycled(device, rng);
        kept(device, rng);
        shared(device, rng);
    }
}

#[test]
fn on_the_host() {
    lies_do_no_harm(&Host::new());
}

#[test]
fn on_a_stream_of_the_host() {
    lies_do_no_harm(&Host::new_stream().unwrap());
}

#[test]
fn on_a_device_that_checks() {
    lies_do_no_harm(&Virtual::new(1 << 30));
}

/// The second answer is another shape with as many elements, which does no harm, or one with more elements, which must never
/// become the array's shape.
#[test]
fn a_reshape_that_changes_its_mind() {
    let host = Host::new();
    for second in [&[1 << 14][..], &[5], &[3], &[0], &[2, 2], &[1, 1, 1, 1, 1, 2, 2], &[usize::MAX; 3]] {
        for truth in 1..6 {
            let mut answers = vec![vec![4]; truth];
            answers.push(second.to_vec());
            let array = Array::full(&host, 4, true).unwrap();
            if let Ok(array) = array.reshape(Liar { answers, asked: Cell::new(0) }) {
                holds(&array, Some(true));
                assert_eq!(array.len(), 4);
            }
        }
    }
}
