//! Makes a history from a run: the same one that the run's file gives.

use std::collections::HashMap;

use super::builder::Builder;
use super::caches::Caches;
use super::history::History;
use crate::error::Error;
use crate::run::{Event, Op, Run};

impl History {
    /// The history of a run, under any name. [`History::read`] gives the same history from the file of the run.
    ///
    /// # Errors
    /// The run has no allocations, or its events contradict each other. The second never happens with a real trace.
    ///
    /// ```
    /// use gpucache::{cache_scope, prelude::*, trace};
    /// use gpucache_report::{Run, replay::History};
    ///
    /// trace::start(1000);
    /// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
    /// let mut run = Run::from(&trace::stop());
    /// assert_eq!(History::of("step", &run)?.operations(), 2);
    /// run.events.clear();
    /// assert!(History::of("nothing", &run).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(name: impl Into<String>, run: &Run) -> Result<History, Error> {
        History::of_events(name.into(), run, |_| true)
    }

    /// The history of one device of a run, with all entries of scopes.
    pub(crate) fn of_device(name: impl Into<String>, run: &Run, device: u64) -> Result<History, Error> {
        History::of_events(name.into(), run, |other| other == device)
    }

    fn of_events(name: String, run: &Run, is_wanted: impl Fn(u64) -> bool) -> Result<History, Error> {
        let (mut builder, mut steps, mut caches) = (Builder::default(), Steps::default(), Caches::default());
        let pages = run.page_bytes.iter().filter(|(device, _)| is_wanted(**device));
        pages.for_each(|(_, page_bytes)| builder.pages(*page_bytes));
        let is_left_out = |event: &Event| matches!(event.op, Op::Allocate | Op::Free) && !is_wanted(event.device);
        for (place, event) in run.events.iter().enumerate().filter(|(_, event)| !is_left_out(event)) {
            let taken = builder.step(steps.of(event)).and_then(|()| take(&mut builder, &mut caches, event));
            taken.map_err(|what| Error::Inconsistent { event: place, what })?;
        }
        builder.finish(name).map_err(|what| Error::Inconsistent { event: run.events.len(), what })
    }
}

fn take(builder: &mut Builder, caches: &mut Caches, event: &Event) -> Result<(), String> {
    let (scope, thread) = (event.scope.as_str(), event.thread.to_string());
    match event.op {
        Op::Allocate => builder.allocate_in(caches.serving(scope, &thread).as_deref(), event.id, event.bytes),
        Op::Free => builder.free(event.id, event.bytes),
        Op::Enter | Op::Leave if scope.is_empty() => Err("a scope has no name".to_owned()),
        Op::Enter => builder.enter(&caches.enter(scope, &thread)),
        Op::Leave => builder.leave(&caches.leave(scope, &thread)),
        Op::Short => Ok(()),
    }
}

/// Counts entries from outside all scopes, as the file of a trace does.
#[derive(Default)]
struct Steps {
    number: u64,
    depths: HashMap<u64, usize>,
}

impl Steps {
    fn of(&mut self, event: &Event) -> u64 {
        let depth = self.depths.entry(event.thread).or_default();
        match event.op {
            Op::Enter => {
                self.number += u64::from(*depth == 0);
                *depth += 1;
            }
            // The trace may have the end of a scope that was entered before it began.
            Op::Leave => *depth = depth.saturating_sub(1),
            Op::Allocate | Op::Free | Op::Short => {}
        }
        self.number
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn what_contradicts_itself_is_refused() {
        let mut run = example();
        let history = History::of("example", &run).unwrap();
        assert_eq!((history.operations(), history.steps.len()), (5, 2));
        let last = run.events.last().unwrap().clone();
        run.events.push(last);
        let error = History::of("example", &run).unwrap_err();
        assert_eq!(error.to_string(), "event 10 of the run: 3 is freed twice");
    }
}
