//! The errors of texts that are no limits, for calls that cannot return them at once.

use super::{FORMS, Limit, LimitKind};
use crate::base::error::Error;
use crate::base::sync::{LazyLock, Mutex, lock};

/// The number of different errors that are kept. A program has few wrong texts. Texts beyond these have an error that does not quote them.
const MOST_ERRORS: usize = 64;

static ERRORS: LazyLock<Mutex<Vec<Error>>> = LazyLock::new(Mutex::default);

/// A limit of no bytes that stands for this error. Its amount is the place of the error in the list.
#[cold]
pub(super) fn keep(error: Error) -> Limit {
    let (mut errors, text) = (lock(&ERRORS), error.to_string());
    let place = errors.iter().position(|known| known.to_string() == text).unwrap_or(errors.len());
    if place == errors.len() && place < MOST_ERRORS {
        errors.push(error);
    }
    if place < MOST_ERRORS { Limit { amount: place as u64, kind: LimitKind::Invalid } } else { Limit::INVALID }
}

/// The error that a limit stands for.
#[cold]
pub(super) fn error(place: u64) -> Error {
    let errors = lock(&ERRORS);
    let kept = usize::try_from(place).ok().and_then(|place| errors.get(place)?.again());
    kept.unwrap_or_else(|| Error::unavailable("this limit", "it is neither bytes nor a share from 0% to 100%", FORMS))
}
