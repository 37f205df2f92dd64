//! Methods that are `async`, with each receiver, in traits, generic and unsafe.
#![deny(warnings)]
use gpucache::prelude::*;
use std::task::{Context, Poll, Waker};

struct Model {
    weights: Array<f32, Host>,
}

impl Model {
    #[cache_scope(by_reference)]
    async fn sum(&self) -> f32 {
        self.weights.iter().sum()
    }

    #[cache_scope(by_mutable)]
    async fn first(&mut self) -> &mut f32 {
        self.weights[1] = 4.0;
        &mut self.weights[0]
    }

    #[cache_scope(by_value)]
    async fn into_weights(mut self) -> Array<f32, Host> {
        self.weights[2] = 5.0;
        self.weights
    }
}

trait Step {
    #[allow(async_fn_in_trait)]
    #[cache_scope(default_method)]
    async fn step(&self) -> usize {
        self.count().await + 1
    }

    fn count(&self) -> impl Future<Output = usize>;
}

impl Step for Model {
    #[cache_scope(implementation)]
    async fn count(&self) -> usize {
        self.weights.len()
    }
}

#[cache_scope(generic)]
async fn generic<T, F>(make: impl Fn() -> F) -> Vec<T>
where
    F: Future<Output = T>,
{
    vec![make().await, make().await]
}

/// # Safety
/// `pointer` is valid for reads while the future lives.
#[cache_scope(unsafe_function)]
async unsafe fn read(pointer: *const u8) -> u8 {
    unsafe { *pointer }
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
    let mut model = Model { weights: Array::full(&Host::new(), 3, 1.0).unwrap() };
    *run(model.first()) = 2.0;
    assert_eq!(run(model.sum()), 7.0);
    assert_eq!(run(model.step()), 4);
    assert_eq!(&run(model.into_weights())[..], [2.0, 4.0, 5.0]);
    assert_eq!(run(generic(|| std::future::ready(1))), [1, 1]);
    assert_eq!(run(unsafe { read(&7) }), 7);
    for name in
        ["by_reference", "by_mutable", "by_value", "default_method", "implementation", "generic", "unsafe_function"]
    {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
}
