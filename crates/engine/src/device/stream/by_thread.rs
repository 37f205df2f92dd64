//! Handles that stand for a different stream on each thread. These handles have no work and no memory of their own. An allocation or a use
//! through one of them goes to the stream of the calling thread.

use super::Stream;
use crate::base::error::Result;

/// Finds the calling thread's stream.
pub(super) type Find = fn(&Stream) -> Result<Stream>;

impl Stream {
    /// Makes `find` return the stream of each thread. The handle must not have been cloned yet.
    #[cfg(feature = "cuda")]
    pub(in crate::device) fn by_thread(mut self, find: Find) -> Stream {
        if let Some(state) = std::sync::Arc::get_mut(&mut self.0) {
            state.by_thread = Some(find);
        }
        self.tell(&Default::default());
        self
    }

    /// The calling thread's stream, if this handle stands for a different stream on each thread.
    ///
    /// # Errors
    /// If the thread has no stream because it is ending.
    #[doc(hidden)]
    #[inline]
    pub fn here(&self) -> Result<Option<Stream>> {
        self.0.by_thread.map_or(Ok(None), |find| find(self).map(Some))
    }
}
