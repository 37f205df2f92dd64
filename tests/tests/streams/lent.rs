//! Slices that work of a stream of the host was lent, and other ways to the same memory.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;

use gpucache::prelude::*;
use gpucache_tests::turn;

/// Work that owns an array that it was lent gets no other slice of it, unless both are only read.
#[test]
fn work_gets_no_second_slice_of_an_array() {
    let _turn = turn();
    let stream = Host::new_stream().unwrap();
    /// Whether a read, a write and a copy are refused.
    fn refused(array: &mut Array<u32, Host>) -> [bool; 3] {
        let mut is_panic = |act: fn(&mut Array<u32, Host>)| catch_unwind(AssertUnwindSafe(|| act(array))).is_err();
        let [read, write] = [is_panic(|array| _ = array[0]), is_panic(|array| array[0] = 1)];
        [read, write, array.to_vec().is_err_and(|error| error.is_unavailable())]
    }
    let ((give, given), (tell, told)) = (channel::<Array<u32, Host>>(), channel());
    let mut array = Array::full(&stream, 4, 5u32).unwrap();
    let again = tell.clone();
    let work = move |lent: &mut [u32]| {
        let mut same = given.recv().unwrap();
        let refused = refused(&mut same);
        lent[1] += 2;
        again.send((refused, same)).unwrap();
    };
    stream.launch(&mut array, work).unwrap();
    give.send(array).unwrap();
    let (is_refused, array) = told.recv().unwrap();
    assert_eq!((is_refused, array.to_vec().unwrap()), ([true; 3], vec![5, 7, 5, 5]));

    let (give, given) = channel::<Array<u32, Host>>();
    let work = move |lent: &[u32]| {
        let mut same = given.recv().unwrap();
        let refused = refused(&mut same);
        assert_eq!(lent, [5, 7, 5, 5]);
        tell.send((refused, same)).unwrap();
    };
    stream.launch(&array, work).unwrap();
    give.send(array).unwrap();
    let (is_refused, mut array) = told.recv().unwrap();
    assert_eq!(is_refused, [false, true, false]);
    assert_eq!(refused(&mut array), [false; 3], "the work is done");
}
