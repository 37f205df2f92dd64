//! Parameters that only the name uses count as used. Parameters that nothing uses still cause a warning (`ui/compiler/unused_parameter`).
#![deny(warnings)]
use gpucache::prelude::*;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

struct Layer(String);

#[cache_scope(name = label)]
async fn label(label: &str) {}

#[cache_scope(name = label)]
async fn owned(label: String) -> usize {
    1
}

#[cache_scope(name = format!("{prefix} of {:>width$} and {}", index, pair.1.0, width = width))]
async fn formatted(prefix: &str, index: u32, width: usize, pair: (u32, Layer)) {}

#[cache_scope(name = format!("{first}{second:?}"))]
async fn inlined<T: AsRef<str> + std::fmt::Display>((first, second): (T, u32), [_, .., third]: [u32; 3]) -> u32 {
    third
}

#[cache_scope(name = { let r#type = format!("{}", r#type); r#type })]
async fn raw(r#type: u32) {}

/// An attribute of a parameter stays with it.
#[cache_scope(name = label)]
async fn attributed(#[allow(unused_mut)] mut label: String) {}

#[cache_scope(name = label)]
fn boxed<'a>(label: &'a str) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(async move {})
}

#[async_trait::async_trait]
trait Step {
    async fn step(&self, label: &str, index: u32) -> u32;
    async fn named(&self);
}

#[async_trait::async_trait]
impl Step for Layer {
    #[cache_scope(name = format!("{}{label}", index))]
    async fn step(&self, label: &str, index: u32) -> u32 {
        2
    }

    #[cache_scope(name = self.0)]
    async fn named(&self) {}
}

fn run<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

pub(crate) fn main() {
    run(label("label"));
    assert_eq!(run(owned("owned".to_owned())), 1);
    run(formatted("layer", 7, 2, (0, Layer("x".to_owned()))));
    assert_eq!(run(inlined(("inlined", 3), [1, 2, 4])), 4);
    run(raw(5));
    run(attributed("attributed".to_owned()));
    run(boxed("boxed"));
    let layer = Layer("named".to_owned());
    assert_eq!(run(layer.step("step", 3)), 2);
    run(layer.named());
    for name in ["label", "owned", "layer of  7 and x", "inlined3", "5", "attributed", "boxed", "3step", "named"] {
        assert_eq!(gpucache::stats(name).map(|stats| stats.entries), Some(1), "{name}");
    }
}
