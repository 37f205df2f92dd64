//! A body can neither see nor shadow names of the macros, whatever names it uses itself.
#![deny(warnings)]

const _GUARD: u8 = 0;

mod shadowing {
    use ::gpucache::prelude::cache_scope;

    pub(crate) mod core {}
    pub(crate) mod std {}
    pub(crate) mod gpucache {}

    #[cache_scope(shadowed)]
    pub(crate) fn plain(_guard: u32) -> u32 {
        drop(_guard);
        let _guard = _guard + 1;
        _guard * 2
    }

    #[cache_scope(name = name)]
    pub(crate) async fn future(name: &str, future: u32, context: u32, fake: u32) -> u32 {
        let _guard = future + context + fake;
        _guard + name.len() as u32
    }

    fn drop<T>(_: T) {}
}

#[no_implicit_prelude]
mod bare {
    use ::gpucache::prelude::cache_scope;

    #[cache_scope(bare)]
    pub(crate) fn plain() -> u8 {
        ::gpucache::cache_scope!(bare, { 1 })
    }

    #[cache_scope(name = "ba".to_owned() + "re")]
    pub(crate) async fn future() -> u8 {
        2
    }

    use ::std::borrow::ToOwned;
}

fn run<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    loop {
        if let std::task::Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
    }
}

pub(crate) fn main() {
    let _guard = 1;
    let seen = gpucache::cache_scope!(shadowed, { _guard + 1 });
    assert_eq!((_guard, seen), (1, 2));
    assert_eq!(shadowing::plain(3), 8);
    assert_eq!(run(shadowing::future("shadowed", 1, 2, 3)), 14);
    assert_eq!((bare::plain(), run(bare::future())), (1, 2));
    assert_eq!(gpucache::stats("shadowed").unwrap().entries, 3);
    assert_eq!(gpucache::stats("bare").unwrap().entries, 3);
    assert_eq!(_GUARD, 0);
}
