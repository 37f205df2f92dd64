//! Panics in code of the program that must not end the code that calls it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Calls code of the program. Returns the text of its panic, if there was one.
///
/// The caller and `act` share only such state as any code of the program may use after a panic.
pub(crate) fn panic_of(act: impl FnOnce()) -> Option<String> {
    let payload = catch_unwind(AssertUnwindSafe(act)).err()?;
    let text = panic_text(&*payload).to_owned();
    // The drop of the payload is code of the program as well, and may panic. The payload of that panic is leaked, since its drop might
    // panic again.
    let again = catch_unwind(AssertUnwindSafe(|| drop(payload)));
    std::mem::forget(again);
    Some(text)
}

/// The text of a panic's payload.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a value that is no text")
}

#[cfg(test)]
mod tests {
    use std::panic::{panic_any, resume_unwind};

    use super::panic_of;

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the payload of a panic is dropped");
        }
    }

    #[test]
    fn a_panic_is_told_by_its_text() {
        assert_eq!(panic_of(|| ()), None);
        assert_eq!(panic_of(|| panic!("no")).as_deref(), Some("no"));
        assert_eq!(panic_of(|| panic!("{} of 3", 2)).as_deref(), Some("2 of 3"));
        assert_eq!(panic_of(|| resume_unwind(Box::new(7))).as_deref(), Some("a value that is no text"));
    }

    #[test]
    fn a_payload_that_panics_when_it_is_dropped_does_no_harm() {
        assert_eq!(panic_of(|| panic_any(Bomb)).as_deref(), Some("a value that is no text"));
    }
}
