#![allow(clippy::unwrap_used, missing_docs)]
use gpucache::Recycle;
use gpucache::device::Device;
use gpucache_tests::survivors::Program;
#[test]
fn show() {
    for seed in std::env::var("SHOW").unwrap().split(',').map(|n| n.parse::<u64>().unwrap()) {
        let program = Program::random(seed);
        let range = program.run(Recycle::Range);
        println!(
            "{seed}: range {:.3} peak {} alive {} MiB {} entries",
            range.mean / range.alive as f64,
            range.peak >> 20,
            range.alive >> 20,
            program.entries()
        );
        let every = std::env::var("EVERY").map_or(program.entries() / 24, |n| n.parse().unwrap());
        let mib = |bytes: u64| bytes as f64 / 1048576.0;
        let mut last = 0;
        let mut most = 0;
        program.run_with(Recycle::Auto, |entry, device, scope, alive| {
        let reserved = device.memory().bytes;
        let p = scope.plan_stats().unwrap();
        most = most.max(alive);
        if entry % every == 0 || (reserved > last + last / 12) {
            last = reserved;
            let stats = scope.stats().unwrap();
            println!("{entry:5} res {:7.1} alive {:7.1} peak {:7.1} busy {:7.1} idle {:7.1} plans {} pos {} arena {:7.1} inplan {:7.1} car {} aside {} pl {} li {} dev {:?} {:?}",
                mib(reserved), mib(alive), mib(stats.high_water_bytes), mib(stats.busy_bytes), mib(stats.idle_bytes), p.plans, p.positions, mib(p.arena_bytes), mib(stats.planned.bytes), p.carried, p.aside, p.planned, p.listed, (p.deviations.extra,p.deviations.missing,p.deviations.blocked), p.unplanned);
        }
    });
        let again = program.run(Recycle::Auto);
        println!("again {:.3}", again.mean / range.mean);
    }
}
