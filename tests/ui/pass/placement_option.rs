//! Each value of `placement`, beside the other options.
#![deny(warnings)]
use std::future::Future;

use gpucache::{
    offload::{Placed, Placement},
    prelude::*,
};

#[cache_scope(auto, placement = "auto")]
fn auto(host: &Host) -> Placement {
    placed(host)
}

#[cache_scope("host", recycle = "keyed", placement = "host", limit = 1 << 20)]
fn on_host(host: &Host) -> Placement {
    placed(host)
}

#[cache_scope(placement = "device", name = "device")]
async fn on_device(host: &Host) -> Placement {
    placed(host)
}

fn placed(host: &Host) -> Placement {
    Placed::<u8, _>::zeros(host, 100).unwrap().placement()
}

pub(crate) fn main() {
    let host = Host::new();
    assert_eq!(auto(&host), Placement::Auto);
    assert_eq!(on_host(&host), Placement::Host);
    let mut future = std::pin::pin!(on_device(&host));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), std::task::Poll::Ready(Placement::Device));
    let inside = gpucache::cache_scope!(block, placement = "host", { placed(&host) });
    assert_eq!((inside, placed(&host)), (Placement::Host, Placement::Auto));
}
