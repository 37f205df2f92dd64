//! Handles of a stream that only say that its work uses some memory.

use std::ops::Deref;
use std::sync::Arc;

use super::Stream;
use crate::base::sync::lock;

/// A handle of a stream whose work uses memory. No work is put on the stream by way of it.
pub(crate) struct User(Stream);

impl User {
    pub(crate) fn of(stream: &Stream) -> User {
        let mut users = lock(&stream.0.users);
        *users += 1;
        User(stream.clone())
    }

    /// Whether the stream gets no more work: it has no other handles than those of this kind. The count changes under a lock, so it is
    /// exact while other threads make and drop such handles.
    pub(crate) fn is_all(&self) -> bool {
        let state = &self.0.0;
        let users = lock(&state.users);
        // Work of a reservation, or of the stream of each thread, comes by way of other handles.
        let is_plain = state.reserved.is_none() && state.by_thread.is_none();
        is_plain && Arc::strong_count(state) == *users && !state.backend.is_held_elsewhere()
    }
}

impl Deref for User {
    type Target = Stream;

    fn deref(&self) -> &Stream {
        &self.0
    }
}

impl Drop for User {
    fn drop(&mut self) {
        *lock(&self.0.0.users) -= 1;
    }
}
