//! How long the work of an entry takes, told by entries that were timed.

use super::types::Order;

impl Order {
    /// The same uses at the times that were measured: `seconds[i]` of work from the place `places[i]` to `places[i + 1]`, which
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
}

#[cfg(test)]
mod tests {
    use super::super::types::{Access, Use};
    use super::*;

    fn order(at: &[f64], length: f64) -> Order {
        let each = |place| Use { array: 0, access: Access::Read, until: place };
        let uses = (1..=at.len() as u32).map(each).collect();
        Order { bytes: vec![8], uses, at: at.to_vec(), length, dies: vec![false] }
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
