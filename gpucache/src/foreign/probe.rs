//! Whether calls of the driver come here, and by which way: asked by a call through cudarc.

use std::fmt;

use cudarc::driver::sys;

/// How the calls of other crates come to their scopes.
///
/// ```no_run
/// println!("{}", gpucache::foreign::status()?);
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Entrance {
    /// The program links the driver, as candle has it.
    Linked,
    /// The program loads the driver when it needs it, as cudarc does by default.
    Loaded,
}

impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Entrance::Linked => {
                "scopes serve what the driver is asked for: by the functions that the program is linked with"
            }
            Entrance::Loaded => {
                "scopes serve what the driver is asked for: by a library that was opened in front of it"
            }
        })
    }
}

/// What stands at the one address of a question, which no program gives twice.
const QUESTION: usize = 0x6770_7563;

/// The way by which a call of cudarc's comes here, if it does.
pub(super) fn arrival() -> Option<Entrance> {
    let mut answer = QUESTION;
    let place = &raw mut answer;
    // SAFETY: the driver writes two numbers one after the other, for which there is room.
    let _ = unsafe { sys::cuMemGetInfo_v2(place, place) };
    [Entrance::Linked, Entrance::Loaded].into_iter().find(|entrance| answer == QUESTION + 1 + *entrance as usize)
}

/// Answers a question of [`arrival`], which came by this way. Whether it was one.
pub(super) fn answer(question: &mut usize, entrance: Entrance) -> bool {
    let is_question = *question == QUESTION;
    if is_question {
        *question += 1 + entrance as usize;
    }
    is_question
}
