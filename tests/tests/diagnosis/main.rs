//! Programs with one known problem each, whose diagnosis names that cause and no other; and healthy programs, whose diagnosis finds none.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{cache_scope, diagnose, diagnosis::Cause, prelude::*};

mod escapes;
mod healthy;
mod leaks;
mod programs;
mod sick;

type Result = gpucache::Result<()>;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn device() -> Virtual {
    Virtual::new(1 << 40)
}

/// The causes that a diagnosis names; prints it.
fn causes(name: &str) -> Vec<Cause> {
    let diagnosis = diagnose(name).unwrap();
    println!("{diagnosis}\n{}\n{}", gpucache::stats(name).unwrap(), gpucache::stats(name).unwrap().plan);
    diagnosis.findings.iter().map(|finding| finding.cause).collect()
}

#[track_caller]
fn is_healthy(name: &str) {
    assert_eq!(causes(name), [], "{name}");
    assert!(!diagnose(name).unwrap().is_early, "{name}");
}

/// The forward and backward pass of some layers: activations that live until the backward pass, and temporaries.
fn train_step<D: Device>(device: &D, layers: usize, batch: usize) -> Result {
    let mut activations = Vec::new();
    for layer in 0..layers {
        let scratch = device.zeros::<f32>([batch, 256 + layer])?;
        activations.push(device.zeros::<f32>([batch, 128 * (1 + layer % 3)])?);
        drop(scratch);
    }
    for activation in activations.into_iter().rev() {
        let gradient = device.zeros::<f32>(activation.shape())?;
        drop((activation, gradient));
    }
    Ok(())
}

#[test]
fn a_finding_tells_what_it_costs_where_it_is_and_what_to_do() -> Result {
    let (device, mut rng) = (device(), Rng::with_seed(12));
    let (mut scope_line, mut line) = (0, 0);
    for _ in 0..64 {
        scope_line = line!() + 1;
        cache_scope!(told, {
            train_step(&device, 4, 32)?;
            let mut sizes: Vec<usize> = (1..40).collect();
            if rng.usize(..3) == 0 {
                rng.shuffle(&mut sizes);
            }
            for size in sizes {
                line = line!() + 1;
                drop(device.zeros::<f32>([size, 10, 256])?);
            }
        });
    }
    let diagnosis = diagnose("told").unwrap();
    assert_eq!(diagnosis.scope_site.map(|site| site.line()), Some(scope_line));
    let [finding] = &diagnosis.findings[..] else { panic!("{diagnosis}") };
    assert!(finding.entries > finding.of_entries / 4 && finding.entries <= finding.of_entries, "{finding:?}");
    assert!(finding.allocations > 0 && finding.share > 0.0 && finding.share < 1.0, "{finding:?}");
    assert!(finding.sites.iter().any(|site| site.file() == file!() && site.line() == line), "{finding:?}, not {line}");
    let shown = diagnosis.to_string();
    assert!(shown.contains(", 10, 256], ") && shown.contains("where the plan expected "), "{shown}");
    assert!(shown.contains("remedy: ") && shown.contains("the order of allocations changes"), "{shown}");
    Ok(())
}

#[test]
fn few_entries_are_too_early() -> Result {
    let device = device();
    for entry in 0..3 {
        cache_scope!(early, { train_step(&device, 4 + entry, 32)? });
    }
    let diagnosis = diagnose("early").unwrap();
    assert!(diagnosis.is_early && diagnosis.is_healthy());
    assert_eq!(diagnosis.to_string(), "scope `early`, 3 entries: too early to tell, the scope is still learning");
    assert!(diagnose("a name that nobody entered").is_none());
    Ok(())
}
