//! One entry around a whole run: the loops of recorded programs are planned like entries of a scope around the step.

use std::num::NonZeroUsize;
use std::path::Path;

use gpucache::device::{Device, Virtual};
use gpucache::stats::ScopeStats;
use gpucache::{Allocate, Array, Recycle, Scope};
use gpucache_report::replay::{Figures, History, Policy, dry_run};

/// The figures of twelve passes of a trace.
fn replayed(trace: &str, is_one_entry: bool) -> Figures {
    let path = Path::new("../examples/traces").join(trace).with_extension("csv.gz");
    let history = History::read(&path).unwrap();
    let history = if is_one_entry { history.in_one_entry() } else { history };
    dry_run(&history, Policy::Auto, None, NonZeroUsize::new(12).unwrap()).unwrap()
}

#[test]
fn steps_that_repeat_are_planned_without_a_scope_of_their_own() {
    // The most that the whole run may reserve, as a multiple of a run with a scope around the step.
    let traces = [
        ("gpt2", 1.0),
        ("mixtral", 1.0),
        ("resnet50", 1.01),
        ("vit_b_16", 1.0),
        ("gcn_sampled", 1.01),
        ("gpt2_varlen", 1.01),
        ("splat", 1.0),
    ];
    for (trace, most) in traces {
        let (one, step) = (replayed(trace, true), replayed(trace, false));
        assert!(one.steady.planned >= 0.97, "{trace}: {one:?}");
        assert_eq!((one.out_of_memory, one.steady_device_calls), (0, 0), "{trace}: {one:?}");
        let ratio = one.peak_reserved_bytes as f64 / step.peak_reserved_bytes as f64;
        assert!(ratio <= most, "{trace}: the run reserved {ratio} of one with a scope around the step");
        let live = one.peak_live_bytes as f64;
        assert!(one.steady_reserved_bytes as f64 <= 1.025 * live, "{trace}: {one:?}");
    }
}

/// The share of the last of `entries` entries that plans serve. Each entry makes and drops this many arrays.
fn planned_share(scope: &Scope<'_>, device: &Virtual, entries: usize, arrays: usize) -> f64 {
    let mut before = ScopeStats::default();
    for _ in 0..entries {
        before = scope.stats().unwrap_or_default();
        scope.run(|| (0..arrays).for_each(|number| drop(device.zeros::<u8>(4096 * (1 + number)).unwrap())));
    }
    let since = scope.stats().unwrap().since(&before);
    since.served.planned_share()
}

#[test]
fn entries_that_become_longer_than_their_plan_get_a_longer_one() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("longer"));
    assert_eq!(planned_share(&scope, &device, 60, 100), 1.0);
    assert_eq!(planned_share(&scope, &device, 120, 350), 1.0);
    assert_eq!(scope.stats().unwrap().plan.loops, 0);
}

#[test]
fn entries_are_planned_after_one_with_a_loop() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("after a loop"));
    // An evaluation of 20 equal batches, before the training.
    scope.run(|| {
        for _ in 0..20 {
            let mut last = None;
            (0..60).for_each(|number| last = Some(device.zeros::<u8>(65536 * (1 + number * 7 % 60)).unwrap()));
            drop(last);
        }
    });
    assert_eq!(planned_share(&scope, &device, 40, 200), 1.0);
}

/// An iteration that begins with a large array, such as a batch. Then come 600 arrays of random lives, and at the end `more` of other sizes.
/// It has no shorter loop inside.
fn iteration(device: &Virtual, more: usize) {
    let (zeros, mut random) = (|bytes: usize| device.zeros::<u8>(bytes).unwrap(), fastrand::Rng::with_seed(1));
    let large = zeros(64 << 20);
    let mut alive: [Option<Array<u8, Virtual>>; 16] = [const { None }; 16];
    (0..600).for_each(|_| alive[random.usize(..16)] = Some(zeros(4096 * random.usize(1..600))));
    drop((large, alive));
    (0..more).for_each(|number| drop(zeros(4096 * (700 + number))));
}

/// Before, an iteration behind other arrays was known only after nine of its own.
#[test]
fn a_loop_goes_on_at_once_behind_other_arrays() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("goes on"));
    // There is memory beside the plan, so its arena stays.
    let beside = Scope::new("beside the one that goes on").recycle(Recycle::Range);
    (0..3).for_each(|_| beside.run(|| drop(device.zeros::<u8>(1 << 30).unwrap())));
    scope.run(|| {
        (0..20).for_each(|_| iteration(&device, 0));
        let _kept: Vec<_> = (0..50).map(|number| device.zeros::<u8>(4096 * (700 + number)).unwrap()).collect();
        let before = scope.stats().unwrap();
        (0..2).for_each(|_| iteration(&device, 0));
        assert_eq!(scope.stats().unwrap().since(&before).served.planned.allocations, 2 * 601);
    });
}

#[test]
fn a_loop_that_becomes_longer_is_planned_as_a_whole() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("becomes longer"));
    scope.run(|| {
        (0..20).for_each(|_| iteration(&device, 0));
        (0..40).for_each(|_| iteration(&device, 300));
        let before = scope.stats().unwrap();
        (0..20).for_each(|_| iteration(&device, 300));
        let since = scope.stats().unwrap().since(&before);
        let share = since.served.planned_share();
        assert!(share > 0.9, "{share}");
    });
}

/// A step that learns from four batches, and then changes the weights. The first batch makes the gradients.
fn accumulate(device: &Virtual) {
    let zeros = |bytes: usize| device.zeros::<u8>(bytes).unwrap();
    let mut gradients = Vec::new();
    for _ in 0..4 {
        let mut saved = Vec::new();
        for layer in 0..120 {
            saved.push(zeros(65_536 * (1 + layer % 5)));
            drop(zeros(131_072));
        }
        while let Some(activation) = saved.pop() {
            let _gradient = zeros(196_608);
            if gradients.len() < 40 {
                gradients.push(zeros(300_000));
            }
            drop(activation);
        }
    }
    for gradient in gradients {
        let (_moment, _square) = (zeros(1_000_000), zeros(1_000_000));
        drop(gradient);
    }
}

/// The batches are a loop inside the loop of steps, and are found first.
#[test]
fn the_loop_around_a_loop_is_found() {
    let (device, scope) = (Virtual::new(1 << 40), Scope::new("accumulates"));
    scope.run(|| {
        (0..30).for_each(|_| accumulate(&device));
        let (before, calls) = (scope.stats().unwrap(), device.memory().times_taken());
        (0..20).for_each(|_| accumulate(&device));
        let since = scope.stats().unwrap().since(&before);
        assert_eq!(since.served.planned.allocations, since.allocations(), "{since}");
        assert_eq!(device.memory().times_taken(), calls);
    });
}

/// The share of all allocations that plans serve, if an entry makes 300 batches on each of these devices, one device after the other.
fn share_of_batches(name: &str, devices: &[Virtual]) -> f64 {
    let scope = Scope::new(name);
    scope.run(|| for _ in devices.iter().flat_map(|device| std::iter::repeat_n(device, 300)).map(batch) {});
    let stats = scope.stats().unwrap();
    stats.served.planned_share()
}

/// Twenty arrays, of which two are alive at a time.
fn batch(device: &Virtual) {
    let mut last = None;
    (0..20).for_each(|number| last = Some(device.zeros::<u8>(65536 * (1 + number * 7 % 20)).unwrap()));
    drop(last);
}

#[test]
fn a_loop_on_another_device_is_planned_too() {
    let devices = [(); 3].map(|()| Virtual::new(1 << 30));
    // A loop has to last for 512 allocations before it has a plan. Another one is left after an eighth of what plans have served.
    let [one, share] = [1, 3].map(|count| share_of_batches(&format!("on {count} devices"), &devices[..count]));
    assert!(share > 0.85 * one, "{share} instead of {one}");
}

#[test]
fn a_loop_is_planned_after_arrays_of_another_device() {
    let ([device, other], scope) = ([(); 2].map(|()| Virtual::new(1 << 30)), Scope::new("behind other arrays"));
    scope.run(|| {
        let data: Vec<_> = (1..400).map(|number| other.zeros::<u8>(1000 * number).unwrap()).collect();
        (0..300).for_each(|_| batch(&device));
        drop(data);
    });
    let planned = scope.stats().unwrap().served.planned.allocations;
    assert!(planned > 4_500, "{planned} of 6,000");
}
