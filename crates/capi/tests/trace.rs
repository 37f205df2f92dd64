//! A trace of two threads that work in the name of one caller: one order, and one scope.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::mpsc::channel;

use gpucache::trace::{self, Action};
use gpucache_capi::{allocate, enter, free, leave};

/// The host.
const DEVICE: i32 = -1;

#[test]
fn a_backward_pass_is_in_the_order_and_the_scope_of_its_program() {
    let (ask, asked) = channel::<u64>();
    let (answer, answered) = channel();
    let work = move || {
        for address in asked {
            let gradient = allocate(8192, DEVICE, 0).unwrap();
            free(address).unwrap();
            free(gradient).unwrap();
            answer.send(()).unwrap();
        }
    };
    std::thread::Builder::new().name("pt_autograd_0".into()).spawn(work).unwrap();
    trace::start(100_000);
    for _ in 0..50 {
        let entry = enter("step").unwrap();
        for _ in 0..20 {
            let activation = allocate(4096, DEVICE, 0).unwrap();
            free(allocate(2048, DEVICE, 0).unwrap()).unwrap();
            ask.send(activation).unwrap();
            answered.recv().unwrap();
        }
        leave(entry).unwrap();
    }
    let mut live = HashMap::new();
    for event in trace::stop().events {
        match event.action {
            Action::Allocated => {
                assert!(live.insert(event.address, event.bytes).is_none(), "an address is allocated twice");
                assert_eq!(event.scope.as_deref(), Some("step"));
            }
            Action::Freed => assert!(live.remove(&event.address).is_some(), "freed before it was allocated"),
            _ => {}
        }
        assert!(live.values().sum::<u64>() <= 4096 + 8192);
    }
}
