//! Captured scopes under misuse: programs in safe code that try to make a graph use memory or values that are not its own.

use std::sync::mpsc;

use gpucache::graph::CapturedScope;
use gpucache::offload::Placed;
use gpucache::prelude::*;
use gpucache::{Result, Scope, uncached};
use gpucache_tests::turn;

const LEN: usize = 1000;

/// `y = x + value`
fn add(y: &mut Array<u32, Host>, x: &Array<u32, Host>, value: u32) -> Result<()> {
    x.device().launch_kernel((y, x), move |(y, x)| y.iter_mut().zip(x).for_each(|(y, x)| *y = x.wrapping_add(value)))
}

/// `x + value`, by way of an array of the plan.
fn sum(x: &Array<u32, Host>, value: u32) -> Result<Array<u32, Host>> {
    let mut first = x.device().zeros(x.len())?;
    add(&mut first, x, value)?;
    let mut second = x.device().zeros(x.len())?;
    add(&mut second, &first, 0)?;
    Ok(second)
}

fn write_seven(bytes: &mut Array<u8, Host>) -> Result<()> {
    let host = bytes.device().clone();
    host.launch_kernel(bytes, |bytes| bytes.fill(7))
}

/// A `bool` must be 0 or 1, so the graph of a block that writes other bytes may not run on an array of `bool`.
#[test]
fn a_graph_is_of_inputs_of_one_type() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: input types");
    let mut bytes = Array::full(&host, LEN, 0u8).unwrap();
    for _ in 0..10 {
        scope.run((), &mut bytes, write_seven).unwrap();
    }
    assert!(scope.stats().launches > 0, "{}", scope.stats());
    let mut flags = Array::full(&host, LEN, false).unwrap();
    scope.run((), &mut flags, |_| Ok::<_, gpucache::Error>(())).unwrap();
    assert_eq!(flags.to_vec().unwrap(), vec![false; LEN], "{}", scope.stats());
}

/// The outputs of one key have another type in a later run.
#[test]
fn a_graph_is_of_outputs_of_one_type() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: output types");
    for _ in 0..10 {
        let wide = scope.run((), (), |()| Array::full(&host, LEN, u64::MAX)).unwrap();
        assert_eq!(wide.to_vec().unwrap(), [u64::MAX; LEN]);
    }
    assert!(scope.stats().launches > 0, "{}", scope.stats());
    let beside: Vec<Array<u8, Host>> = (0..4).map(|_| Array::full(&host, LEN, 1u8).unwrap()).collect();
    for _ in 0..4 {
        let narrow = scope.run((), (), |()| Array::full(&host, LEN, 5u8)).unwrap();
        assert_eq!(narrow.to_vec().unwrap(), [5; LEN], "{}", scope.stats());
    }
    beside.iter().for_each(|array| assert_eq!(array.to_vec().unwrap(), [1; LEN]));
}

type Optional<'a> = Option<&'a Array<u32, Host>>;

/// Which of two optional inputs is there.
#[test]
fn optional_inputs_are_told_apart() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: options");
    let input = Array::full(&host, LEN, 10u32).unwrap();
    for number in 0..20 {
        let inputs = if number < 10 { (Some(&input), None) } else { (None, Some(&input)) };
        let output = scope
            .run((), inputs, |(one, two): (Optional<'_>, Optional<'_>)| match (one, two) {
                (Some(one), _) => sum(one, 1),
                (_, Some(two)) => sum(two, 2),
                _ => unreachable!(),
            })
            .unwrap();
        let expected = if number < 10 { 11 } else { 12 };
        assert_eq!(output.to_vec().unwrap(), [expected; LEN], "run {number}: {}", scope.stats());
    }
}

/// After panics everywhere, the flags of the thread and of the stream are as before.
#[test]
fn panics_leave_nothing_behind() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: panics");
    let input = Array::full(&host, LEN, 1u32).unwrap();
    for number in 0..40 {
        let panics = number < 20 && number % 2 == 0;
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            scope.run((), &input, |input| {
                let output = sum(input, 1);
                assert!(!panics, "on purpose");
                output
            })
        }));
        if let Ok(output) = done {
            assert_eq!(output.unwrap().to_vec().unwrap(), [2; LEN]);
        }
    }
    assert!(scope.stats().launches >= 15, "{}", scope.stats());
}

/// A kernel of a graph that panics makes the outputs lost, and the next run goes on.
#[test]
fn a_kernel_that_panics_at_a_launch() {
    let _turn = turn();
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: kernel panics");
    let input = Array::full(&host, LEN, 1u32).unwrap();
    let mut failures = 0;
    for _ in 0..30 {
        let done = scope
            .run((), &input, |input| {
                let mut output = host.zeros(LEN)?;
                host.launch_kernel((&mut output, input), |(output, input)| {
                    assert!(RUNS.fetch_add(1, SeqCst) != 10, "on purpose");
                    output.copy_from_slice(input);
                })?;
                Ok::<_, gpucache::Error>(output)
            })
            .and_then(|output| output.to_vec());
        match done {
            Ok(values) => assert_eq!(values, [1; LEN]),
            Err(error) => {
                assert!(error.is_panic(), "{error}");
                failures += 1;
            }
        }
    }
    assert!((1..=2).contains(&failures), "{failures}: {}", scope.stats());
    assert!(scope.stats().launches >= 20, "{}", scope.stats());
}

/// Arrays that leave the block by another way than its return.
#[test]
fn smuggled_arrays_are_not_overwritten() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: smuggled");
    let (sender, receiver) = mpsc::channel::<Array<u32, Host>>();
    let mut kept = Vec::new();
    for number in 0..40u32 {
        let input = Array::full(&host, LEN, number).unwrap();
        let sender = &sender;
        let output = scope
            .run((), &input, |input| {
                let first = sum(input, 1)?;
                let second = sum(&first, 1)?;
                if number % 7 == 3 {
                    sender.send(first).unwrap();
                }
                Ok::<_, gpucache::Error>(second)
            })
            .unwrap();
        kept.extend(receiver.try_iter().map(|array| (number + 1, array)));
        assert_eq!(output.to_vec().unwrap(), vec![number + 2; LEN], "{}", scope.stats());
        kept.iter().for_each(|(value, array)| assert_eq!(array.to_vec().unwrap(), vec![*value; LEN]));
    }
    println!("{}", scope.stats());
}

/// A scope of the same name around the captured one.
#[test]
fn a_scope_of_the_same_name_around() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: same name");
    for number in 0..60u32 {
        let _inside = (number % 3 == 0).then(|| Scope::new("attack: same name").enter());
        let before = Array::full(&host, LEN, number).unwrap();
        let input = Array::full(&host, LEN, number).unwrap();
        let output = scope.run((), &input, |input| sum(input, 1)).unwrap();
        let after = Array::full(&host, LEN, number).unwrap();
        let again = scope.run((), &after, |input| sum(input, 1)).unwrap();
        assert_eq!(before.to_vec().unwrap(), vec![number; LEN]);
        assert_eq!(after.to_vec().unwrap(), vec![number; LEN]);
        assert_eq!(output.to_vec().unwrap(), vec![number + 1; LEN]);
        assert_eq!(again.to_vec().unwrap(), vec![number + 1; LEN]);
    }
    println!("{}", scope.stats());
}

/// `compare(true)` sees that the block now returns more.
#[test]
fn the_debug_mode_sees_other_shapes() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: compare shapes").compare(true);
    let mut seen = false;
    for number in 0..12 {
        let len = if number < 9 { LEN } else { 2 * LEN };
        let output = scope.run((), (), |()| Array::full(&host, len, 3u32));
        seen |= number >= 9 && output.is_err_and(|error| error.is_unavailable());
    }
    assert!(seen, "{}", scope.stats());
}

#[test]
fn the_debug_mode_sees_other_counts() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: compare counts").compare(true);
    let mut seen = false;
    for number in 0..12 {
        let output = scope.run((), (), |()| {
            (0..if number < 9 { 1 } else { 2 }).map(|_| Array::full(&host, LEN, 3u32)).collect::<Result<Vec<_>>>()
        });
        seen |= number >= 9 && output.is_err_and(|error| error.is_unavailable());
    }
    assert!(seen, "{}", scope.stats());
}

/// A copy of a lost array is lost, also by a graph.
#[test]
fn a_lost_input_makes_the_outputs_lost() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: lost input");
    let mut input = Array::full(&host, LEN, 1u32).unwrap();
    for _ in 0..10 {
        drop(scope.run((), &input, |input| input.try_clone()).unwrap());
    }
    assert!(scope.stats().launches > 0, "{}", scope.stats());
    let before = scope.stats().launches;
    host.launch(&mut input, |_| panic!("on purpose")).unwrap();
    host.synchronize().unwrap_err();
    let output = scope.run((), &input, |input| input.try_clone());
    assert!(output.is_err() || output.unwrap().to_vec().is_err(), "{}", scope.stats());
    println!("{before}: {}", scope.stats());
}

/// Work that other threads put on the stream during the capture.
#[test]
fn work_of_other_threads_in_the_block_is_not_forgotten() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: threads in the block");
    for number in 0..12u32 {
        let input = Array::full(&host, LEN, number).unwrap();
        let output = scope
            .run((), &input, |input| {
                let mut output = input.device().zeros(LEN)?;
                std::thread::scope(|threads| threads.spawn(|| add(&mut output, input, 1)).join().unwrap())?;
                Ok::<_, gpucache::Error>(output)
            })
            .unwrap();
        assert_eq!(output.to_vec().unwrap(), vec![number + 1; LEN], "run {number}: {}", scope.stats());
    }
}

#[test]
fn empty_arrays_do_not_prevent_graphs() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: empty");
    for number in 0..12 {
        let empty = Array::full(&host, 0, 1u32).unwrap();
        let zst = Array::full(&host, 5, [0u32; 0]).unwrap();
        let input = Array::full(&host, LEN, number).unwrap();
        let (output, nothing, zsts) = scope
            .run((), (&empty, &zst, &input), |(empty, zst, input)| {
                let mut output = host.zeros(LEN)?;
                host.launch_kernel((empty, zst, input, &mut output), |(empty, zst, input, output)| {
                    output.iter_mut().zip(input).for_each(|(y, x)| *y = x + (empty.len() + zst.len()) as u32);
                })?;
                Ok::<_, gpucache::Error>((output, empty.try_clone()?, zst.try_clone()?))
            })
            .unwrap();
        assert_eq!(output.to_vec().unwrap(), [number + 5; LEN]);
        assert_eq!((nothing.len(), zsts.len()), (0, 5));
    }
    assert!(scope.stats().launches >= 6, "{}", scope.stats());
}

/// An array beside all scopes, of zeros.
fn beside(host: &Host, len: usize) -> Array<u8, Host> {
    uncached!({ Array::zeros(host, len).unwrap() })
}

/// The block drops its input and puts a longer array in its place, which the allocator may put at the same address.
#[test]
fn an_input_that_the_block_replaces_lends_its_memory_to_no_graph() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let placed = |len| Placed::<u8, _>::zeros(&host, len).unwrap().into_array().unwrap();
    let (hole, _end) = (placed(65536), placed(256));
    drop(hole);
    let mut scope = CapturedScope::new(&host, "attack: replaced");
    for _ in 0..5 {
        let mut input = placed(256);
        let replace = |input: &mut Array<u8, Host>| {
            drop(std::mem::replace(input, Array::zeros(&host, 0)?));
            *input = uncached!({ placed(65536) });
            host.launch_kernel(&mut *input, |bytes| bytes.fill(7))
        };
        scope.run((), &mut input, replace).unwrap();
        assert_eq!((input.len(), input[65535]), (65536, 7), "{}", scope.stats());
    }
    let mut input = placed(256);
    let others: Vec<_> = (0..200).map(|_| placed(256)).collect();
    scope.run((), &mut input, |_| Ok::<_, gpucache::Error>(())).unwrap();
    assert!(others.iter().all(|other| other[..] == [0; 256]), "{}", scope.stats());
    assert_eq!((scope.stats().captures, scope.stats().launches), (0, 0), "{}", scope.stats());
}

/// As above, and then puts an array like the first input there.
#[test]
fn memory_of_an_input_that_the_block_drops_is_used_again_after_the_capture_only() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: dropped within");
    for _ in 0..5 {
        let mut input = beside(&host, 4096);
        let replace = |input: &mut Array<u8, Host>| {
            drop(std::mem::replace(input, Array::zeros(&host, 0)?));
            let mut flags: Array<bool, Host> = uncached!({ Array::zeros(&host, 4096)? });
            host.launch_kernel(&mut flags, |flags| flags.fill(true))?;
            drop(flags);
            *input = beside(&host, 4096);
            Ok::<_, gpucache::Error>(())
        };
        scope.run((), &mut input, replace).unwrap();
        assert_eq!(input[..], [0; 4096], "{}", scope.stats());
    }
    assert_eq!(scope.stats().launches, 0, "{}", scope.stats());
}

#[test]
fn inputs_that_change_places_get_no_graph() {
    let _turn = turn();
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "attack: swapped");
    let mut now = Array::full(&host, LEN, 0u32).unwrap();
    let mut next = Array::full(&host, LEN, 0u32).unwrap();
    for _ in 0..10 {
        scope
            .run((), (&mut now, &mut next), |(now, next)| {
                add(next, now, 1)?;
                std::mem::swap(now, next);
                Ok::<_, gpucache::Error>(())
            })
            .unwrap();
    }
    assert_eq!(now.to_vec().unwrap(), [10; LEN], "{}", scope.stats());
    let why = scope.stats().last_refusal.unwrap();
    assert!(why.contains("in the place of its inputs"), "{why}");
}

/// A launch would not repeat that one stream waits for the other.
#[test]
fn a_block_in_which_streams_wait_gets_no_graph() {
    let _turn = turn();
    let (host, other) = (Host::new_stream().unwrap(), Host::new_stream().unwrap());
    type Wait = fn(&Host, &Host, &Array<u32, Host>) -> Result<()>;
    let waits: [(&str, Wait); 6] = [
        ("attack: joins", |host, other, _| host.join(other)),
        ("attack: is joined", |host, other, _| other.join(host)),
        ("attack: announces", |_, other, array| array.announce_read(other)),
        ("attack: waits", |host, _, _| host.synchronize()),
        ("attack: waits for the other", |_, other, _| other.synchronize()),
        ("attack: gives away", |_, other, array| other.launch(array, |_| ())),
    ];
    for (name, wait) in waits {
        let mut scope = CapturedScope::new(&host, name);
        for number in 1..=10u32 {
            // An array that another stream used before would prevent a capture.
            let mut array = Array::full(&host, LEN, number - 1).unwrap();
            let block = |array: &mut Array<u32, Host>| {
                host.launch_kernel(&mut *array, |array| array.iter_mut().for_each(|value| *value += 1))?;
                wait(&host, &other, array)
            };
            scope.run((), &mut array, block).unwrap();
            assert_eq!(array.to_vec().unwrap(), [number; LEN], "{name}: {}", scope.stats());
        }
        assert_eq!(scope.stats().captures, 0, "{name}: {}", scope.stats());
        assert!(scope.stats().last_refusal.is_some(), "{name}");
    }
}
