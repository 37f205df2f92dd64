//! Too little memory: what is given back for a request, who waits, and when an error is true. One program, whose tests take turns
//! (`gpucache_tests::turn`).
//!
//! | file | what it asks |
//! |---|---|
//! | `given_back` | whether all that is idle or about to be goes back before an allocation fails |
//! | `false_shortage` | whether an out-of-memory error is true, by random programs beside a model |
//! | `reclaimed` | whether the reclaim steps are counted for scopes and devices |
//! | `in_turn` | two scopes of one thread that need more than the limit, in turn |
//! | `other_threads` | requests that wait for other threads |
//! | `pressed` | memory that is short all the time, on several threads |
//! | `revocation` | a plan's memory that is taken from a thread inside its scope |

mod false_shortage;
mod given_back;
mod in_turn;
mod other_threads;
mod pressed;
mod reclaimed;
#[cfg(target_os = "linux")]
mod revocation;
