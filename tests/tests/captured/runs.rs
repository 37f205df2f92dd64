//! Captured scopes on streams of the host.

use gpucache::Result;
use gpucache::device::Virtual;
use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache_tests::turn;

const LEN: usize = 1000;

/// `y = x + value`
fn add(y: &mut Array<u32, Host>, x: &Array<u32, Host>, value: u32) -> Result<()> {
    x.device().launch_kernel((y, x), move |(y, x)| y.iter_mut().zip(x).for_each(|(y, x)| *y = x.wrapping_add(value)))
}

/// `x + 3`, by way of arrays that live for two kernels each.
fn step(x: &Array<u32, Host>) -> Result<Array<u32, Host>> {
    let mut first = x.device().zeros(x.len())?;
    add(&mut first, x, 1)?;
    let mut second = x.device().zeros(x.len())?;
    add(&mut second, &first, 1)?;
    drop(first);
    let mut third = x.device().zeros(x.len())?;
    add(&mut third, &second, 1)?;
    Ok(third)
}

#[test]
fn a_step_is_captured_and_launched() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "captured: step");
    let mut held = Vec::new();
    for number in 0..40 {
        let input = Array::full(&host, LEN, number).unwrap();
        let output = scope.run((), &input, step).unwrap();
        held.push((number, output));
        if number % 3 == 0 {
            held.remove(0);
        }
        for (number, output) in &held {
            assert_eq!(output.to_vec().unwrap(), vec![number + 3; LEN], "{}", scope.stats());
        }
    }
    let stats = scope.stats();
    println!("{stats}");
    assert!(stats.launches >= 25, "{stats}");
}

/// A block that uses an array which is no input, and one whose shapes change: the work is done, and no graph comes of it.
#[test]
fn each_run_counts_once() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let other = Array::full(&host, LEN, 7u32).unwrap();
    let mut scope = CapturedScope::new(&host, "captured: counts");
    for number in 0..60u64 {
        let output = scope.run((), (), |()| {
            let mut y = host.zeros(if number < 30 { LEN } else { number as usize })?;
            if number < 30 {
                add(&mut y, &other, 1)?;
            }
            Ok::<_, gpucache::Error>(y)
        });
        assert!(output.is_ok());
        let stats = scope.stats();
        assert_eq!(stats.launches + stats.captures + stats.direct, number + 1, "{stats}");
    }
    assert!(scope.stats().refused > 2, "{}", scope.stats());
}

/// The refusal says which operation uses an array that was not passed.
#[test]
fn a_refusal_names_the_operation() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let other = Array::full(&host, LEN, 7u32).unwrap();
    let mut scope = CapturedScope::new(&host, "captured: names the operation");
    for _ in 0..30 {
        let output = scope.run((), (), |()| {
            let mut y = host.zeros(LEN)?;
            add(&mut y, &other, 1)?;
            Ok::<_, gpucache::Error>(y)
        });
        assert!(output.is_ok());
    }
    let why = scope.stats().last_refusal.unwrap();
    assert!(why.contains("array 2 of a kernel on the host is memory that is no input, at 0x"), "{why}");
}

/// A step of 24 blocks over `rows` rows, on a device without memory.
fn blocks(device: &Virtual, rows: usize) -> Result<Array<f32, Virtual>> {
    let mut x = device.zeros::<f32>([rows, 1024])?;
    for _ in 0..24 {
        let _norm = device.zeros::<f32>([rows, 1024])?;
        let y = device.zeros::<f32>([rows, 1024])?;
        x = y.try_clone()?;
    }
    Ok(x)
}

/// The bytes that a device reserves some runs after each batch size has a graph, and the number of runs until then.
fn reserved(batches: &[usize]) -> (u64, u64) {
    let device = Virtual::new(8 << 30);
    let mut scope = CapturedScope::new(&device, &format!("captured: batches {batches:?}"));
    let mut runs = 0;
    while scope.stats().graphs < batches.len() && runs < 1000 {
        for &rows in batches {
            runs += 1;
            drop(scope.run(rows, (), |()| blocks(&device, rows)).unwrap());
        }
    }
    for &rows in batches.iter().cycle().take(200) {
        drop(scope.run(rows, (), |()| blocks(&device, rows)).unwrap());
    }
    eprintln!("{runs} {} peak {}", scope.stats(), device.memory().peak_bytes);
    (device.memory().bytes, runs)
}

#[test]
fn graphs_of_all_batch_sizes_share_memory() {
    let _turn = turn();
    let sizes: Vec<usize> = (1..=16).map(|size| 256 * size).collect();
    let mut random = fastrand::Rng::with_seed(1);
    let mut mixed = sizes.clone();
    random.shuffle(&mut mixed);
    let (largest, _) = reserved(&sizes[15..]);
    for order in [sizes.clone(), sizes.iter().rev().copied().collect(), mixed] {
        let (bytes, runs) = reserved(&order);
        eprintln!("{bytes} of {largest}: {}, {runs} runs", bytes as f64 / largest as f64);
        assert!(bytes as f64 <= 1.05 * largest as f64);
    }
}

/// A device that checks its blocks is told of each drop, and so is the plan of some blocks. Neither is a use by another stream.
#[test]
fn an_output_whose_drop_is_told_is_an_input_of_graphs() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let mut scope = CapturedScope::new(&device, "captured: told drops");
    let mut state = device.zeros::<f32>(1000).unwrap();
    for _ in 0..40 {
        state = scope.run((), &state, |state| state.try_clone()?.try_clone()).unwrap();
    }
    assert!(scope.stats().launches >= 30, "{}", scope.stats());
}

/// Prints the time of the calling thread for a run that launches an empty graph. For release builds: `-- --ignored --nocapture`.
#[test]
#[ignore = "measures"]
fn measure() {
    let _turn = turn();
    let rounds = gpucache_tests::process::number("ROUNDS").unwrap_or(20);
    for len in [1000, 1 << 18, 1 << 22] {
        let device = Virtual::unchecked(8 << 30);
        let mut scope = CapturedScope::new(&device, "captured: measure");
        let mut time = |runs: u32| {
            let start = std::time::Instant::now();
            for _ in 0..runs {
                drop(scope.run((), (), |()| device.zeros::<f32>(len)).unwrap());
            }
            start.elapsed().as_nanos() as f64 / f64::from(runs)
        };
        time(1000);
        let least = (0..rounds).map(|_| time(10_000)).fold(f64::MAX, f64::min);
        println!("{len} elements: {least:.0} ns for each run with an output");
        let mut scope = CapturedScope::new(&device, "captured: measure nothing");
        let mut time = |runs: u32| {
            let start = std::time::Instant::now();
            for _ in 0..runs {
                scope.run((), (), |()| device.zeros::<f32>(len).map(drop)).unwrap();
            }
            start.elapsed().as_nanos() as f64 / f64::from(runs)
        };
        time(1000);
        let least = (0..rounds).map(|_| time(10_000)).fold(f64::MAX, f64::min);
        println!("{len} elements: {least:.0} ns for each run without one");
    }
}

/// Runs `step` on the first stream `share` times for each run on the second one. Returns the launches of each captured scope.
fn by_turns(name: &str, streams: [&Host; 2], share: usize) -> [u64; 2] {
    let mut scopes = streams.map(|stream| CapturedScope::new(stream, name));
    for number in 0..100 {
        for (which, stream) in std::iter::repeat_n((0, streams[0]), share).chain([(1, streams[1])]) {
            let input = Array::full(stream, LEN, number).unwrap();
            assert_eq!(scopes[which].run((), &input, step).unwrap().to_vec().unwrap(), vec![number + 3; LEN]);
        }
    }
    scopes.map(|scope| scope.stats().launches)
}

/// One thread runs two captured scopes of one name, each on its own stream. Both are launched, however often each one runs.
#[test]
fn one_name_on_two_streams() {
    let _turn = turn();
    let streams = [(); 2].map(|()| Host::new_stream().unwrap());
    for share in [1, 2, 3, 4, 8] {
        for two in [[0, 1], [1, 0]] {
            let name = format!("captured: one name, {share} {two:?}");
            let launches = by_turns(&name, two.map(|which| &streams[which]), share);
            assert!(launches[0] > 50 * share as u64 && launches[1] > 50, "{share} {two:?}: {launches:?}");
        }
    }
}

/// A stream for each request works beside one that stays. Only the first request takes plans away.
#[test]
fn one_name_on_streams_that_come_and_go() {
    let _turn = turn();
    let stays = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&stays, "captured: comes and goes");
    let mut launches = Vec::new();
    for _ in 0..6 {
        let (before, stream) = (scope.stats().launches, Host::new_stream().unwrap());
        let mut request = CapturedScope::new(&stream, "captured: comes and goes");
        for number in 0..40 {
            for (scope, stream) in [(&mut scope, &stays), (&mut request, &stream)] {
                let input = Array::full(stream, LEN, number).unwrap();
                assert_eq!(scope.run((), &input, step).unwrap().to_vec().unwrap(), vec![number + 3; LEN]);
            }
        }
        launches.push((scope.stats().launches - before, request.stats().launches));
    }
    // Some runs are direct where work lags behind. With plans taken away, 16 of 40 are launched.
    assert!(launches[1..].iter().all(|(stays, comes)| *stays > 30 && *comes > 20), "{launches:?}");
}

/// Each thread has its own cache of the scope, so both streams keep the one name.
#[test]
fn one_name_on_two_threads() {
    let _turn = turn();
    let run = || {
        let host = Host::new_stream().unwrap();
        let mut scope = CapturedScope::new(&host, "captured: two threads");
        for number in 0..40 {
            let input = Array::full(&host, LEN, number).unwrap();
            assert_eq!(scope.run((), &input, step).unwrap().to_vec().unwrap(), vec![number + 3; LEN]);
        }
        assert!(scope.stats().launches > 20, "{}", scope.stats());
    };
    std::thread::scope(|threads| (0..2).for_each(|_| _ = threads.spawn(run)));
    assert!(gpucache::stats("captured: two threads, stream 2").is_none());
}
