//! Each pushed node is taken exactly once: a later take finds the nodes that an earlier one did not get.

use std::sync::Arc;

use loom::thread::spawn;

use super::{Marked, sorted};
use crate::home::returns::Returns;

/// Pushes nodes with these marks from one thread for each slice. Takes once meanwhile, and again when all are pushed.
fn check(threads: &'static [&'static [u64]], expected: &'static [u64]) {
    loom::model(move || {
        let (returns, alive) = (Arc::new(Returns::new()), Arc::default());
        let pushing = (1..).zip(threads).map(|(thread, marks)| {
            let (returns, alive) = (Arc::clone(&returns), Arc::clone(&alive));
            spawn(move || marks.iter().for_each(|&mark| returns.push(thread, Marked::new(mark, &alive))))
        });
        let pushing: Vec<_> = pushing.collect();
        let mut taken: Vec<u64> = returns.take().map(|node| node.mark).collect();
        pushing.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(taken.len() == expected.len() || !returns.is_empty(), "what is there shows");
        taken.extend(returns.take().map(|node| node.mark));
        assert_eq!(sorted(taken), expected);
        assert!(returns.is_empty());
        assert_eq!((returns.blocks(), returns.bytes(), alive.load(std::sync::atomic::Ordering::Relaxed)), (0, 0, 0));
    });
}

#[test]
fn one_thread_pushes_two() {
    check(&[&[1, 2]], &[1, 2]);
}

#[test]
fn two_threads_push_on_two_stacks() {
    check(&[&[1], &[2]], &[1, 2]);
}

#[test]
fn two_threads_push_on_one_stack() {
    // The first and the third thread share a stack.
    check(&[&[1], &[], &[3]], &[1, 3]);
}
