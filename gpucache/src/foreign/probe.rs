//! Tests by a call through cudarc whether calls of the driver arrive here, and by which way.

use std::fmt;

use cudarc::driver::sys;

/// How the driver calls of other crates reach gpucache.
///
/// ```no_run
/// println!("{}", gpucache::foreign::status()?);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entrance {
    /// The program links the driver, as with candle.
    Linked,
    /// The program loads the driver at run time, as cudarc does by default.
    Loaded,
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entrance::Linked => {
                "scopes serve allocations that other crates request from the CUDA driver (linked into the program)"
            }
            Entrance::Loaded => {
                "scopes serve allocations that other crates request from the CUDA driver (loaded at run time)"
            }
        })
    }
}

/// The value at the address of a question. Only this crate's question passes one address for both results.
const QUESTION: usize = 0x6770_7563;

/// The way by which a call of cudarc arrives here; `None` if it does not.
pub(super) fn arrival() -> Option<Entrance> {
    let mut answer = QUESTION;
    let place = &raw mut answer;
    // SAFETY: the driver writes two numbers to this place, one after the other, and the place has room for a number.
    let _ = unsafe { sys::cuMemGetInfo_v2(place, place) };
    [Entrance::Linked, Entrance::Loaded].into_iter().find(|entrance| answer == QUESTION + 1 + *entrance as usize)
}

/// Answers a question of [`arrival`] that arrived by this way. Returns whether it was a question.
pub(super) fn answer(question: &mut usize, entrance: Entrance) -> bool {
    let is_question = *question == QUESTION;
    if is_question {
        *question += 1 + entrance as usize;
    }
    is_question
}
