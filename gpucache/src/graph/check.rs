//! Whether captured work uses only memory that a later launch may use.

use super::visitor::Operand;
use gpucache_engine::cache::Place;
use gpucache_engine::device::{Captured, Word};
use gpucache_engine::{Error, Result};

/// Looks at each address of the work: it has to lie in the memory of the scope's plans, or in an operand.
///
/// # Errors
/// [`is_unavailable`](Error::is_unavailable) if the work uses other memory.
pub(super) fn checked(captured: &Captured, words: &[Word], place: Option<Place>, operands: &[Operand]) -> Result<()> {
    if !captured.is_transparent() {
        return Err(Error::unavailable(
            "a graph",
            "the work has operations whose addresses cannot be read",
            "leave them out of the block, or use `run_unchecked`",
        ));
    }
    words.iter().try_for_each(|word| check(captured, word, place, operands))
}

fn check(captured: &Captured, word: &Word, place: Option<Place>, operands: &[Operand]) -> Result<()> {
    let is_planned = place.is_some_and(|place| word.value.wrapping_sub(place.address) < place.bytes);
    if is_planned || word.value == 0 {
        return Ok(());
    }
    let mut owners = operands.iter().filter(|operand| operand.contains(word.value));
    let is_any_written = owners.clone().any(|operand| operand.is_written);
    match owners.next() {
        Some(_) if !word.is_written || is_any_written => Ok(()),
        Some(_) => Err(unexpected(word, "writes an input that is borrowed shared")),
        None if word.is_address || captured.is_memory(word.value) => {
            Err(unexpected(word, "uses memory that is no input"))
        }
        None => Ok(()),
    }
}

fn unexpected(word: &Word, what: &str) -> Error {
    Error::unavailable(
        "a graph",
        format_args!("the block {what}, at {:#x}", word.value),
        "pass every array that the block uses to `run`, by `&mut` if the block writes it",
    )
}
