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
    /// First, so that it ends within the span.
    #[cfg(feature = "cuda")]
    _range: Option<NvtxRange>,
    /// Who catches a panic of the scope's block sees nothing of the span that could be half done.
    _span: AssertUnwindSafe<InSpan>,
}

/// InSpan of a span until this is dropped. Not `tracing`'s own type, which stays on its thread as the guard does by itself: a mistake with
/// the guard would be told twice.
#[derive(Debug)]
struct InSpan(Span);

impl InSpan {
    fn of(span: Span) -> InSpan {
        span.with_subscriber(|(id, subscriber)| subscriber.enter(id));
        InSpan(span)
    }
}

impl Drop for InSpan {
    fn drop(&mut self) {
        assert_nothing_held();
        self.0.with_subscriber(|(id, subscriber)| subscriber.exit(id));
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
        Shown {
            #[cfg(feature = "cuda")]
            _range: NvtxRange::start(name),
            _span: AssertUnwindSafe(InSpan::of(span)),
        }
    }
}
