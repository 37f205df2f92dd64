//! Arrays may leave their scope: as a value, through a reference, and inside a by-value parameter.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(step, recycle = "keyed")]
fn step(host: &Host, fill: f32, kept: &mut Vec<Array<f32, Host>>) -> Array<f32, Host> {
    kept.push(Array::full(host, 4, fill).unwrap());
    Array::full(host, 4, -fill).unwrap()
}

#[cache_scope(swap, recycle = "keyed")]
fn swap(host: &Host, mut array: Array<f32, Host>) {
    array = Array::full(host, array.len(), 0.0).unwrap();
    assert_eq!(&array[..], [0.0; 4]);
}

pub(crate) fn main() {
    let host = Host::new();
    let mut kept = Vec::new();
    let returned: Vec<_> = (0..3).map(|index| step(&host, index as f32, &mut kept)).collect();
    for (index, (kept, returned)) in kept.iter().zip(&returned).enumerate() {
        assert_eq!((&kept[..], &returned[..]), (&[index as f32; 4][..], &[-(index as f32); 4][..]));
    }
    assert_eq!(gpucache::stats("step").unwrap().hits, 0, "an array that was alive was handed out again");
    for array in returned {
        swap(&host, array);
    }
    let swap = gpucache::stats("swap").unwrap();
    assert_eq!((swap.entries, swap.hits, swap.allocations()), (3, 2, 3));
}
