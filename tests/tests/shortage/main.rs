//! Too little memory: who gives memory back for a request, who waits, and when an error is true. One program, whose tests take
//! turns (`gpucache_tests::turn`).
//!
//! | file | question |
//! |---|---|
//! | `given_back` | does all idle memory go back before an allocation fails? |
//! | `false_shortage` | is an out-of-memory error true? Random programs beside a model |
//! | `reclaimed` | are the reclaim steps counted for scopes and devices? |
//! | `messages` | whether the figures and the advice of errors are true |
//! | `in_turn` | two scopes of one thread that need more than the limit, in turn |
//! | `other_threads` | requests that wait for other threads |
//! | `pressed` | memory that is short all the time, on several threads |
//! | `revocation` | a plan's memory that is taken from a thread inside its scope |

mod false_shortage;
mod given_back;
mod in_turn;
mod messages;
mod other_threads;
mod pressed;
mod reclaimed;
#[cfg(target_os = "linux")]
mod revocation;
