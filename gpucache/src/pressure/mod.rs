//! What is done where memory is short, or might be: who can give some back, how much is likely to be needed again, and in which
//! order it is asked for. Knows no cache: whoever holds memory is a [`Holder`](reclaim::Holder), registered when it has some.
//!
//! A request that the device refuses comes to [`shortage::insist`]: idle memory of all holders goes back
//! ([`reclaim::release_idle`]), then pages that nothing lies in, and at last the arenas of threads that are inside their
//! scopes, if nothing in them is alive ([`reclaim::revoke`]). A failure that is returned is a true one: what was on
//! its way meanwhile ([`transit`]) has the request made again.
//!
//! | file | its one matter |
//! |---|---|
//! | `shortage` | the steps of a request that ran out of memory |
//! | `reclaim` | who holds memory, and how idle memory is had from all of them; [`trim`] |
//! | `demand` | how much of each device is likely to be needed again |
//! | `limit` | how much may stay idle: [`limit_idle`] |
//! | `lease` | how an arena is taken from a thread that is inside, without a lock on its side |
//! | `barrier` | a barrier that costs one side nothing |
//! | `transit` | arenas that are found neither with the range nor with a holder |

pub(crate) mod demand;
pub(crate) mod lease;
pub(crate) mod limit;
pub(crate) mod reclaim;
pub(crate) mod shortage;
pub(crate) mod transit;

mod barrier;

pub use limit::limit_idle;
pub use reclaim::trim;
