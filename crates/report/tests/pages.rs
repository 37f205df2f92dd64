//! A replay of a host's trace has pages of the host's size, and so reserves exactly what the host reserved.
#![allow(clippy::unwrap_used, missing_docs)]

use std::num::NonZeroUsize;

use gpucache::{cache_scope, prelude::*, trace};
use gpucache_report::Run;
use gpucache_report::replay::{History, Policy, dry_run};

/// Many small arrays of growing sizes: with pages of 2 MiB the program would reserve far more.
fn step(host: &Host, entry: usize) -> gpucache::Result<()> {
    let kept: Vec<_> = (1..30).map(|size| host.zeros::<f32>(size * (100 + entry))).collect::<Result<_, _>>()?;
    let outer = host.zeros::<u8>(40_000)?;
    cache_scope!(inner, { drop(host.zeros::<u8>(100_000 + entry)?) });
    drop((kept, outer));
    Ok(())
}

#[test]
fn a_replay_of_a_host_reserves_what_the_host_reserved() {
    let host = Host::new();
    let before = host.memory().bytes;
    trace::start(100_000);
    for entry in 0..60 {
        cache_scope!(steps, { step(&host, entry) }).unwrap();
    }
    let run = Run::from(&trace::stop());
    let reserved = run.reserved.iter().map(|reserved| reserved.bytes).max().unwrap() - before;
    let history = History::of("host", &run).unwrap();
    let once = |limit| dry_run(&history, Policy::Auto, limit, NonZeroUsize::MIN).unwrap();
    assert_eq!(once(None).peak_reserved_bytes, reserved);
    assert_eq!(once(Some(reserved)).out_of_memory, 0);
    let gpu = history.clone().with_page_bytes(2 << 20);
    let of_gpu = dry_run(&gpu, Policy::Auto, None, NonZeroUsize::MIN).unwrap();
    assert!(of_gpu.peak_reserved_bytes > reserved);
}
