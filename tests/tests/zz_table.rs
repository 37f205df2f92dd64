#![allow(clippy::unwrap_used, missing_docs)]
use gpucache::Recycle;
use gpucache_tests::survivors::Program;
/// FROM..TO
#[test]
fn table() {
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |n| n.parse().unwrap());
    let seeds: Vec<u64> = match std::env::var("SEEDS") {
        Ok(list) => list.split(',').map(|n| n.parse().unwrap()).collect(),
        Err(_) => (number("FROM", 0)..number("TO", 500)).collect(),
    };
    let mut all: Vec<(u64, f64, f64)> = seeds
        .into_iter()
        .map(|seed| {
            let program = Program::random(seed);
            let [auto, range] = [Recycle::Auto, Recycle::Range].map(|recycle| {
                let o = program.run(recycle);
                let _ = gpucache::invalidate(format!("survivors {recycle:?} {seed}"));
                o
            });
            (seed, auto.mean / range.mean, auto.peak as f64 / range.peak as f64)
        })
        .collect();
    let mean = |of: fn(&(u64, f64, f64)) -> f64| all.iter().map(of).sum::<f64>() / all.len() as f64;
    println!(
        "mean {:.4} peaks {:.4} above 1.3: {} above 1.15: {}",
        mean(|r| r.1),
        mean(|r| r.2),
        all.iter().filter(|r| r.1 > 1.3).count(),
        all.iter().filter(|r| r.1 > 1.15).count()
    );
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    println!(
        "{}",
        all.iter()
            .take(number("TOP", 40) as usize)
            .map(|r| format!("{}:{:.2}", r.0, r.1))
            .collect::<Vec<_>>()
            .join(" ")
    );
}
