//! The scope `auto` serves allocations outside of all scopes, on every thread, and plans the loops of the program. The scope is of the
//! whole process, so this file has one test.
#![allow(clippy::unwrap_used)]

use gpucache::device::{Device, Virtual};
use gpucache::offload::Placed;
use gpucache::{ScopeGuard, cache_scope, prelude::*, stats, uncached};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A training step of 64 layers, whose activations wait for the way back.
fn step(device: &Virtual, scale: usize) -> gpucache::Result<()> {
    let forward = |layer: usize| device.zeros::<u8>((1 + layer % 7) * scale);
    let mut activations = (0..64).map(forward).collect::<gpucache::Result<Vec<_>>>()?;
    while let Some(activation) = activations.pop() {
        let gradient = device.zeros::<u8>(activation.len() * 2)?;
        drop((activation, gradient));
    }
    Ok(())
}

fn allocations() -> u64 {
    stats("auto").map_or(0, |stats| stats.allocations())
}

/// The share of a plan in these steps.
fn planned(device: &Virtual, steps: usize, scale: usize) -> gpucache::Result<f64> {
    let before = stats("auto").unwrap_or_default();
    (0..steps).try_for_each(|_| step(device, scale))?;
    let since = stats("auto").unwrap().since(&before);
    Ok(since.served.planned_share())
}

/// The scope `auto` never ends, so a scope inside it has the schedule of fetches.
fn fetches_are_scheduled() -> Result {
    const PAGE: usize = 2 << 20;
    let device = Virtual::new(1 << 40);
    device.set_limit((8 * PAGE) as u64).unwrap();
    let arrays = (0..12).map(|_| Placed::<u8, _>::zeros(&device, PAGE)).collect::<gpucache::Result<Vec<_>>>()?;
    let fetch_all = || arrays.iter().try_for_each(|array| array.fetch().map(drop));
    (0..20).try_for_each(|_| cache_scope!(fetching, { fetch_all() }))?;
    let before = stats("fetching").unwrap();
    (0..50).try_for_each(|_| cache_scope!(fetching, { fetch_all() }))?;
    let since = stats("fetching").unwrap().offload.since(&before.offload);
    assert!(since.prefetched > 0 && since.demanded == 0, "{since}");
    let diagnosis = gpucache::diagnose("fetching").unwrap();
    assert!(diagnosis.findings.is_empty(), "a scope that only fetches is of use: {diagnosis}");
    Ok(())
}

/// A subscriber that counts the spans, and allocates when it hears of the first one.
#[cfg(feature = "tracing")]
struct Spans(Virtual, std::sync::Arc<std::sync::atomic::AtomicUsize>);

#[cfg(feature = "tracing")]
impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::Id {
        if self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0 {
            drop(self.0.zeros::<u8>(64).unwrap());
        }
        tracing::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {}

    fn enter(&self, _: &tracing::Id) {}

    fn exit(&self, _: &tracing::Id) {}
}

/// The entry of `auto` ends with the thread. A span that shows it would hold all spans of the program.
#[cfg(feature = "tracing")]
fn no_span_shows_the_scope() {
    let (device, seen) = (Virtual::new(1 << 30), std::sync::Arc::default());
    let spans = Spans(device.clone(), std::sync::Arc::clone(&seen));
    let allocate = move || tracing::subscriber::with_default(spans, || device.zeros::<u8>(64).map(drop));
    std::thread::spawn(allocate).join().unwrap().unwrap();
    assert_eq!(seen.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[test]
fn a_program_without_scopes_is_planned() -> Result {
    let device = Virtual::new(1 << 40);
    step(&device, 1 << 20)?;
    assert_eq!(allocations(), 0, "nobody asked for the scope yet");

    gpucache::auto_scope();
    gpucache::auto_scope();
    let weights = (0..20).map(|_| device.zeros::<u8>(3 << 20)).collect::<gpucache::Result<Vec<_>>>()?;
    assert_eq!(allocations(), 20);
    planned(&device, 6, 1 << 20)?;
    // The last iteration is counted when the next one begins.
    let share = planned(&device, 40, 1 << 20)?;
    assert!(share > 0.97, "{share} of the steps is planned");
    planned(&device, 60, 3 << 20)?;
    let other = planned(&device, 40, 3 << 20)?;
    assert!(other > 0.97, "{other} of the steps with other sizes is planned");
    let plan = stats("auto").unwrap().plan;
    assert!((1..=3).contains(&plan.loops) && plan.iterations > 100, "{plan:?}");

    let before = allocations();
    fetches_are_scheduled()?;
    assert_eq!(allocations(), before, "placed arrays are no allocations of the scope");
    uncached!({ step(&device, 1 << 20)? });
    drop((ScopeGuard::outside(), device.zeros::<u8>(5)?));
    cache_scope!(own, { step(&device, 1 << 20)? });
    assert_eq!((allocations(), stats("own").unwrap().allocations()), (before, 128));

    // Memory goes back in the middle of the entry, and the loop is found again.
    gpucache::invalidate("auto");
    planned(&device, 8, 1 << 20)?;
    let again = planned(&device, 40, 1 << 20)?;
    assert!(again > 0.97, "{again} of the steps after an invalidation is planned");

    let thread = std::thread::spawn(move || -> gpucache::Result<f64> {
        planned(&device, 6, 1 << 20)?;
        planned(&device, 40, 1 << 20)
    });
    assert!(thread.join().unwrap()? > 0.97, "each thread has its own loops");
    drop(weights);
    gpucache::invalidate("auto");
    assert_eq!(stats("auto").unwrap().busy_bytes, 0);
    #[cfg(feature = "tracing")]
    no_span_shows_the_scope();
    Ok(())
}
