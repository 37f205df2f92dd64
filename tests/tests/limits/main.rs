//! Limits in bytes: how much may be reserved, what is freed first, and what is refused. This is one program, whose tests take turns
//! (`gpucache_tests::turn`).
//!
//! | file | the limit |
//! |---|---|
//! | `device_limits` | of a device |
//! | `limit_idle` | of idle memory on a device |
//! | `process_limit` | of all devices together |
//! | `scope_limits` | of a scope on each thread |
//! | `soft_limits` | limits that refuse nothing, and shares of a device |

mod device_limits;
mod limit_idle;
mod process_limit;
mod scope_limits;
mod soft_limits;
