//! The outcome of late host work that wrote a block, for later readers of the block.
//!
//! One outcome stands for all blocks that one piece of work borrowed to write. A block keeps the outcome of the last such work that was put
//! on a stream, so the outcome is that of the block's future contents. It is known once the work is done.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::panics::panic_text;
use crate::base::sync::OnceLock;

/// The outcome of work: the text of its failure, or none if it succeeded or is not done yet.
#[derive(Default)]
pub struct Outcome(OnceLock<String>);

impl Outcome {
    /// Does the work. If an array that the work reads has failed, `work` returns the text of that failure at its beginning. A failure is kept here, and
    /// continues as a panic so that the stream keeps it too.
    pub fn settle(&self, work: impl FnOnce() -> Result<(), String>) {
        // Readers of the outcome get the failure, so none of them sees a half-written result.
        let failure: Box<dyn Any + Send> = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(text)) => Box::new(text),
            Err(payload) => payload,
        };
        self.0.get_or_init(|| panic_text(&*failure).into());
        // This prints no message: if there was a panic, it has printed one.
        resume_unwind(failure);
    }

    /// The text of the failure, if there was one.
    pub fn check(&self) -> Result<(), String> {
        self.0.get().map_or(Ok(()), |text| Err(text.clone()))
    }
}
