//! The future of a scoped `async fn` is `Send` when its body is, with arrays alive across a suspension.
#![deny(warnings)]
use gpucache::prelude::*;
use std::cell::Cell;
use std::task::{Context, Poll, Waker};

#[cache_scope(literal)]
async fn literal(host: Host, cell: Cell<u32>) -> usize {
    let array = Array::<f32, _>::zeros(&host, 5).unwrap();
    std::future::ready(()).await;
    cell.set(array.len() as u32);
    array.len()
}

#[cache_scope(name = format!("computed{index}"))]
async fn computed(index: usize) -> usize {
    std::future::ready(index).await
}

async fn block(host: Host) -> usize {
    let len = gpucache::cache_scope!(block, { Array::<f32, _>::zeros(&host, 6).unwrap().len() });
    std::future::ready(len).await
}

fn on_another_thread<F: Future<Output = usize> + Send>(future: F) -> usize {
    std::thread::scope(|scope| {
        let run = || {
            let mut future = Box::pin(future);
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(output) => output,
                Poll::Pending => 0,
            }
        };
        scope.spawn(run).join().unwrap()
    })
}

pub(crate) fn main() {
    assert_eq!(on_another_thread(literal(Host::new(), Cell::new(0))), 5);
    assert_eq!(on_another_thread(computed(4)), 4);
    assert_eq!(on_another_thread(block(Host::new())), 6);
}
