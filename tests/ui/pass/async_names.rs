//! An `async fn` computes its name once, from parameters that then move into the future.
#![deny(warnings)]
use gpucache::prelude::*;
use std::cell::Cell;
use std::task::{Context, Poll, Waker};

struct Layer {
    name: String,
}

impl Layer {
    #[cache_scope(name = self.name)]
    async fn forward(&self) -> usize {
        self.name.len()
    }

    #[cache_scope(name = self.name)]
    async fn consume(self) -> String {
        self.name
    }
}

#[cache_scope(name = label)]
async fn moved(label: String) -> String {
    label
}

#[cache_scope(name = { count.set(count.get() + 1); "counted" })]
async fn counted(count: &Cell<u32>) -> u32 {
    let mut suspended = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut suspended, true) { Poll::Ready(()) } else { Poll::Pending })
        .await;
    count.get()
}

fn run<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}

pub(crate) fn main() {
    let layer = Layer { name: "layer".to_owned() };
    assert_eq!(run(layer.forward()), 5);
    assert_eq!(run(layer.consume()), "layer");
    assert_eq!(run(moved("moved".to_owned())), "moved");
    let count = Cell::new(0);
    assert_eq!(run(counted(&count)), 1);
    assert_eq!(gpucache::stats("layer").unwrap().polls, 2);
    assert_eq!(gpucache::stats("moved").unwrap().polls, 1);
    assert_eq!(gpucache::stats("counted").unwrap().entries, 1, "however often it is polled");
    assert_eq!(gpucache::stats("counted").unwrap().polls, 2);
}
