//! A page replays the run in the process that writes it. The statistics of the program stay its own.
#![allow(clippy::unwrap_used, missing_docs)]

use gpucache::device::Virtual;
use gpucache::{cache_scope, prelude::*, stats, trace};
use gpucache_report::{Run, page};

#[test]
fn a_page_leaves_no_scopes_behind() {
    let device = Virtual::new(1 << 30);
    trace::start(10_000);
    for _ in 0..10 {
        cache_scope!(paged, { drop(device.zeros::<u8>(1 << 20).unwrap()) });
    }
    let run = Run::from(&trace::stop());
    let mut text = Vec::new();
    page::write(&run, "mine", &mut text).unwrap();
    assert!(!text.is_empty());
    let names: Vec<String> = stats::process().scopes.iter().map(|scope| scope.name.to_string()).collect();
    assert_eq!(names, ["paged"]);
}
