//! An entry of a scope as other tools show it: a span of the crate `tracing`, and with CUDA an NVTX range.

use std::panic::AssertUnwindSafe;

use tracing::Span;

use gpucache_engine::base::held::assert_nothing_held;
use gpucache_engine::base::subscriber::{TARGET, is_heard};
#[cfg(feature = "cuda")]
use gpucache_engine::device::NvtxRange;

/// What the calling thread is in until this is dropped. A subscriber is told before the scope is entered, and once it is left.
#[derive(Debug)]
pub(super) struct Shown {
    #[cfg(feature = "cuda")]
    range: Option<NvtxRange>,
    /// Entered without `tracing`'s own guard, which stays on its thread as the scope's guard does by itself: a mistake with that would be
    /// told twice. Who catches a panic of the scope's block sees nothing of the span that could be half done.
    span: AssertUnwindSafe<Span>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        // It ends within the span.
        #[cfg(feature = "cuda")]
        drop(self.range.take());
        assert_nothing_held();
        self.span.with_subscriber(|(id, subscriber)| subscriber.exit(id));
    }
}

impl Shown {
    /// Shows an entry of the scope of this name; `None`, after a load for each, where neither a subscriber nor the library of
    /// ranges is there.
    #[inline]
    pub(super) fn begin(name: &str) -> Option<Shown> {
        #[cfg(feature = "cuda")]
        let is_seen = is_heard() || NvtxRange::is_there();
        #[cfg(not(feature = "cuda"))]
        let is_seen = is_heard();
        is_seen.then(|| Shown::begin_heard(name))
    }

    #[inline(never)]
    fn begin_heard(name: &str) -> Shown {
        assert_nothing_held();
        let span = tracing::debug_span!(target: TARGET, "gpucache.scope", scope = name);
        #[cfg(feature = "cuda")]
        let range = NvtxRange::start(name);
        span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        Shown {
            #[cfg(feature = "cuda")]
            range,
            span: AssertUnwindSafe(span),
        }
    }
}
