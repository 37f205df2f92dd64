//! Input and output of the planner: the uses of an entry, and the moves for the next entry like it.

/// How a use treats the contents of its array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The use reads the contents.
    Read,
    /// The use needs the contents, and changes them.
    Write,
    /// The use writes new contents: nothing has to be copied in.
    Fill,
}

impl Access {
    /// Whether the copy on the host is out of date afterwards.
    pub(super) fn changes(self) -> bool {
        self != Access::Read
    }
}

/// One use of an array in an entry. Uses are in the order of the fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The number of the array.
    pub array: u32,
    /// Whether the contents are read, changed, or new.
    pub access: Access,
    /// The place of the first use before which the array was released: the next place if it was released at once, the number of uses
    /// if it was held to the entry's end.
    pub until: u32,
}

/// An entry of a scope that repeats. The first use follows the last one again, for arrays that do not die.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Order {
    /// Bytes of each array.
    pub bytes: Vec<u64>,
    /// All uses, in the order of the fetches.
    pub uses: Vec<Use>,
    /// For each use, seconds of device work since the entry's beginning, in ascending order.
    pub at: Vec<f64>,
    /// Seconds of device work of the whole entry.
    pub length: f64,
    /// Whether each array dies after its last use in the entry, so that nothing has to be written back. An array that is born in the
    /// entry is filled first.
    pub dies: Vec<bool>,
    /// Whether each array rests on the host: it leaves after each use, however much room there is. Arrays beyond the end of the list do not.
    pub rests: Vec<bool>,
}

/// How often each use of an array may count in a sum: copies in and out, in four entries.
const SUMMED: u64 = 8;

/// More bytes than any sum in a schedule, and than any device has. Twice as many still fit a `u64`.
pub(super) const MOST_BYTES: u64 = 1 << 62;

impl Order {
    /// Whether an array leaves after each use.
    pub(super) fn rests(&self, array: u32) -> bool {
        self.rests.get(array as usize).is_some_and(|&rests| rests)
    }

    /// The place behind the last use: the entry's end.
    pub(super) fn end(&self) -> u32 {
        self.uses.len() as u32
    }

    /// Whether the bytes of all uses, copied in and out in each simulated entry, have a sum. No sum of a schedule is larger.
    /// Larger arrays fit no device.
    pub(super) fn has_sums(&self) -> bool {
        let all = self.bytes.iter().try_fold(0, |sum: u64, &bytes| sum.checked_add(bytes));
        let uses = self.uses.len() as u64 + 1;
        all.and_then(|all| all.checked_mul(uses)?.checked_mul(SUMMED)).is_some_and(|most| most <= MOST_BYTES)
    }

    /// The place at which a use releases its array.
    pub(super) fn let_go(&self, place: u32) -> u32 {
        self.uses[place as usize].until.clamp(place + 1, self.end())
    }

    /// The same uses at measured times. `seconds[i]` is the work from the place `places[i]` to `places[i + 1]`. The places
    /// ascend from 0 to the number of uses. Within such a stretch the times keep their proportions.
    pub fn paced(&self, places: &[u32], seconds: &[f64]) -> Order {
        let at = |place: u32| self.at.get(place as usize).copied().unwrap_or(self.length);
        let (mut times, mut begin) = (Vec::with_capacity(self.uses.len()), 0.0);
        for (stretch, took) in places.windows(2).zip(seconds) {
            let (from, to) = (stretch[0], stretch[1]);
            let guessed = at(to) - at(from);
            let part = |place: u32| match guessed > 0.0 {
                true => (at(place) - at(from)) / guessed,
                false => f64::from(place - from) / f64::from(to - from),
            };
            times.extend((from..to).map(|place| begin + part(place) * took));
            begin += took;
        }
        Order { at: times, length: begin, ..self.clone() }
    }

    /// Seconds of device work between this place and the next one. From the entry's end, the next place is the first use of the next entry.
    pub(super) fn work_from(&self, place: u32) -> f64 {
        let at = |place: usize| self.at.get(place).copied().unwrap_or(self.length);
        if place == self.end() {
            self.at.first().copied().unwrap_or(0.0)
        } else {
            at(place as usize + 1) - at(place as usize)
        }
    }
}

/// The connection between host and device. It has the same speed in each direction, and copies in both directions at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// Bytes per second in one direction.
    pub bytes_per_second: f64,
    /// Fixed seconds of each copy, besides those for its bytes.
    pub latency: f64,
}

impl Link {
    /// Seconds of one copy.
    pub(super) fn seconds(self, bytes: u64) -> f64 {
        self.latency + bytes as f64 / self.bytes_per_second
    }
}

/// A move of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// Copies the array to the host. It stays on the device, and the host's copy is up to date.
    WriteBack,
    /// Releases the array's device memory. The host's copy is up to date, or the array is dead, or the write-back ends first.
    Evict,
    /// Copies the array to the device.
    Prefetch,
}

/// A move to make when a use is reached, before the use itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The place of that use; the number of uses means the entry's end.
    pub before: u32,
    /// The number of the array.
    pub array: u32,
    /// The kind of the move.
    pub what: What,
}

/// The moves of an entry. After them every array is where it was at the entry's beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    /// In the order in which they have to be issued.
    pub moves: Vec<Move>,
    /// Whether each array is on the device, or on its way to it, when the entry begins.
    pub resident_at_begin: Vec<bool>,
    /// Simulated seconds of an entry after many earlier ones.
    pub seconds: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(at: &[f64], length: f64) -> Order {
        let each = |place| Use { array: 0, access: Access::Read, until: place };
        let uses = (1..=at.len() as u32).map(each).collect();
        Order { bytes: vec![8], uses, at: at.to_vec(), length, dies: vec![false], rests: vec![] }
    }

    #[test]
    fn a_stretch_keeps_its_proportions() {
        let paced = order(&[0.0, 1.0, 3.0, 4.0], 8.0).paced(&[0, 2, 4], &[6.0, 10.0]);
        assert_eq!((&paced.at[..], paced.length), (&[0.0, 2.0, 6.0, 8.0][..], 16.0));
    }

    #[test]
    fn a_stretch_that_was_thought_to_take_no_time_is_even() {
        let paced = order(&[0.0, 0.0, 0.0, 0.0], 0.0).paced(&[0, 4], &[2.0]);
        assert_eq!((&paced.at[..], paced.length), (&[0.0, 0.5, 1.0, 1.5][..], 2.0));
    }

    #[test]
    fn what_was_measured_as_thought_changes_nothing() {
        let thought = order(&[0.0, 1.0, 3.0], 4.0);
        assert_eq!(thought.paced(&[0, 1, 2, 3], &[1.0, 2.0, 1.0]), thought);
    }
}
