//! How late work of the host ended that wrote a block, for whoever reads the block afterwards.
//!
//! One outcome stands for all that one piece of work was lent to be written. A block keeps that of the work that was put on a
//! stream last, so that it is of what the block will contain; it is known once that work is done.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::error::{Error, panic_text};
use crate::base::sync::OnceLock;

/// How work ended: with a failure, whose text this is, or well, or not yet.
#[derive(Default)]
pub struct Outcome(OnceLock<String>);

/// The text of the panic by which work failed.
pub struct Failure(String);

impl From<Failure> for Error {
    fn from(failure: Failure) -> Error {
        Error::panicked(failure.0)
    }
}

impl Outcome {
    /// Does the work, unless that returns the failure of other work before it began. A failure is kept here, and goes on as a
    /// panic for the stream to keep.
    pub fn settle(&self, work: impl FnOnce() -> Result<(), Failure>) {
        // What it leaves half done is lost to whoever asks for it.
        let failure: Box<dyn Any + Send> = match catch_unwind(AssertUnwindSafe(work)) {
            Ok(Ok(())) => return,
            Ok(Err(Failure(text))) => Box::new(text),
            Err(payload) => payload,
        };
        self.0.get_or_init(|| panic_text(&*failure).into());
        // Without a message: if there was a panic, it had one.
        resume_unwind(failure);
    }

    /// The failure, if there was one.
    pub fn check(&self) -> Result<(), Failure> {
        self.0.get().map_or(Ok(()), |text| Err(Failure(text.clone())))
    }
}
