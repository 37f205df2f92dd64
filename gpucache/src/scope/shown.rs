//! An entry of a scope for other tools: a span of the crate `tracing`, and with CUDA an NVTX range.

use std::panic::AssertUnwindSafe;

use tracing::Span;

use gpucache_engine::base::held::assert_nothing_held;
use gpucache_engine::base::subscriber::{TARGET, calm, is_heard};
#[cfg(feature = "cuda")]
use gpucache_engine::device::NvtxRange;

/// The span and the range of an entry, until this is dropped. A subscriber hears of it before the scope is entered and after it is left.
#[derive(Debug)]
pub(super) struct Shown {
    /// First, so that it ends within the span.
    #[cfg(feature = "cuda")]
    _range: Option<NvtxRange>,
    /// Unwind-safe, since code that catches a panic of the block cannot see the span half done.
    _span: AssertUnwindSafe<InSpan>,
}

/// Keeps the thread in a span until it is dropped. It replaces `tracing`'s own guard, which is not `Send` either: a mistake with our guard
/// would give two messages.
#[derive(Debug)]
struct InSpan(Span);

impl InSpan {
    fn of(name: &str) -> InSpan {
        let mut span = Span::none();
        calm(|| span = tracing::debug_span!(target: TARGET, "gpucache.scope", scope = name));
        calm(|| _ = span.with_subscriber(|(id, subscriber)| subscriber.enter(id)));
        InSpan(span)
    }
}

impl Drop for InSpan {
    fn drop(&mut self) {
        assert_nothing_held();
        let span = std::mem::replace(&mut self.0, Span::none());
        calm(|| _ = span.with_subscriber(|(id, subscriber)| subscriber.exit(id)));
        // The subscriber hears of the end of the span too.
        calm(|| drop(span));
    }
}

impl Shown {
    /// Shows an entry of the scope of this name. `None`, after one load each, if there is neither a subscriber nor the library of ranges.
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
        Shown {
            #[cfg(feature = "cuda")]
            _range: NvtxRange::start(name),
            _span: AssertUnwindSafe(InSpan::of(name)),
        }
    }
}
