//! Handles that mean another stream on each thread. No work is put on such a handle itself, and it has no memory: whatever is
//! allocated or used by it is, by the stream that it means on the calling thread.

use super::Stream;
use crate::base::error::Result;

/// Finds the calling thread's stream.
pub(super) type Find = fn(&Stream) -> Result<Stream>;

impl Stream {
    /// Lets `find` say which stream this means on each thread. Only for one that nobody else has yet.
    #[cfg(feature = "cuda")]
    pub(in crate::device) fn by_thread(mut self, find: Find) -> Stream {
        if let Some(state) = std::sync::Arc::get_mut(&mut self.0) {
            state.by_thread = Some(find);
        }
        self.tell(&Default::default());
        self
    }

    /// The stream that it means on the calling thread, if that is another one on each.
    ///
    /// # Errors
    /// Where the thread has none, as it is about to end.
    #[doc(hidden)]
    #[inline]
    pub fn here(&self) -> Result<Option<Stream>> {
        self.0.by_thread.map_or(Ok(None), |find| find(self).map(Some))
    }
}
