//! `self::NAME` begins with the path of the current module.
#![deny(warnings)]
use gpucache::prelude::*;
use std::task::{Context, Poll, Waker};

mod left {
    use super::*;

    #[cache_scope(self::step)]
    pub fn step() {}

    pub const NAME: &str = concat!(module_path!(), "::step");
}

mod right {
    use super::*;

    #[cache_scope(self::step, recycle = "keyed")]
    pub async fn step() {
        gpucache::cache_scope!(self::r#loop, { inner() });
    }

    fn inner() {
        gpucache::Scope::new(concat!(module_path!(), "::value")).run(|| ());
    }
}

#[cache_scope(step)]
fn step() {
    gpucache::cache_scope!(self::step, {});
}

pub(crate) fn main() {
    step();
    left::step();
    let ready = std::pin::pin!(right::step()).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(ready, Poll::Ready(()));
    let root = module_path!();
    assert_eq!(left::NAME, format!("{root}::left::step"));
    let ends = ["step", "left::step", "right::step", "right::loop", "right::value"];
    let names = ends.map(|end| format!("{root}::{end}"));
    for name in names.iter().map(String::as_str).chain(["step"]) {
        assert_eq!(gpucache::stats(name).unwrap().entries, 1, "{name}");
    }
    assert_eq!(gpucache::scopes().len(), 6);
}
