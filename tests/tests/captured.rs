//! Captured scopes on streams of the host.
#![allow(clippy::unwrap_used)]

use gpucache::Result;
use gpucache::graph::CapturedScope;
use gpucache::prelude::*;

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
    let host = Host::new_stream().unwrap();
    let mut scope = CapturedScope::new(&host, "captured: step");
    let mut held = Vec::new();
    for number in 0..40 {
        let input = Array::full(&host, LEN, number).unwrap();
        let output = scope.run((), &input, |x| step(x)).unwrap();
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
