//! A function that runs at the end of a block, also if the block panics.

/// Calls its function when it is dropped.
#[must_use = "the function is called when this is dropped"]
pub struct Finally<F: FnMut()>(F);

/// Has `act` called when the returned value is dropped.
#[inline(always)]
pub fn finally<F: FnMut()>(act: F) -> Finally<F> {
    Finally(act)
}

impl<F: FnMut()> Drop for Finally<F> {
    #[inline(always)]
    fn drop(&mut self) {
        (self.0)();
    }
}
