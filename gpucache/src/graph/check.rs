//! Whether captured work uses only memory that a later launch may use.

use std::ops::Range;

use super::visitor::Operand;
use gpucache_engine::device::{Captured, Word};
use gpucache_engine::{Error, Result};

/// Looks at each address of the work: it has to lie in the memory of the scope's plans, or in an operand.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) if the work uses other memory.
pub(super) fn checked(
    captured: &Captured,
    words: &[Word],
    place: Option<&Range<u64>>,
    operands: &[Operand],
) -> Result<()> {
    if !captured.is_transparent() {
        return Err(Error::unavailable(
            "a graph",
            "the work has operations whose addresses cannot be read",
            "leave them out of the block, or use `run_unchecked`",
        ));
    }
    let check = |(number, word)| match flaw(captured, word, place, operands) {
        None => Ok(()),
        Some(what) => Err(unexpected(&captured.word_name(number), word, what)),
    };
    words.iter().enumerate().try_for_each(check)
}

/// Why a launch may not use the word, if it may not.
fn flaw(captured: &Captured, word: &Word, place: Option<&Range<u64>>, operands: &[Operand]) -> Option<&'static str> {
    let end = word.value.saturating_add(word.bytes);
    let is_planned = place.is_some_and(|place| place.contains(&word.value) && end <= place.end);
    if is_planned || word.value == 0 {
        return None;
    }
    let mut owners = operands.iter().filter(|operand| operand.holds(word));
    let is_any_written = owners.clone().any(|operand| operand.is_written);
    match owners.next() {
        Some(_) if !word.is_written || is_any_written => None,
        Some(_) => Some("an input that the block writes, but that is passed by `&`"),
        None => (word.is_address || captured.is_memory(word.value)).then_some("memory that is no input"),
    }
}

fn unexpected(user: &str, word: &Word, what: &str) -> Error {
    Error::unavailable(
        "a graph",
        format_args!("{user} is {what}, at {:#x}", word.value),
        "pass every array that the block uses to `run`, by `&mut` if the block writes it",
    )
}
