//! The properties that every device must have, written once: one function for each property, generic over the device.
//!
//! A property uses only what a program can use. It gets names that no other property has, and is checked after its end as well:
//! once its scopes are invalidated, the device has exactly the memory that it had before. [`conformance!`](crate::conformance!)
//! makes a test of each property for one device.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use gpucache::device::Device;
use gpucache::{Array, Element, Result, invalidate, stats, stats::ScopeStats};

use crate::supplied;

pub mod constructors;
pub mod contents;
pub mod escapes;
pub mod futures;
pub mod invalidation;
pub mod keys;
pub mod numbers;
pub mod scopes;
pub mod shapes;
pub mod threads;

/// The tests of one device: `conformance!(host, host_device)` beside a `fn host_device() -> Option<D>`, which returns `None` if
/// there is no such device.
#[macro_export]
macro_rules! conformance {
    ($module:ident, $device:ident) => {
        $crate::conformance_tests! { $module, $device;
            scopes: the_innermost_name_serves, the_outer_scope_serves_again, one_name_nests_in_itself,
                recursion_reuses_what_was_dropped, uncached_is_plain, outside_all_scopes_is_plain,
                attributes_are_scopes, every_way_out_leaves, guards_go_in_any_order, off_keeps_nothing,
                off_and_keyed_share_a_name, names_are_equal_by_text;
            keys: a_drop_serves_the_next_allocation, a_miss_allocates, the_dtype_must_be_equal, the_shape_must_be_equal,
                the_device_must_be_equal, a_clone_of_a_device_is_the_same, as_many_blocks_as_were_alive,
                the_block_dropped_last_is_not_needed, order_of_requests_does_not_matter,
                arrays_without_elements_are_kept_too;
            escapes: by_return, by_question_mark, by_panic, by_break, through_invalidation, through_reentry,
                through_recursion, from_a_scope_that_is_entered_in_a_loop, into_a_static, many_at_once,
                a_dropped_escape_serves_again;
            constructors: zeros_on_recycled_memory, full_of_every_size, full_on_recycled_memory, from_slice_round_trip,
                users_element, numbers_of_other_crates, bools, uninit_that_is_written, elements_without_bytes;
            contents: copy_from_slice_overwrites, clones_are_separate, reshape_keeps_the_elements,
                reshape_does_not_outlive_the_array, wrong_lengths_are_errors, errors_leave_nothing_behind,
                arrays_are_send_and_sync;
            shapes: shapes_of_every_rank, all_kinds_of_shapes, no_elements, no_elements_of_any_type,
                overflow_is_an_error,
                high_ranks_are_recycled;
            invalidation: it_tells_idle_and_busy, idle_memory_goes_now, busy_memory_goes_when_dropped,
                the_scope_goes_on, inside_the_scope, from_another_thread_while_inside, while_inside_and_idle,
                by_two_threads_at_once,
                an_unknown_name_has_nothing, twice, recursion_after_invalidation, a_nested_scope_is_untouched;
            numbers: a_scripted_sequence, the_high_water_mark, the_mark_does_not_count_what_came_back, arrays_without_bytes_are_no_misses,
                off_asks_the_device_each_time, plain_arrays_are_not_counted, the_device_is_asked_once_per_miss;
            threads: each_thread_has_its_own_blocks, a_drop_elsewhere_comes_home, a_drop_elsewhere_while_inside, a_drop_elsewhere_at_the_exit,
                the_end_of_a_thread_leaves_idle_memory, arrays_outlive_their_thread, a_thread_local_made_first,
                a_thread_local_made_later, a_scope_left_open_at_the_end, scopes_in_a_thread_locals_end,
                invalidation_reaches_all_threads, a_later_thread_goes_on, arrays_travel_in_circles;
            futures: two_that_take_turns, one_that_changes_threads, one_that_is_dropped, a_scope_within_a_future;
        }
    };
}

/// The parts of [`conformance!`](crate::conformance!).
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_tests {
    ($module:ident, $device:ident; $($topic:ident: $($property:ident),*;)*) => {
        mod $module {
            static TURN: $crate::conformance::Turn = $crate::conformance::Turn::new(stringify!($module));
            $(mod $topic {
                $(#[test]
                fn $property() {
                    let name = concat!(stringify!($topic), "::", stringify!($property));
                    super::TURN.check(super::super::$device(), name, $crate::conformance::$topic::$property);
                })*
            })*
        }
    };
}

/// The memory that a device has reserved, to the byte. Equal to anything on devices whose memory comes in pages or chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// See [`gpucache::device::MemoryUse`].
    pub bytes: Exactly,
    /// See [`gpucache::device::MemoryUse`].
    pub allocations: Exactly,
}

/// A number that is known, or that must not be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exactly(Option<u64>);

impl std::ops::Add<u64> for Exactly {
    type Output = Exactly;

    fn add(self, more: u64) -> Exactly {
        Exactly(self.0.map(|number| number + more))
    }
}

/// The memory that the device has reserved now.
pub fn memory<D: Device>(device: &D) -> Held {
    let now = device.memory();
    let known = |number| Exactly(crate::faulty::is_faulty(device).then_some(number));
    Held { bytes: known(now.bytes), allocations: known(now.allocations) }
}

/// A property, as a plain function.
pub type Property<D> = fn(&D, &Context) -> Result<()>;

/// Makes the tests of one device run one after the other, so that they can compare the device's numbers.
pub struct Turn {
    device: &'static str,
    running: Mutex<()>,
}

impl Turn {
    /// For the device that messages call `device`.
    pub const fn new(device: &'static str) -> Turn {
        Turn { device, running: Mutex::new(()) }
    }

    /// Checks a property, and that nothing is left of it.
    ///
    /// # Panics
    /// If the property does not hold.
    pub fn check<D: Device>(&self, device: Option<D>, name: &str, property: Property<D>) {
        let _turn = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(device) = device else {
            eprintln!("SKIPPED: there is no {} device here", self.device);
            return;
        };
        let context = Context { prefix: format!("{}::{name}", self.device), ..Context::default() };
        let before = device.memory().bytes;
        if let Err(error) = property(&device, &context) {
            panic!("{}::{name}: {error}", self.device);
        }
        // Memory under late work stays until that work is done.
        device.synchronize().expect("no failure was kept");
        context.invalidate_all();
        let after = device.memory().bytes;
        let kept = context.kept.load(Relaxed);
        // Pages have more bytes than the blocks in them.
        let exactly = kept == 0 || crate::faulty::is_faulty(&device);
        assert!(
            after == before + kept || !exactly && after >= before,
            "{before} bytes held before, {after} afterwards"
        );
        device.synchronize().expect("no failure was kept");
    }
}

/// The values that a property gets besides the device.
#[derive(Default)]
pub struct Context {
    prefix: String,
    names: Mutex<BTreeSet<String>>,
    kept: AtomicU64,
}

impl Context {
    /// A scope name that only this property has.
    pub fn name(&self, name: &str) -> String {
        let name = format!("{}::{name}", self.prefix);
        self.names.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        name
    }

    /// Notes that as many bytes stay allocated for good.
    pub fn keeps(&self, bytes: usize) {
        self.kept.fetch_add(bytes as u64, Relaxed);
    }

    fn invalidate_all(&self) {
        for name in &*self.names.lock().unwrap_or_else(PoisonError::into_inner) {
            let _ = invalidate(name);
        }
    }
}

/// The statistics of a scope, all zero if it was never entered.
pub fn stats_of(name: &str) -> ScopeStats {
    stats(name).unwrap_or_default()
}

/// The hits of a scope, and its other allocations.
pub fn hits_and_supplies(name: &str) -> (u64, u64) {
    let stats = stats_of(name);
    (stats.hits, supplied(&stats))
}

/// The blocks of a scope that are in use, and those that are idle.
pub fn busy_and_idle(name: &str) -> (u64, u64) {
    let stats = stats_of(name);
    (stats.busy_blocks, stats.idle_blocks)
}

/// Elements that depend on a `seed` and their places.
pub fn pattern(seed: u32, len: usize) -> Vec<u32> {
    (0..len as u32).map(|place| seed.wrapping_mul(0x9E37_79B9) ^ place.wrapping_mul(0x85EB_CA6B)).collect()
}

/// An array of the [`pattern`] of `seed`.
///
/// # Errors
/// As for [`Array::from_slice`].
pub fn patterned<D: Device>(device: &D, len: usize, seed: u32) -> Result<Array<u32, D>> {
    Array::from_slice(device, len, &pattern(seed, len))
}

/// # Panics
/// If the array does not contain the [`pattern`] of `seed`.
pub fn assert_pattern<D: Device>(array: &Array<u32, D>, seed: u32) {
    assert_eq!(array.to_vec().expect("readable"), pattern(seed, array.len()), "contents of array {seed}");
}

/// Allocates and drops an array of `len` zeros.
///
/// # Errors
/// As for [`Array::zeros`].
pub fn touch<T: Element, D: Device>(device: &D, len: usize) -> Result<()> {
    Array::<T, D>::zeros(device, len).map(drop)
}
