//! How long the work between the uses of an entry takes.
//!
//! Marks on the stream cut one entry with the same moves into stretches. The time that the stream waited for moves does not count as work;
//! the entry's sample knows it.

use std::sync::Arc;

use crate::offload::sampling::Sample;
use gpucache_engine::device::{Mark, Span, Stream};

/// The most stretches of an entry. With fewer than one for each use, moves come at wrong places: of 24 uses of a backward pass one takes a
/// hundred times as long as the others. A mark takes some microseconds, so that as many take some ten milliseconds.
const MOST_STRETCHES: u32 = 1 << 13;

/// Seconds that a mark takes of its stream's time at most: 1.6 microseconds on an H100.
const MOST_OF_A_MARK: f64 = 5e-6;

pub(super) struct Pacer {
    /// Where stretches begin, and at last the entry's end.
    places: Vec<u32>,
    marks: Vec<Box<dyn Mark>>,
    /// Whether a mark could not be made.
    is_broken: bool,
    sample: Arc<Sample>,
}

impl Pacer {
    /// For an entry of so many uses that is about to begin.
    pub(super) fn new(uses: u32, sample: Arc<Sample>) -> Pacer {
        let step = uses.div_ceil(MOST_STRETCHES).max(1);
        let places: Vec<u32> = (0..uses).step_by(step as usize).chain([uses]).collect();
        Pacer { marks: Vec::with_capacity(places.len()), places, is_broken: false, sample }
    }

    /// The place of the next mark; beyond all uses if there is none.
    pub(super) fn due(&self) -> usize {
        self.places.get(self.marks.len()).filter(|_| !self.is_broken).map_or(usize::MAX, |place| *place as usize)
    }

    /// Makes the mark of this place, if one is due there.
    pub(super) fn pass(&mut self, place: usize, stream: &Stream) {
        if self.due() != place {
            return;
        }
        match Span::mark(stream) {
            Some(mark) => self.marks.push(mark),
            None => self.is_broken = true,
        }
        self.sample.turn(self.marks.len().saturating_sub(1));
    }

    /// Whether there will be no result: marks failed, or the entry ended before all were made.
    pub(super) fn is_void(&self) -> bool {
        self.is_broken || self.marks.len() < self.places.len()
    }

    /// Whether all work and all waits of the entry are done.
    pub(super) fn is_over(&self) -> bool {
        let ends = self.marks.first().zip(self.marks.last());
        let is_done = ends.is_some_and(|(first, last)| !matches!(last.since(&**first), Ok(None)));
        is_done && self.sample.waits().is_some()
    }

    /// The places, and the seconds of work from each to the next one, if all of it [is over](Pacer::is_over).
    pub(super) fn read(&self) -> Option<(&[u32], Vec<f64>)> {
        let waited = self.sample.waits()?;
        let mut seconds = Vec::with_capacity(self.marks.len());
        for (stretch, two) in self.marks.windows(2).enumerate() {
            let took = two[1].since(&*two[0]).ok()??;
            let waited = waited.get(stretch).copied().unwrap_or_default();
            seconds.push(took.saturating_sub(waited).as_secs_f64());
        }
        // Some stretch has no work but that of its mark, which all others have too.
        let mark = seconds.iter().copied().fold(f64::INFINITY, f64::min).min(MOST_OF_A_MARK);
        seconds.iter_mut().for_each(|seconds| *seconds -= mark);
        Some((&self.places, seconds))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::device::{Device, Host};

    /// Seconds of work of some 10 ms behind a wait of 190 ms.
    fn timed() -> f64 {
        let device = Host::new_stream().unwrap();
        let sleeps = |milliseconds| {
            device.launch((), move |()| std::thread::sleep(Duration::from_millis(milliseconds))).unwrap();
        };
        let sample = Arc::<Sample>::default();
        let mut pacer = Pacer::new(2, sample.clone());
        pacer.pass(0, device.stream_handle());
        assert!(pacer.is_void());
        sleeps(200);
        let waits = sample.begin();
        pacer.pass(1, device.stream_handle());
        sleeps(5);
        pacer.pass(2, device.stream_handle());
        device.synchronize().unwrap();
        assert!(!pacer.is_void() && !pacer.is_over(), "a wait is not over");
        sample.end(waits, Duration::from_millis(190));
        let (places, seconds) = pacer.read().unwrap();
        assert!(pacer.is_over() && places == [0, 1, 2]);
        assert!(seconds[0] >= 0.01 && seconds[1] >= 0.005, "{seconds:?}");
        seconds[0]
    }

    #[test]
    fn work_is_timed_without_what_was_waited_for() {
        // A machine that does other work lets one of them sleep for longer, and not all.
        let seconds = (0..5).map(|_| timed()).fold(f64::INFINITY, f64::min);
        assert!(seconds < 0.1, "what was waited for counts: {seconds}");
    }
}
