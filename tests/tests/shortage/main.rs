//! Too little memory: which memory is freed for a request, which thread waits, and when an error is true. This is one program, whose tests
//! take turns (`gpucache_tests::turn`).
//!
//! | file | its question |
//! |---|---|
//! | `given_back` | whether all memory that is idle or about to be is freed before an allocation fails |
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
