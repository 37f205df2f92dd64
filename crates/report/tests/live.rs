//! A live trace and its file, packed or not, give the same output in each format, and the same figures in a replay.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::time::Duration;

use flate2::{Compression, write::GzEncoder};
use gpucache::device::Virtual;
use gpucache::{cache_scope, prelude::*, trace};
use gpucache_report::replay::{Figures, History, Policy, dry_run, smallest_limit};
use gpucache_report::{Op, Run, perfetto, prometheus, rmm, snapshot};

type Format = fn(&Run, &mut Vec<u8>) -> io::Result<()>;

const FORMATS: [(&str, Format); 5] = [
    ("pickle", |run, to| snapshot::write_pickle(run, to)),
    ("snapshot", |run, to| snapshot::write_json(run, to)),
    ("perfetto", |run, to| perfetto::write(run, to)),
    ("rmm", |run, to| rmm::write(run, to)),
    ("prometheus", |run, to| prometheus::write(run, to)),
];

/// A run with every kind of event, on two threads, with names that need escapes in a file.
fn traced() -> trace::Trace {
    trace::start(10_000);
    let (host, small) = (Host::new(), Virtual::new(2 << 20));
    let kept = host.zeros::<f64>([7, 3, 2]).unwrap();
    for _ in 0..20 {
        cache_scope!(name = "train, \"step\" 100%\n", {
            let outer = host.zeros::<f32>([32, 64]).unwrap();
            cache_scope!(inner, { drop(host.zeros::<u8>(100_000).unwrap()) });
            assert!(small.zeros::<u8>(4 << 20).is_err());
            drop(outer);
        });
    }
    std::thread::spawn(move || drop(kept)).join().unwrap();
    trace::stop()
}

fn written(run: &Run, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    format(run, &mut bytes).unwrap();
    bytes
}

/// The figures of a replay without its time, and the smallest limit.
fn replayed(history: &History, policy: Policy) -> (Figures, Option<u64>) {
    let passes = NonZeroUsize::new(2).unwrap();
    let mut figures = dry_run(history, policy, None, passes).unwrap();
    (figures.steady_ns_per_operation, figures.planning) = (0.0, Duration::ZERO);
    (figures, smallest_limit(history, policy, passes).unwrap())
}

#[test]
fn a_live_trace_and_its_file_are_one_run() {
    let trace = traced();
    let live = Run::from(&trace);
    for op in [Op::Allocate, Op::Free, Op::Enter, Op::Leave, Op::Short] {
        assert!(live.events.iter().any(|event| event.op == op), "there is no {op:?}");
    }
    assert!(live.events.iter().any(|event| event.served == "plan" && event.scope.starts_with("train, ")));

    let mut text = Vec::new();
    trace.write_csv(&mut text).unwrap();
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(&text).unwrap();
    for (ending, bytes) in [("csv", text), ("csv.gz", packed.finish().unwrap())] {
        let path = std::env::temp_dir().join(format!("gpucache-report-{}.{ending}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let (read, history) = (Run::read(&path), History::read(&path));
        std::fs::remove_file(&path).unwrap();
        let (read, history) = (read.unwrap(), history.unwrap());
        assert!(read == live, "the file {ending} tells something else");
        for (name, format) in FORMATS {
            let bytes = written(&live, format);
            assert!(bytes.len() > 1000, "{name} says little");
            assert!(written(&read, format) == bytes, "{name} of {ending}");
        }
        let of_live = History::of(history.name(), &live).unwrap();
        assert_eq!(
            (history.operations(), history.peak_live_bytes()),
            (of_live.operations(), of_live.peak_live_bytes())
        );
        for policy in Policy::ALL {
            assert_eq!(replayed(&history, policy), replayed(&of_live, policy), "{policy} of {ending}");
        }
    }
}
