//! Programs by the shape of their allocations and drops, and of the arrays that they leave to later entries. Each is made once and
//! then called for each entry. None of them touches the heap itself.

use std::array::from_fn;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier, Mutex};
use std::thread::JoinHandle;

use fastrand::Rng;
use gpucache::device::Device;
use gpucache::{Array, Element, ScopeGuard};

use super::Run;

type Slot<D> = Option<Array<f32, D>>;

fn slots<D: Device, const N: usize>() -> [Slot<D>; N] {
    [const { None }; N]
}

/// Arrays whose sizes depend only on `order`. They are held together and dropped front to back.
fn temporaries<D: Device, const N: usize>(run: &Run<D>, order: usize) {
    let _held: [Array<f32, D>; N] = from_fn(|place| run.array(1 + order * 7 % 5 + place * (order + 3) % 11));
}

pub(super) fn one_array<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |_| {
        let _entry = run.enter();
        drop(run.array(10));
    }
}

pub(super) fn several_arrays<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |_| {
        let _entry = run.enter();
        let first = run.array(10);
        let second = first.try_clone().unwrap();
        drop(first);
        let _third = run.array(5);
        drop(second);
        drop(ScopeGuard::outside());
        drop(run.array(7));
    }
}

/// `state = step(&state)`: the new state is made while the one before is alive.
pub(super) fn state_handed_on<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut state = run.array(10);
    move |_| {
        let next = {
            let _entry = run.enter();
            assert_eq!(state.len(), 10 * run.unit);
            run.array(10)
        };
        state = next;
    }
}

/// As [`state_handed_on`], but the state before is dropped within the entry as well.
pub(super) fn state_replaced<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut state = run.array(10);
    move |_| {
        let _entry = run.enter();
        assert_eq!(state.len(), 10 * run.unit);
        state = run.array(10);
    }
}

pub(super) fn state_beside_temporaries<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut state = run.array(10);
    move |_| {
        let _entry = run.enter();
        let first = run.array(50);
        let copy = state.try_clone().unwrap();
        let next = run.array(10);
        drop((first, copy));
        state = next;
    }
}

pub(super) fn two_buffers_swapped<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let (mut front, mut back) = (run.array(10), Some(run.array(10)));
    move |_| {
        let _entry = run.enter();
        drop(back.take());
        back = Some(std::mem::replace(&mut front, run.array(10)));
    }
}

pub(super) fn nothing_but_escapes<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut left: [Slot<D>; 5] = slots();
    move |number| {
        let _entry = run.enter();
        let made = from_fn(|place| Some(run.array(1 + place * 3)));
        assert!(number == 0 || left.iter().all(Option::is_some));
        left = made;
    }
}

pub(super) fn a_queue_three_deep<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut queue: [Slot<D>; 3] = slots();
    move |number| {
        let _entry = run.enter();
        queue[number % 3] = Some(run.array(4));
    }
}

pub(super) fn a_queue_beside_temporaries<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut queue: [Slot<D>; 3] = slots();
    move |number| {
        let _entry = run.enter();
        let first = run.array(20);
        queue[number % 3] = Some(run.array(4));
        temporaries::<D, 6>(run, 2);
        drop(first);
    }
}

pub(super) fn two_orders_in_turn<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |number| {
        let _entry = run.enter();
        match number % 2 {
            0 => temporaries::<D, 6>(run, 1),
            _ => temporaries::<D, 9>(run, 2),
        }
    }
}

pub(super) fn three_orders_in_turn<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |number| {
        let _entry = run.enter();
        match number % 3 {
            0 => temporaries::<D, 6>(run, 1),
            1 => temporaries::<D, 9>(run, 2),
            _ => temporaries::<D, 2>(run, 9),
        }
    }
}

/// Two orders, for example an evaluation in every fourth entry, which makes no new state.
pub(super) fn two_orders_with_state<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut state = run.array(10);
    move |number| {
        let _entry = run.enter();
        let copy = state.try_clone().unwrap();
        temporaries::<D, 4>(run, 1);
        if number % 4 > 0 {
            state = run.array(10);
        }
        drop(copy);
    }
}

pub(super) fn sizes_that_grow_and_begin_again<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |number| {
        let _entry = run.enter();
        let _first = run.array(50);
        drop(run.array(10 + number % 50));
        let _last = run.array(5 + number % 50);
    }
}

pub(super) fn state_that_grows_and_begins_again<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut state = run.array(10);
    move |number| {
        let _entry = run.enter();
        let first = run.array(50);
        assert!(state.len() >= 10 * run.unit);
        state = run.array(10 + number % 50);
        drop(first);
    }
}

/// Ten arrays, or only the first five of them.
fn perhaps_half<D: Device>(run: &Run<D>, returns: bool) {
    let _first: [Array<f32, D>; 5] = from_fn(|place| run.array(1 + place));
    if !returns {
        let _second: [Array<f32, D>; 5] = from_fn(|place| run.array(9 - place));
    }
}

pub(super) fn every_third_returns_early<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |number| {
        let _entry = run.enter();
        perhaps_half(run, number % 3 == 2);
    }
}

pub(super) fn one_in_three_returns_early<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut rng = Rng::with_seed(3);
    move |_| {
        let _entry = run.enter();
        perhaps_half(run, rng.usize(0..3) == 0);
    }
}

pub(super) fn one_array_of_twenty_sizes<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut rng = Rng::with_seed(1);
    move |_| {
        let _entry = run.enter();
        drop(run.array(rng.usize(1..=20)));
    }
}

pub(super) fn random_sizes_of_twenty<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut rng = Rng::with_seed(1);
    move |_| {
        let _entry = run.enter();
        let mut held: [Slot<D>; 8] = slots();
        (0..30).for_each(|place| held[place % 8] = Some(run.array(rng.usize(1..=20))));
    }
}

/// One array of three outlives its entry, by one or several entries.
pub(super) fn state_kept_at_random<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut rng = Rng::with_seed(2);
    let mut pool: [Slot<D>; 4] = slots();
    move |_| {
        let _entry = run.enter();
        for units in [3, 9, 4, 12, 5, 1] {
            let array = run.array(units);
            if rng.usize(0..3) == 0 {
                pool[rng.usize(0..4)] = Some(array);
            }
        }
    }
}

pub(super) fn ranks_above_those_in_a_record<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |_| {
        let _entry = run.enter();
        let first = Array::<f32, D>::zeros(&run.device, [run.unit, 4, 1, 1, 1, 1, 1]).unwrap();
        let _copy = first.try_clone().unwrap();
        drop(first);
        drop(Array::<u8, D>::zeros(&run.device, [3, 4, run.unit, 1, 1, 1, 1, 2]).unwrap());
    }
}

pub(super) fn reshapes_to_high_ranks<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |_| {
        let _entry = run.enter();
        let low = Array::<f32, D>::zeros(&run.device, [run.unit, 12]).unwrap();
        let high = low.reshape([3, 1, 4, 1, run.unit, 1, 1]).unwrap();
        let _copy = high.try_clone().unwrap().reshape([run.unit, 1, 1, 12, 1, 1, 1, 1]).unwrap();
        drop(high.reshape(12 * run.unit).unwrap());
    }
}

pub(super) fn empty_arrays<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |_| {
        let _entry = run.enter();
        let _none = Array::<f32, D>::zeros(&run.device, 0).unwrap();
        let _without_bytes = Array::<[u8; 0], D>::zeros(&run.device, 5).unwrap();
        drop(run.array(3));
    }
}

pub(super) fn empty_arrays_of_many_shapes<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    |number| {
        let _entry = run.enter();
        let _none = Array::<f32, D>::zeros(&run.device, [number % 200, 0]).unwrap();
        let _beside = run.array(3);
        drop(Array::<u8, D>::zeros(&run.device, [0, 1, number % 7]).unwrap());
    }
}

pub(super) fn nested_scopes<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let mut state = run.array(2);
    move |number| {
        let _entry = run.enter();
        let first = run.array(6);
        for turn in 0..2 + number % 2 {
            let _inner = run.enter_inner();
            let _second = run.array(3 + turn);
            state = run.array(2);
        }
        assert_eq!(state.len(), 2 * run.unit);
        let _last = run.array(4);
        drop(first);
    }
}

pub(super) fn nested_in_itself<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    fn recurse<D: Device>(run: &Run<D>, depth: usize) {
        let _entry = run.enter();
        let _first = run.array(1 + depth);
        if depth > 0 {
            recurse(run, depth - 1);
        }
        drop(run.array(5));
    }
    |_| recurse(run, 3)
}

/// An array that is handed over, a barrier for both threads, and whether the other thread has to end.
type Shared<T> = (Mutex<T>, Barrier, AtomicBool);

/// A thread that drops the arrays that it is handed, and reports when that is done.
pub(super) struct Elsewhere<T: Element, D: Device> {
    shared: Arc<Shared<Option<Array<T, D>>>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Element, D: Device> Elsewhere<T, D> {
    pub(super) fn new() -> Self {
        let shared = Arc::new((Mutex::new(None), Barrier::new(2), AtomicBool::new(false)));
        let other = shared.clone();
        let thread = std::thread::spawn(move || {
            let (slot, barrier, ends) = &*other;
            loop {
                barrier.wait();
                if ends.load(SeqCst) {
                    break;
                }
                drop(slot.lock().unwrap().take());
                barrier.wait();
            }
        });
        Elsewhere { shared, thread: Some(thread) }
    }

    pub(super) fn drop(&self, array: Array<T, D>) {
        let (slot, barrier, _) = &*self.shared;
        *slot.lock().unwrap() = Some(array);
        barrier.wait();
        barrier.wait();
    }
}

impl<T: Element, D: Device> Drop for Elsewhere<T, D> {
    fn drop(&mut self) {
        self.shared.2.store(true, SeqCst);
        self.shared.1.wait();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

pub(super) fn dropped_elsewhere_meanwhile<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let elsewhere = Elsewhere::new();
    move |_| {
        let _entry = run.enter();
        let first = run.array(10);
        let _second = run.array(3);
        elsewhere.drop(first);
        drop(run.array(10));
    }
}

pub(super) fn dropped_elsewhere_afterwards<D: Device>(run: &Run<D>) -> impl FnMut(usize) {
    let elsewhere = Elsewhere::new();
    move |_| {
        let left = {
            let _entry = run.enter();
            let _first = run.array(3);
            run.array(10)
        };
        elsewhere.drop(left);
    }
}
