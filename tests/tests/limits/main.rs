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
#![allow(clippy::unwrap_used)]

mod device_limits;
mod limit_idle;
mod process_limit;
mod scope_limits;
mod soft_limits;
mod texts;

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{Recycle, Scope, stats};

const PAGE: usize = 2 << 20;

/// Sets the limit of the process until it is dropped.
struct Limited;

impl Limited {
    fn to(pages: usize) -> Limited {
        gpucache::device::set_process_limit((pages * PAGE) as u64).unwrap();
        Limited
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        gpucache::device::set_process_limit(u64::MAX).unwrap();
    }
}

/// Leaves this many pages idle in a scope, in arrays of one page.
fn leave_idle(device: &Virtual, name: &str, pages: usize) {
    Scope::new(name).recycle(Recycle::Keyed).run(|| {
        drop((0..pages).map(|_| device.zeros::<u8>(PAGE).unwrap()).collect::<Vec<_>>());
    });
}

fn idle_pages(name: &str) -> usize {
    stats(name).unwrap().idle_bytes as usize / PAGE
}

fn held_pages(device: &Virtual) -> usize {
    device.memory().bytes as usize / PAGE
}
