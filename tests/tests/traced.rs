//! A trace records the events of a program and changes nothing. It has each allocation with the part that served it, and each free
//! with its allocation, on each thread. Plans serve while it is on as they do otherwise. A device that checks every rule has no
//! fast path to a plan, so tests of plans use a device that does not.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use gpucache::device::Virtual;
use gpucache::graph::CapturedScope;
use gpucache::trace::{self, Action, ServedBy, Trace, TraceEvent};
use gpucache::{Recycle, Scope, ScopeGuard, prelude::*};
use gpucache_report::{Run, replay::History};

/// Takes the turn, since there is one trace at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn served(trace: &Trace, scope: &str) -> HashMap<ServedBy, u64> {
    let mut counts = HashMap::new();
    for event in trace.events.iter().filter(|event| event.scope.as_deref() == Some(scope)) {
        event.served_by.iter().for_each(|served_by| *counts.entry(*served_by).or_default() += 1);
    }
    counts
}

/// Checks that each id is allocated once, and freed at most once, with the same bytes and address, and that no place is in use
/// twice.
fn assert_paired(trace: &Trace) {
    let mut alive = HashMap::new();
    for event in &trace.events {
        match event.action {
            Action::Allocated => assert!(alive.insert(event.id, (event.address, event.bytes)).is_none()),
            Action::Freed => assert_eq!(alive.remove(&event.id), Some((event.address, event.bytes))),
            _ => assert_eq!(event.id, 0),
        }
    }
    assert!(trace.events.is_sorted_by_key(|event| event.time));
}

fn step(device: &Virtual, name: &str, sizes: &[usize]) -> gpucache::Result<()> {
    let _inside = Scope::new(name).enter();
    let arrays = sizes.iter().map(|bytes| device.zeros::<u8>(*bytes)).collect::<gpucache::Result<Vec<_>>>()?;
    drop(device.zeros::<f32>([sizes[0], 2, 3, 4])?);
    drop(arrays);
    Ok(())
}

#[test]
fn what_served_is_what_the_scope_counts() {
    let _alone = alone();
    let device = Virtual::unchecked(1 << 30);
    trace::start(100_000);
    (0..20).for_each(|_| step(&device, "traced counts", &[5000, 70_000, 5000]).unwrap());
    let trace = trace::stop();
    let (counts, stats) = (served(&trace, "traced counts"), gpucache::stats("traced counts").unwrap());
    let count = |served_by| counts.get(&served_by).copied().unwrap_or(0);
    assert_eq!(count(ServedBy::Plan), stats.served.planned.allocations);
    assert_eq!(count(ServedBy::List), stats.served.listed.allocations);
    assert_eq!(count(ServedBy::Range), stats.recycled + stats.misses);
    assert!(stats.served.planned.allocations >= 60, "{stats:?}");
    let entries = trace.events.iter().filter(|event| event.action == Action::Entered).count();
    assert_eq!((entries, trace.lost), (20, 0));
    let shaped = trace.events.iter().find(|event| event.dtype == "f32").unwrap();
    assert_eq!((&*shaped.shape, shaped.bytes), (&[5000, 2, 3, 4][..], 5000 * 24 * 4));
    assert!(shaped.scope_site.unwrap().file().ends_with("traced.rs"));
    assert_paired(&trace);
}

/// The line of an array is that of its constructor's call: by a plan, by the range, of no scope, and where no memory is found.
#[test]
fn arrays_have_the_lines_of_their_constructors() {
    let _alone = alone();
    let device = Virtual::unchecked(1 << 30);
    let mut lines = Vec::new();
    trace::start(100_000);
    for _ in 0..10 {
        let _inside = Scope::new("traced lines").enter();
        let first = Array::<f32, _>::zeros(&device, [100, 3]).unwrap();
        let copy = first.try_clone().unwrap();
        let mut all = vec![device.zeros::<u8>(5000), Array::full(&device, 70, 1u8)];
        all.push(Array::from_slice(&device, 3, &[1, 2, 3]));
        // SAFETY: nothing reads the arrays.
        #[allow(unsafe_code)]
        let bare = unsafe { [device.uninit::<u8>(600), Array::uninit(&device, 700)] };
        let last = line!();
        lines = vec![last - 7, last - 6, last - 5, last - 5, last - 4, last - 1, last - 1];
        drop((first, copy, all, bare));
    }
    drop(device.zeros::<u16>(900).unwrap());
    assert!(device.zeros::<u8>(2 << 30).is_err());
    lines.extend([line!() - 2, line!() - 1]);
    let trace = trace::stop();
    let is_here = |event: &&TraceEvent| matches!(event.action, Action::Allocated | Action::Short);
    let told: Vec<&TraceEvent> = trace.events.iter().filter(is_here).collect();
    let found: Vec<u32> = told.iter().rev().take(9).rev().map(|event| event.site.unwrap().line()).collect();
    assert_eq!(found, lines);
    assert!(told.iter().all(|event| event.site.unwrap().file().ends_with("traced.rs")));
    assert!(told.iter().filter(|event| event.served_by == Some(ServedBy::Plan)).count() > 30);
    let freed = trace.events.iter().find(|event| event.action == Action::Freed).unwrap();
    assert_eq!((freed.site, &freed.stack), (None, &None));
    assert_eq!(trace.devices.iter().map(|known| known.page_bytes).collect::<Vec<_>>(), [2 << 20]);
}

/// With the feature `backtrace` an array has its callers, and those of the library are left out.
#[test]
#[cfg(feature = "backtrace")]
fn arrays_have_their_callers() {
    #[inline(never)]
    fn caller_of_an_array(device: &Virtual) {
        drop(device.zeros::<u8>(1234).unwrap());
    }
    let _alone = alone();
    trace::start(1000);
    caller_of_an_array(&Virtual::unchecked(1 << 30));
    let trace = trace::stop();
    let stack = trace.events.iter().find_map(|event| event.stack.clone()).unwrap();
    println!("{stack}");
    let first = stack.lines().next().unwrap();
    assert!(first.contains("caller_of_an_array") && first.contains("traced.rs:"), "{stack}");
    assert!(!stack.contains("gpucache_engine::"), "{stack}");
    let mut file = Vec::new();
    trace.write_csv(&mut file).unwrap();
    assert!(String::from_utf8(file).unwrap().contains("caller_of_an_array at "));
}

#[test]
fn plans_serve_as_without_a_trace() {
    let _alone = alone();
    let run = |name: &str, is_traced: bool| {
        let device = Virtual::unchecked(1 << 30);
        if is_traced {
            trace::start(10);
        }
        for entry in 0..40 {
            step(&device, name, &[4096, 9000 + 512 * (entry % 3), 70_000]).unwrap();
        }
        let _ = trace::stop();
        let (served, deviations) =
            (gpucache::stats(name).unwrap().served, gpucache::stats(name).unwrap().plan.deviations);
        let _ = gpucache::invalidate(name);
        (served, deviations, device.memory().peak_bytes)
    };
    assert_eq!(run("traced", true), run("untraced", false));
}

#[test]
fn lists_and_the_device_are_told() {
    let _alone = alone();
    let device = Virtual::new(1 << 30);
    trace::start(100);
    let keyed = Scope::new("traced, keyed").recycle(Recycle::Keyed);
    (0..2).for_each(|_| keyed.run(|| drop(device.zeros::<u8>(777).unwrap())));
    Scope::new("traced, off").recycle(Recycle::Off).run(|| drop(device.zeros::<u8>(777).unwrap()));
    keyed.run(|| {
        let _outside = ScopeGuard::outside();
        drop(device.zeros::<u8>(778).unwrap());
    });
    let trace = trace::stop();
    assert_eq!(served(&trace, "traced, keyed"), HashMap::from([(ServedBy::Range, 1), (ServedBy::List, 1)]));
    assert_eq!(served(&trace, "traced, off"), HashMap::from([(ServedBy::Device, 1)]));
    let outside = trace.events.iter().find(|event| event.bytes == 778).unwrap();
    assert_eq!((outside.scope.as_deref(), outside.served_by), (None, Some(ServedBy::Device)));
}

#[test]
fn what_threads_hand_on_is_freed_once_and_after_it_was_allocated() {
    let _alone = alone();
    let device = Virtual::new(1 << 30);
    trace::start(100_000);
    let (send, receive) = mpsc::sync_channel(4);
    std::thread::scope(|threads| {
        threads.spawn(move || receive.into_iter().for_each(drop::<Array<u8, Virtual>>));
        for entry in 0..500 {
            let _inside = Scope::new("traced, handed on").enter();
            send.send(device.zeros::<u8>(1000 + entry % 7).unwrap()).unwrap();
        }
        drop(send);
    });
    let trace = trace::stop();
    let of = |action| trace.events.iter().filter(move |event: &&TraceEvent| event.action == action);
    assert_eq!((of(Action::Allocated).count(), of(Action::Freed).count(), trace.lost), (500, 500, 0));
    let threads = |action| of(action).map(|event| event.thread).collect::<HashSet<_>>();
    assert_ne!(threads(Action::Allocated), threads(Action::Freed));
    assert_paired(&trace);
}

#[test]
fn devices_with_the_same_addresses_are_told_apart() {
    let _alone = alone();
    let (one, other) = (Virtual::new(1 << 30), Virtual::new(1 << 30));
    trace::start(100);
    // Of one size on the device, which gives addresses from the end of a stretch.
    let arrays = [one.zeros::<u8>(1000).unwrap(), other.zeros::<u8>(1010).unwrap()];
    drop(arrays);
    let trace = trace::stop();
    let allocated: Vec<_> = trace.events.iter().filter(|event| event.action == Action::Allocated).collect();
    assert_eq!(allocated[0].address, allocated[1].address, "the test shows nothing");
    assert_ne!(allocated[0].device, allocated[1].device);
    let freed = |event: &&TraceEvent| event.action == Action::Freed;
    assert_eq!(trace.events.iter().filter(freed).map(|event| event.bytes).collect::<Vec<_>>(), [1000, 1010]);
}

#[test]
fn what_lived_before_is_not_freed_in_it_and_what_comes_after_is_not_told() {
    let _alone = alone();
    let device = Virtual::new(1 << 30);
    let before = device.zeros::<u8>(1000).unwrap();
    trace::start(6);
    drop(before);
    (0..4).for_each(|_| drop(device.zeros::<u8>(2000).unwrap()));
    let trace = trace::stop();
    // Each array makes four events: the device gives memory, the array gets it, the array is dropped, and the memory goes back.
    assert_eq!((trace.events.len(), trace.lost), (5, 12), "an allocation that is lost has no free");
    drop(device.zeros::<u8>(1000).unwrap());
    assert!(trace::stop().events.is_empty());
    trace::start(4);
    drop(device.zeros::<u8>(3000).unwrap());
    assert_eq!(trace::stop().events.iter().map(|event| event.bytes).collect::<Vec<_>>(), [3000, 3000, 3000, 0]);
}

#[test]
fn what_is_held_from_a_device_is_told_as_it_changes() {
    let _alone = alone();
    for device in [Virtual::new(1 << 30), Virtual::unchecked(1 << 30)] {
        trace::start(1000);
        let mut held = Vec::new();
        let outside = device.zeros::<u8>(5000).unwrap();
        held.push(device.memory().bytes);
        step(&device, "traced, held", &[9_000_000]).unwrap();
        let peak = device.memory().peak_bytes;
        drop(outside);
        let _ = gpucache::invalidate("traced, held");
        held.push(device.memory().bytes);
        let trace = trace::stop();
        let told = |event: &&TraceEvent| event.action == Action::Reserved;
        let told: Vec<u64> = trace.events.iter().filter(told).map(|event| event.bytes).collect();
        assert_eq!((told.first(), told.last()), (held.first(), held.last()), "{told:?}");
        assert_eq!(told.iter().max(), Some(&peak));
        let grown = trace.events.iter().find(|event| event.action == Action::Reserved && event.bytes > 5000);
        assert_eq!(grown.unwrap().scope.as_deref(), Some("traced, held"));
    }
}

/// The process that the test below starts.
const CHILD: &str = "GPUCACHE_TRACED_CHILD";

#[test]
fn a_trace_of_the_program_ends_that_of_the_environment_with_a_line() {
    let _alone = alone();
    if std::env::var_os(CHILD).is_some() {
        step(&Virtual::unchecked(1 << 30), "traced twice", &[5000]).unwrap();
        trace::start(1000);
        return drop(trace::stop());
    }
    let path = std::env::temp_dir().join(format!("gpucache-traced-{}.csv", std::process::id()));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_trace_of_the_program_ends_that_of_the_environment_with_a_line"]);
    let output = child.env(CHILD, "1").env("GPUCACHE_TRACE", &path).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("no trace of the whole run"), "{output:?}");
    assert!(!path.exists());
}

/// The program enters its first scope before it has a device.
#[test]
fn the_trace_of_the_environment_has_the_first_entry() {
    let _alone = alone();
    if std::env::var_os(CHILD).is_some() {
        return gpucache::cache_scope!("traced first", { drop(Host::new().zeros::<u8>(100).unwrap()) });
    }
    let path = std::env::temp_dir().join(format!("gpucache-first-{}.csv", std::process::id()));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "the_trace_of_the_environment_has_the_first_entry"]);
    let output = child.env(CHILD, "1").env("GPUCACHE_TRACE", &path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let written = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let ops: Vec<&str> = written.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
    let first = ops.iter().position(|op| *op == "enter").unwrap();
    assert!(ops[first..].starts_with(&["enter", "reserve", "a", "f", "leave"]), "{written}");
}

#[test]
fn the_arrays_of_a_captured_scope_have_lines_of_the_program() {
    let _alone = alone();
    let host = Host::new_stream().unwrap();
    trace::start(10_000);
    let value = gpucache::graph::Scalar::new(&host, 1u32).unwrap();
    let mut scope = gpucache::graph::CapturedScope::new(&host, "traced: captured");
    for _ in 0..10 {
        drop(scope.run((), (), |()| Array::full(&host, 100, 1u8)).unwrap());
    }
    drop(value);
    let trace = trace::stop();
    let allocated = trace.events.iter().filter(|event| event.action == Action::Allocated);
    let others: Vec<_> = allocated.filter(|event| event.site.is_none_or(|site| site.file() != file!())).collect();
    assert!(others.is_empty(), "{others:?}");
}

/// A scope with an empty name is not taken for none, in the trace and in its file.
/// Also entries of scopes in a captured block, which enter the captured scope once more.
#[test]
fn each_entry_has_its_end() {
    let _alone = alone();
    let host = Host::new_stream().unwrap();
    let mut captured = CapturedScope::new(&host, "traced block");
    trace::start(100_000);
    for _ in 0..20 {
        let _around = Scope::new("traced around").enter();
        let inner = || gpucache::cache_scope!("traced inside", { Array::full(&host, 100, 1u8) });
        let _ones = captured.run((), (), |()| inner()).unwrap();
    }
    let trace = trace::stop();
    let mut open = HashMap::new();
    for event in &trace.events {
        let open: &mut i64 = open.entry((event.thread, event.scope.clone())).or_default();
        match event.action {
            Action::Entered => *open += 1,
            Action::Left => *open -= 1,
            _ => {}
        }
        assert!(*open >= 0, "{:?} was left and not entered", event.scope);
    }
    assert!(!open.is_empty() && open.values().all(|open| *open == 0), "{open:?}");
}

#[test]
fn a_scope_without_a_name_is_read_from_a_file() {
    let _alone = alone();
    let device = Virtual::unchecked(1 << 30);
    trace::start(1000);
    (0..3).for_each(|_| step(&device, "", &[5000, 70_000]).unwrap());
    let trace = trace::stop();
    assert!(trace.events.iter().any(|event| event.action == Action::Entered && event.scope.as_deref() == Some("\"\"")));
    let path = std::env::temp_dir().join(format!("gpucache_traced_{}.csv", std::process::id()));
    trace.write_csv(std::fs::File::create(&path).unwrap()).unwrap();
    let (run, read) = (Run::from(&trace), Run::read(&path).unwrap());
    let (of_run, of_file) = (History::of("empty", &run).unwrap(), History::read(&path).unwrap());
    std::fs::remove_file(&path).unwrap();
    assert_eq!(run, read);
    assert_eq!((of_run.operations(), of_run.operations() > 0), (of_file.operations(), true));
}
