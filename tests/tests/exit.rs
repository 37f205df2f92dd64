//! The end of a process. It ends with the status that it asked for, no matter which arrays and scopes are open then.
//!
//! The program runs itself once for each ending and device. It has no test harness, since a harness would run everything on its own
//! threads, and endings differ on the thread of `main`.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use std::any::Any;
use std::cell::RefCell;
use std::process::{Command, exit};
use std::sync::{Mutex, OnceLock, mpsc};
use std::thread;

use gpucache::device::Device;
use gpucache::prelude::*;
use gpucache::{Array, cache_scope, invalidate_all};
use gpucache_tests::conformance::{assert_pattern, patterned};

/// Names the ending and the device for a child process.
const CHILD: &str = "GPUCACHE_EXIT_TEST";

/// An ending by name: which arrays and scopes are left open, and whether the process calls `exit` or returns from `main`.
type Ending<D> = (&'static str, fn(&D));

fn endings<D: Device>() -> Vec<Ending<D>> {
    vec![
        ("a thread-local made before the first scope", thread_local_made_first),
        ("a thread-local made inside a scope", thread_local_made_later),
        ("scopes entered by the end of thread-locals", scopes_at_the_end),
        ("statics", statics),
        ("a guard that is never dropped", forgotten_guard),
        ("threads inside a scope", threads_inside),
        ("threads that go on", threads_that_go_on),
        ("exit inside a scope", exit_inside),
        ("exit inside a scope on another thread", exit_inside_a_thread),
        ("a panic inside a scope on another thread", panic_inside_a_thread),
        ("a panic inside a scope, caught", panic_caught),
        ("everything at once", everything),
    ]
}

/// The device with streams whose work is done late.
const STREAM: &str = "host stream";

fn stream_endings() -> Vec<Ending<Host>> {
    [endings(), vec![("work that is not done", late_work as fn(&Host))]].concat()
}

/// An ending that is no success: only a deref could report the failure of late work.
const LOST: &str = "host stream: a deref of what failed work was to write";

fn deref_of_what_is_lost() {
    let stream = Host::new_stream().unwrap();
    let mut array = patterned(&stream, 100, 9).unwrap();
    stream.launch(&mut array, |_| panic!("on purpose")).unwrap();
    println!("{:?}", &array[..]);
}

/// Whether that child process fails, and shows no elements.
fn fails_when_lost() -> bool {
    let child = Command::new(std::env::current_exe().unwrap()).env(CHILD, LOST).output();
    let child = child.expect("the test program starts");
    let (is_failure, says_why) = (child.status.code() == Some(101), String::from_utf8_lossy(&child.stderr));
    let is_well = is_failure && child.stdout.is_empty() && says_why.contains("are lost");
    println!("{LOST} ... {}", if is_well { "ok" } else { "FAILED" });
    is_well
}

thread_local! {
    static FIRST: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
    static LATER: RefCell<Vec<Box<dyn Any>>> = const { RefCell::new(Vec::new()) };
}

fn work<D: Device>(device: &D) -> Array<u32, D> {
    cache_scope!(work, {
        drop(patterned(device, 100, 1).unwrap());
        cache_scope!(below, { drop(patterned(device, 100, 2).unwrap()) });
        patterned(device, 100, 3).unwrap()
    })
}

fn thread_local_made_first<D: Device>(device: &D) {
    FIRST.with_borrow_mut(Vec::clear);
    let arrays = [work(device), work(device)];
    FIRST.with_borrow_mut(|kept| kept.push(Box::new(arrays)));
}

fn thread_local_made_later<D: Device>(device: &D) {
    let arrays = [work(device), work(device)];
    cache_scope!(work, { LATER.with_borrow_mut(|kept| kept.push(Box::new(arrays))) });
}

/// Allocates in a scope when it is dropped.
struct AtTheEnd<D: Device>(D);

impl<D: Device> Drop for AtTheEnd<D> {
    fn drop(&mut self) {
        // On the thread of `main`, the process exits by now, and a device may refuse.
        drop(cache_scope!(work, { patterned(&self.0, 100, 4) }));
    }
}

fn scopes_at_the_end<D: Device>(device: &D) {
    FIRST.with_borrow_mut(|kept| kept.push(Box::new(AtTheEnd(device.clone()))));
    drop(work(device));
    LATER.with_borrow_mut(|kept| kept.push(Box::new(AtTheEnd(device.clone()))));
}

fn statics<D: Device>(device: &D) {
    static KEPT: Mutex<Vec<Box<dyn Any + Send>>> = Mutex::new(Vec::new());
    static SHARED: OnceLock<Box<dyn Any + Send + Sync>> = OnceLock::new();
    KEPT.lock().unwrap().extend([Box::new(work(device)) as _, Box::new(device.clone()) as _]);
    SHARED.get_or_init(|| Box::new(work(device)));
    drop(work(device));
}

fn forgotten_guard<D: Device>(device: &D) {
    let guard = gpucache::Scope::new("work").enter();
    std::mem::forget((guard, work(device)));
    drop(work(device));
}

fn threads_inside<D: Device>(device: &D) {
    let (ready, is_ready) = mpsc::channel();
    for _ in 0..3 {
        let (device, ready) = (device.clone(), ready.clone());
        thread::spawn(move || {
            let kept = work(&device);
            cache_scope!(work, {
                ready.send(()).unwrap();
                loop {
                    thread::park();
                    assert_pattern(&kept, 3);
                }
            })
        });
    }
    (0..3).for_each(|_| is_ready.recv().unwrap());
}

fn threads_that_go_on<D: Device>(device: &D) {
    let (ready, is_ready) = mpsc::channel();
    for _ in 0..3 {
        let (device, ready) = (device.clone(), ready.clone());
        thread::spawn(move || {
            let mut kept = None;
            loop {
                // While the process exits, a device may fail. That is an error, and no crash.
                kept = cache_scope!(work, { patterned(&device, 100, 5) }).ok().or(kept);
                let _ = ready.send(());
            }
        });
    }
    (0..30).for_each(|_| is_ready.recv().unwrap());
}

fn exit_inside<D: Device>(device: &D) {
    let _kept = work(device);
    cache_scope!(work, {
        let _busy = patterned(device, 100, 6).unwrap();
        exit(0);
    })
}

fn exit_inside_a_thread<D: Device>(device: &D) {
    let device = device.clone();
    let _ = thread::spawn(move || exit_inside(&device)).join();
}

/// Work that never ends, and more work behind it.
fn late_work(stream: &Host) {
    let mut array = patterned(stream, 100, 9).unwrap();
    let (open, opened) = mpsc::channel::<()>();
    let own = stream.clone();
    let endless = move |()| {
        let _kept = work(&own);
        opened.recv().unwrap();
    };
    stream.launch((), endless).unwrap();
    stream.launch(&mut array, |values| values.fill(0)).unwrap();
    statics(stream);
    std::mem::forget(open);
}

fn panic_inside_a_thread<D: Device>(device: &D) {
    let device = device.clone();
    let thread = thread::spawn(move || {
        let _kept = work(&device);
        cache_scope!(work, {
            let _busy = patterned(&device, 100, 7);
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    });
    assert!(thread.join().is_err());
}

fn panic_caught<D: Device>(device: &D) {
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        cache_scope!(work, {
            let _busy = patterned(device, 100, 8);
            std::panic::resume_unwind(Box::new("on purpose"));
        })
    }));
    assert!(caught.is_err());
}

fn everything<D: Device>(device: &D) {
    thread_local_made_first(device);
    thread_local_made_later(device);
    statics(device);
    threads_inside(device);
    panic_inside_a_thread(device);
    let _ = invalidate_all();
    threads_that_go_on(device);
    forgotten_guard(device);
}

/// Runs a child process for each ending on the device of this name. Returns false if one of them did not end well.
fn all_end_well<D: Device>(device: &str, endings: Vec<Ending<D>>) -> bool {
    let ends_well = |(ending, _): Ending<D>| {
        let child = Command::new(std::env::current_exe().unwrap()).env(CHILD, format!("{device}: {ending}")).output();
        let child = child.expect("the test program starts");
        let is_well = child.status.success();
        println!("{device}: {ending} ... {}", if is_well { "ok" } else { "FAILED" });
        if !is_well {
            println!("{}\n{}", child.status, String::from_utf8_lossy(&child.stderr));
        }
        is_well
    };
    // All endings are tried, so that each is reported.
    endings.into_iter().filter(|ending| !ends_well(*ending)).count() == 0
}

/// In the child process: tries the requested ending, if it is one of this device.
fn tries_ending<D: Device>(asked: &str, device: &str, endings: Vec<Ending<D>>, make: impl FnOnce() -> D) -> bool {
    let asked = asked.strip_prefix(device).and_then(|rest| rest.strip_prefix(": "));
    let found = endings.into_iter().find(|(name, _)| Some(*name) == asked);
    found.map(|(_, ending)| ending(&make())).is_some()
}

/// Whether a process ends whose trace and statistics go to pipes that nobody reads. It has to print a line about each.
#[cfg(target_os = "linux")]
fn ends_beside_pipes() -> bool {
    let pipe = |name: &str| {
        let path = std::env::temp_dir().join(format!("gpucache-exit-{name}-{}", std::process::id()));
        assert!(Command::new("mkfifo").arg(&path).status().expect("the system has pipes").success());
        path
    };
    let (trace, watch, told) = (pipe("trace"), pipe("watch"), pipe("told").with_extension("txt"));
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.env(CHILD, "host: a panic inside a scope, caught").stderr(std::fs::File::create(&told).unwrap());
    let mut child = child.env("GPUCACHE_TRACE", &trace).env("GPUCACHE_WATCH", &watch).spawn().unwrap();
    let begun = std::time::Instant::now();
    let ended = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.success(),
            None if begun.elapsed().as_secs() > 60 => {
                child.kill().unwrap();
                break child.wait().is_err();
            }
            None => thread::sleep(std::time::Duration::from_millis(5)),
        }
    };
    let text = std::fs::read_to_string(&told).unwrap();
    let lines =
        |name: &str| text.lines().filter(|line| line.starts_with(name) && line.contains("nobody reads")).count();
    // The process may be over before its statistics are written for the first time.
    let is_told = lines("gpucache: GPUCACHE_TRACE=") == 1 && lines("gpucache: GPUCACHE_WATCH=") <= 1;
    [&trace, &watch, &told, &told.with_extension("")].into_iter().for_each(|path| std::fs::remove_file(path).unwrap());
    println!("host: pipes without a reader ... {}", if ended && is_told { "ok" } else { "FAILED" });
    if !(ended && is_told) {
        println!("{text}");
    }
    ended && is_told
}

#[cfg(not(target_os = "linux"))]
fn ends_beside_pipes() -> bool {
    true
}

#[cfg(feature = "cuda")]
fn cuda_ends_well() -> bool {
    gpucache_tests::gpu::device().is_none_or(|_| all_end_well("cuda", endings::<Cuda>()))
}

#[cfg(not(feature = "cuda"))]
fn cuda_ends_well() -> bool {
    true
}

#[cfg(feature = "cuda")]
fn tries_cuda(asked: &str) -> bool {
    tries_ending(asked, "cuda", endings(), || gpucache_tests::gpu::device().expect("a GPU"))
}

#[cfg(not(feature = "cuda"))]
fn tries_cuda(_: &str) -> bool {
    false
}

fn main() {
    match std::env::var(CHILD) {
        Ok(asked) if asked == LOST => deref_of_what_is_lost(),
        Ok(asked) => {
            let tries_host = tries_ending(&asked, "host", endings(), Host::new)
                || tries_ending(&asked, STREAM, stream_endings(), || Host::new_stream().expect("a thread"));
            assert!(tries_host || tries_cuda(&asked), "`{asked}` is no ending");
        }
        Err(_) => {
            let host = all_end_well("host", endings::<Host>());
            let stream = all_end_well(STREAM, stream_endings());
            exit(i32::from([host, stream, fails_when_lost(), ends_beside_pipes(), cuda_ends_well()] != [true; 5]));
        }
    }
}
