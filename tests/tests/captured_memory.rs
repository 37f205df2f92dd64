//! Memory that other scopes leave behind goes back to the device while a captured scope only launches its graph. The captured scope looks at
//! the range as often as an ordinary scope does, also if others often took the memory of its plans.
#![allow(clippy::unwrap_used)]

use gpucache::graph::CapturedScope;
use gpucache::prelude::*;
use gpucache::{Limit, Result, Scope, invalidate};

const LEN: usize = 1 << 18;

/// The most launches until the memory is back. An ordinary scope looks at the range after at most as many entries as it had before, and
/// then twice as many.
const MOST: u64 = 512;

fn add(y: &mut Array<u32, Host>, x: &Array<u32, Host>) -> Result<()> {
    x.device().launch_kernel((y, x), |(y, x)| y[0] = x[0].wrapping_add(1))
}

/// Works by way of two arrays of the plan.
fn step(input: &Array<u32, Host>, state: &mut Array<u32, Host>) -> Result<()> {
    let mut one = input.device().zeros(input.len())?;
    add(&mut one, input)?;
    let mut two = input.device().zeros(input.len())?;
    add(&mut two, &one)?;
    add(state, &two)
}

/// The launches after a burst of another scope until its memory is back. Before, the captured scope loses the memory of its plans so many
/// times, and launches so many graphs after each loss.
fn launches_until_back(losses: u64, between: u64) -> Option<u64> {
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, &format!("captured memory: {losses}, {between}"));
    let input = Array::full(&host, LEN, 1u32).unwrap();
    let mut state = Array::full(&host, LEN, 0u32).unwrap();
    let mut run = |times: u64| {
        for _ in 0..times {
            scope.run((), (&input, &mut state), |(input, state)| step(input, state)).unwrap();
        }
        host.synchronize().unwrap();
    };
    run(between);
    for _ in 0..losses {
        host.set_limit(Limit::hard(host.memory().bytes)).unwrap();
        drop(Scope::new("captured memory: other").run(|| host.zeros::<u32>(LEN * 3 / 2)).unwrap());
        let _ = invalidate("captured memory: other");
        host.set_limit(Limit::NONE).unwrap();
        run(between);
    }
    let before = host.memory().bytes;
    let burst = Scope::new("captured memory: burst");
    let arrays: Vec<_> = burst.run(|| (0..20).map(|_| host.zeros::<u32>(LEN).unwrap()).collect());
    let _ = invalidate("captured memory: burst");
    drop(arrays);
    assert!(host.memory().bytes > 2 * before, "the burst needed memory");
    (1..=MOST).find(|_| {
        run(1);
        host.memory().bytes <= before + before / 16
    })
}

#[test]
fn memory_goes_back_while_graphs_are_launched() {
    for (losses, between) in [(0, 20), (0, 300), (0, 2000), (140, 300)] {
        let back = launches_until_back(losses, between);
        println!("{losses} losses, {between} launches between: back after {back:?}");
        assert!(back.is_some(), "{losses} losses, {between} launches between");
        let _ = gpucache::invalidate_all();
    }
}
