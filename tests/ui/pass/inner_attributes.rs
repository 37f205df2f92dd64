//! Attributes inside a body keep their place at its head.
#![deny(warnings)]
use gpucache::prelude::*;

#[cache_scope(inner)]
fn inner() -> u32 {
    #![allow(unused_variables)]
    //! Documentation inside.
    let unused = 1;
    2
}

#[cache_scope(inner)]
async fn inner_async() -> u32 {
    #![allow(unused_variables)]
    let unused = 1;
    3
}

pub(crate) fn main() {
    let value = {
        gpucache::cache_scope!(
            inner,
            {
                #![allow(unused_variables)]
                let unused = 1;
                4
            }
        )
    };
    let mut future = std::pin::pin!(inner_async());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert_eq!(future.as_mut().poll(&mut context), std::task::Poll::Ready(3));
    assert_eq!((inner(), value), (2, 4));
    assert_eq!(gpucache::stats("inner").unwrap().entries, 3);
}
