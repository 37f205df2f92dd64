//! The counts of the reclaim steps, for each scope and each device.
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used)]

use gpucache::device::Virtual;
use gpucache::prelude::*;
use gpucache::{
    Recycle, Scope, stats,
    stats::{ReclaimStats, ReclaimStep, StepUse},
};
use gpucache_tests::turn;

const PAGE: usize = 2 << 20;

fn limited(pages: usize) -> Virtual {
    let device = Virtual::new(1 << 40);
    device.set_limit((pages * PAGE) as u64).unwrap();
    device
}

fn keyed(device: &Virtual, name: &str, pages: usize) -> gpucache::Result<()> {
    Scope::new(name).recycle(Recycle::Keyed).run(|| device.zeros::<u8>(pages * PAGE).map(drop))
}

/// Three scopes on several threads, of which two fit. Their counts add up to the device's counts.
#[test]
fn the_scopes_of_a_device_count_together_what_it_counts() {
    let _turn = turn();
    let (device, names) = (limited(8), ["reclaim: one", "reclaim: two", "reclaim: three"]);
    for _ in 0..4 {
        std::thread::scope(|threads| {
            threads.spawn(|| names.iter().for_each(|name| keyed(&device, name, 4).unwrap())).join().unwrap();
        });
        names.iter().for_each(|name| keyed(&device, name, 3).unwrap());
    }
    assert!(keyed(&device, names[0], 9).is_err());
    let all = device.stats().reclaim;
    let each = names.map(|name| stats(name).unwrap().reclaim);
    let sum = |of: &dyn Fn(&ReclaimStats) -> u64| each.iter().map(of).sum::<u64>();
    assert!(all.shortages() > 10, "{all}");
    assert_eq!((sum(&ReclaimStats::shortages), sum(&|reclaim| reclaim.failed)), (all.shortages(), 1));
    for step in ReclaimStep::ALL {
        let StepUse { tried, served, freed_bytes, .. } = all.step(step);
        assert_eq!(sum(&|reclaim| reclaim.step(step).tried), tried, "{step}");
        assert_eq!(sum(&|reclaim| reclaim.step(step).served), served, "{step}");
        assert_eq!(sum(&|reclaim| reclaim.step(step).freed_bytes), freed_bytes, "{step}");
    }
    assert!(each[0].to_string().contains("1 of them errors"), "{}", each[0]);
    names.iter().for_each(|name| _ = invalidate(name));
}

/// A cache that goes to another name begins anew. The forgotten name keeps its counts if other threads have it.
#[test]
fn a_name_that_is_forgotten_takes_its_counts_along() {
    let _turn = turn();
    let device = limited(8);
    std::thread::scope(|threads| {
        let (told, asked) = std::sync::mpsc::channel::<()>();
        threads.spawn({
            let device = &device;
            move || {
                Scope::new("reclaim: kept").run(|| device.zeros::<u8>(1).unwrap());
                asked.recv().unwrap();
            }
        });
        threads
            .spawn(|| {
                assert!(keyed(&device, "reclaim: kept", 9).is_err());
                (0..4000).for_each(|number| keyed(&device, &format!("reclaim: many {number}"), 0).unwrap());
            })
            .join()
            .unwrap();
        let many = (0..4000).filter_map(|number| stats(format!("reclaim: many {number}")));
        assert!(many.map(|stats| stats.reclaim.shortages()).all(|begun| begun == 0));
        assert_eq!(stats("reclaim: kept").unwrap().reclaim.failed, 1);
        told.send(()).unwrap();
    });
    assert!(stats("reclaim: never entered").is_none());
    let _ = gpucache::invalidate_all();
}
