//! The watch of the run that is not timed: it reads the reserved bytes after each allocation, writes words into new arrays, and checks
//! them before the arrays go.

use gpucache::prelude::*;

use super::contents::{Contents, Marks};
use super::pass::{Outcome, Watch};

/// The watch of the run that is not timed.
pub(super) struct Watched<'d, D: Device> {
    device: &'d D,
    marks: Marks,
    /// Whether the next passes check the contents of arrays. Changes only between passes.
    pub(super) looks_at_contents: bool,
    sampled_peak_bytes: u64,
    process_peak_bytes: u64,
    /// The peak of reserved bytes in the steady state of the last pass.
    pub(super) steady_bytes: u64,
    calls_before: u64,
    /// Calls of the device in the steady state of the last pass.
    pub(super) steady_calls: u64,
}

impl<'d, D: Device> Watched<'d, D> {
    pub(super) fn new(device: &'d D, slots: usize) -> Self {
        Self {
            device,
            marks: Marks::new(slots),
            looks_at_contents: false,
            sampled_peak_bytes: 0,
            process_peak_bytes: device.memory().peak_bytes,
            steady_bytes: 0,
            calls_before: 0,
            steady_calls: 0,
        }
    }

    /// The peak of reserved bytes since this was made.
    ///
    /// The device's own peak includes peaks within an allocation, but it may come from an earlier history.
    pub(super) fn peak_bytes(&self) -> u64 {
        let process_peak_bytes = self.device.memory().peak_bytes;
        if process_peak_bytes > self.process_peak_bytes { process_peak_bytes } else { self.sampled_peak_bytes }
    }

    fn calls(&self) -> u64 {
        let memory = self.device.memory();
        memory.times_taken().saturating_add(memory.times_given_back())
    }
}

impl<D: Contents> Watch<D> for Watched<'_, D> {
    fn allocated(&mut self, slot: u32, array: &mut Array<u8, D>) -> Outcome {
        let bytes = self.device.memory().bytes;
        self.sampled_peak_bytes = self.sampled_peak_bytes.max(bytes);
        self.steady_bytes = self.steady_bytes.max(bytes);
        if self.looks_at_contents { Ok(self.marks.write(slot, array)?) } else { Ok(()) }
    }

    fn freeing(&mut self, slot: u32, array: &Array<u8, D>) -> Outcome {
        if self.looks_at_contents { Ok(self.marks.check(slot, array)?) } else { Ok(()) }
    }

    fn steady_state_begins(&mut self) {
        self.steady_bytes = self.device.memory().bytes;
        self.calls_before = self.calls();
    }

    fn steady_state_ended(&mut self) {
        self.steady_calls = self.calls().saturating_sub(self.calls_before);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::replay::builder::Builder;
    use crate::replay::pass::Replay;
    use crate::replay::policy::Policy;

    /// Overwrites the last byte of each array.
    struct Vandal<'d>(Watched<'d, Host>);

    impl Watch<Host> for Vandal<'_> {
        fn allocated(&mut self, slot: u32, array: &mut Array<u8, Host>) -> Outcome {
            self.0.allocated(slot, array)?;
            array.last_mut().into_iter().for_each(|byte| *byte = !*byte);
            Ok(())
        }

        fn freeing(&mut self, slot: u32, array: &Array<u8, Host>) -> Outcome {
            self.0.freeing(slot, array)
        }
    }

    #[test]
    fn contents_that_were_not_kept_end_the_replay() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        builder.allocate(7, 1000).unwrap();
        let (host, history) = (Host::new(), builder.finish("vandal".to_owned()).unwrap());
        let scopes = [history.name.clone()];
        let mut replay = Replay::new(&host, &history, Policy::Direct, &scopes);
        let mut vandal = Vandal(Watched::new(&host, history.slots));
        replay.pass(&mut vandal).unwrap();
        vandal.0.looks_at_contents = true;
        let error = replay.pass(&mut vandal).unwrap_err().to_string();
        assert!(error.contains("allocation 1 of 1000 bytes"), "{error}");
    }
}
