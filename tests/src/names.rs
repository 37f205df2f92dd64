//! Scopes with a name for each request.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use gpucache::device::Device;
use gpucache::{Array, cache_scope};

/// Names that are new in this process.
pub struct Names {
    first: usize,
}

impl Names {
    /// Makes this many names.
    pub fn new(number: usize) -> Names {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        Names { first: NEXT.fetch_add(number, Relaxed) }
    }

    /// The name of this number.
    pub fn name(&self, number: usize) -> String {
        format!("request {}", self.first + number)
    }
}

/// Serves a request in a scope of this name, with two arrays of 64 bytes.
///
/// # Panics
/// If there is no memory for these arrays.
pub fn request<D: Device>(device: &D, name: &str) {
    cache_scope!(name = name, {
        let input = Array::<u8, _>::zeros(device, 64).unwrap();
        drop(input.try_clone().unwrap());
    });
}

/// Serves this many requests, each in a new name.
pub fn requests<D: Device>(device: &D, number: usize) -> Names {
    let names = Names::new(number);
    (0..number).for_each(|number| request(device, &names.name(number)));
    names
}
