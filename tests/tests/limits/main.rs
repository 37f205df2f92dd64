//! Limits in bytes: what a limit allows, which memory is reclaimed first, and which requests fail. All files are one program, whose
//! tests take turns (`gpucache_tests::turn`).
//!
//! | file | the limit |
//! |---|---|
//! | `device_limits` | of a device |
//! | `limit_idle` | of idle memory on a device |
//! | `process_limit` | of all devices together |
//! | `scope_limits` | of a scope on each thread |
//! | `soft_limits` | one that refuses nothing, and shares of a device |
//! | `texts` | of all kinds, as bytes and as texts; limits that cannot hold |

mod device_limits;
mod limit_idle;
mod process_limit;
mod scope_limits;
mod soft_limits;
mod texts;
