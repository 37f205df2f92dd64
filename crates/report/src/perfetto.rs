//! Writes Chrome's trace format for Perfetto: a track of scopes for each thread, counters of live bytes, and a track of arrays for each
//! scope and stream.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::run::{Event, Op, Run};

/// The process of all tracks.
const PROCESS: u64 = 1;

/// Writes the run for `ui.perfetto.dev`: one JSON object of Chrome's trace format.
///
/// Times are microseconds since the trace began. Each thread has a track with its scopes. Each scope and stream has a track with its
/// arrays. Counters show the live bytes in total and by scope. Arrays and scopes without an end last until the last event.
///
/// # Errors
/// Errors of the writer.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, perfetto};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let mut file = Vec::new();
/// perfetto::write(&Run::from(&trace::stop()), &mut file)?;
/// assert!(String::from_utf8(file)?.contains(r#""cat":"step, stream "#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(run: &Run, to: impl Write) -> io::Result<()> {
    Ok(serde_json::to_writer(to, &trace(run))?)
}

/// The trace as one JSON object.
fn trace(run: &Run) -> Value {
    let mut tracks = Tracks { end_ns: run.events.last().map_or(0, |event| event.time_ns), ..Tracks::default() };
    run.events.iter().for_each(|event| tracks.take(event));
    tracks.finish();
    json!({ "displayTimeUnit": "ns", "traceEvents": tracks.told, "otherData": { "lost_events": run.lost } })
}

#[derive(Default)]
struct Tracks<'r> {
    told: Vec<Value>,
    /// The scopes that each thread has entered, the innermost last.
    entered: BTreeMap<u64, Vec<&'r Event>>,
    alive: HashMap<u64, &'r Event>,
    live_bytes: HashMap<&'r str, u64>,
    /// The live bytes of all scopes.
    all_bytes: u64,
    end_ns: u64,
}

fn micros(time_ns: u64) -> f64 {
    time_ns as f64 / 1e3
}

/// The name of a scope on its tracks.
fn title(scope: &str) -> &str {
    if scope.is_empty() { "no scope" } else { scope }
}

impl<'r> Tracks<'r> {
    fn take(&mut self, event: &'r Event) {
        match event.op {
            Op::Enter => self.entered.entry(event.thread).or_default().push(event),
            Op::Leave => self.leave(event),
            Op::Allocate => {
                self.alive.insert(event.id, event);
                let live = self.live_bytes.entry(&event.scope).or_default();
                *live = live.saturating_add(event.bytes);
                self.all_bytes = self.all_bytes.saturating_add(event.bytes);
                self.count(event.time_ns, &event.scope);
            }
            Op::Free => {
                let Some(allocation) = self.alive.remove(&event.id) else { return };
                let live = self.live_bytes.entry(&allocation.scope).or_default();
                *live = live.saturating_sub(allocation.bytes);
                self.all_bytes = self.all_bytes.saturating_sub(allocation.bytes);
                self.count(event.time_ns, &allocation.scope);
                self.lived(allocation, event.time_ns);
            }
            Op::Short => self.told.push(json!({
                "ph": "i", "s": "g", "name": format!("no memory for {} bytes", event.bytes),
                "pid": PROCESS, "tid": event.thread, "ts": micros(event.time_ns),
            })),
        }
    }

    fn leave(&mut self, event: &Event) {
        let entered = self.entered.entry(event.thread).or_default();
        // The trace may have the end of a scope that was entered before it began.
        if let Some(place) = entered.iter().rposition(|other| other.scope == event.scope) {
            let began = entered.remove(place);
            self.inside(began, event.time_ns);
        }
    }

    /// A span from the entering of a scope to its end.
    fn inside(&mut self, began: &Event, end_ns: u64) {
        self.told.push(json!({
            "ph": "X", "name": began.scope, "cat": "scope", "pid": PROCESS, "tid": began.thread,
            "ts": micros(began.time_ns), "dur": micros(end_ns.saturating_sub(began.time_ns)), "args": { "site": began.scope_site },
        }));
    }

    fn count(&mut self, time_ns: u64, scope: &str) {
        let all = self.all_bytes;
        let live = self.live_bytes.get(scope);
        for (name, bytes) in
            [("live bytes", all), (&*format!("live bytes of {}", title(scope)), live.copied().unwrap_or(0))]
        {
            let (ts, args) = (micros(time_ns), json!({ "bytes": bytes }));
            self.told.push(json!({ "ph": "C", "name": name, "pid": PROCESS, "ts": ts, "args": args }));
        }
    }

    /// A span from the allocation of an array to this time, on the track of its scope and stream. Spans there may overlap.
    fn lived(&mut self, allocation: &Event, end_ns: u64) {
        let Event { dtype, shape, served, bytes, address, time_ns, stream, id, site, stack, .. } = allocation;
        let category = format!("{}, stream {stream}", title(&allocation.scope));
        let name = format!("{dtype} {shape}");
        let address = format!("{address:#x}");
        let args = json!({ "bytes": bytes, "address": address, "served_by": served, "site": site, "stack": stack });
        let span = |ph: &str, ts: u64| {
            let ts = micros(ts);
            json!({ "ph": ph, "name": name, "cat": category, "id": id, "pid": PROCESS, "ts": ts, "args": args })
        };
        self.told.extend([span("b", *time_ns), span("e", end_ns)]);
    }

    /// Ends all open spans, and names the tracks of threads.
    fn finish(&mut self) {
        let entered = std::mem::take(&mut self.entered);
        for (thread, open) in entered {
            let args = json!({ "name": format!("thread {thread}") });
            self.told.push(json!({ "ph": "M", "name": "thread_name", "pid": PROCESS, "tid": thread, "args": args }));
            open.into_iter().for_each(|began| self.inside(began, self.end_ns));
        }
        let mut alive: Vec<&Event> = std::mem::take(&mut self.alive).into_values().collect();
        alive.sort_by_key(|event| event.id);
        alive.into_iter().for_each(|event| self.lived(event, self.end_ns));
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    fn of_phase<'t>(trace: &'t Value, phase: &str) -> Vec<&'t Value> {
        trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == phase).collect()
    }

    #[test]
    fn scopes_are_spans_that_nest() {
        let trace = trace(&example());
        let spans = of_phase(&trace, "X");
        let span = |name: &str| spans.iter().find(|span| span["name"] == name).unwrap();
        assert_eq!((spans.len(), &span("inner")["ts"], &span("inner")["dur"]), (2, &json!(2.6), &json!(0.4)));
        assert_eq!((&span("train, step")["ts"], &span("train, step")["dur"]), (&json!(2.0), &json!(2.0)));
        assert_eq!(span("inner")["args"]["site"], "src/main.rs:9:9");
    }

    #[test]
    fn counters_end_with_what_is_alive() {
        let trace = trace(&example());
        let last = |name: &str| {
            let counters = of_phase(&trace, "C");
            counters.iter().rfind(|counter| counter["name"] == name).unwrap()["args"]["bytes"].as_u64().unwrap()
        };
        assert_eq!((last("live bytes"), last("live bytes of inner"), last("live bytes of no scope")), (4096, 0, 4096));
        let most = of_phase(&trace, "C").iter().map(|counter| counter["args"]["bytes"].as_u64().unwrap()).max();
        assert_eq!(most, Some(example().peak_bytes()));
    }

    #[test]
    fn each_array_is_a_span_of_its_scope_and_stream() {
        let trace = trace(&example());
        let [begun, ended] = ["b", "e"].map(|phase| of_phase(&trace, phase));
        assert_eq!((begun.len(), ended.len(), of_phase(&trace, "i").len()), (3, 3, 1));
        let of_inner = begun.iter().find(|span| span["cat"] == "inner, stream 2").unwrap();
        assert_eq!((&of_inner["name"], &of_inner["id"]), (&json!("f64 262144"), &json!(3)));
        for (begun, ended) in std::iter::zip(begun, ended) {
            assert_eq!((&begun["id"], &begun["cat"]), (&ended["id"], &ended["cat"]));
            assert!(begun["ts"].as_f64() <= ended["ts"].as_f64());
        }
    }
}
