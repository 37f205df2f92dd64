//! A program that allocates more for its first values, outside the scope of its steps, than it needs later.

use gpucache::device::{Device, Virtual};
use gpucache::{Array, Scope};

const MIB: usize = 1 << 20;

fn arrays<D: Device>(device: &D, number: usize, bytes: usize) -> Vec<Array<u8, D>> {
    (0..number).map(|at| Array::zeros(device, bytes + at * 1024).unwrap()).collect()
}

/// A training that holds parameters of 256 MiB. It needs 256 MiB more to compute them, and 256 MiB more for its first step.
fn reserved_over_live(outer: Option<&str>, inner: &str) -> f64 {
    let device = Virtual::new(1 << 40);
    let outer = outer.map(|name| Scope::new(name).enter());
    let parameters = arrays(&device, 64, 4 * MIB);
    drop(arrays(&device, 64, 4 * MIB));
    let mut peak = 0;
    for step in 0..60 {
        let _step = Scope::new(inner).enter();
        let _only_at_first = (step == 0).then(|| arrays(&device, 64, 4 * MIB));
        let activations = arrays(&device, 64, 4 * MIB);
        let alive = parameters.iter().chain(&activations);
        peak = alive.map(|array| array.len()).sum();
    }
    drop(outer);
    device.memory().bytes as f64 / peak as f64
}

#[test]
fn a_program_outside_scopes_keeps_no_memory_of_its_first_values() {
    let share = reserved_over_live(None, "steps alone");
    assert!(share <= 1.02, "{share}");
}

/// Reserved 1.51 times the live memory while the outer scope counted all that it ever had in use.
#[test]
fn a_scope_around_the_steps_keeps_no_memory_of_its_first_values() {
    let share = reserved_over_live(Some("program"), "steps inside");
    assert!(share <= 1.02, "{share}");
}
