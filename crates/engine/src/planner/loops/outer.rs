//! A loop around the loop that is known: four batches and then the optimizer, or ten steps and then an evaluation. Its sign is that the known
//! loop is left again and again after the same number of iterations, for an allocation of the same size.

/// The departures from the known loop, and the search that they led to.
#[derive(Default)]
pub(super) struct Outer {
    /// Behind its last iteration, and again behind what comes there, the loop may be left twice.
    departures: [Departure; 2],
    /// How often the loop around it was searched for.
    tries: u32,
    /// Shorter periods than this are not searched now.
    pub(super) least: Option<u32>,
}

/// When the loop was left for an allocation of some size.
#[derive(Default)]
struct Departure {
    /// The bytes of the allocation at which the loop was known to be left.
    bytes: u64,
    /// How many iterations of the entry had ended.
    ended: u64,
    /// How many iterations there were between the last two departures.
    gap: u64,
    /// How many gaps in a row were like the one before, while plans served little.
    equal: u32,
    /// The allocations up to the last departure, and those of them that plans served.
    made: u64,
    served: u64,
}

/// The plan of the known loop is good enough if it serves at least three of this many allocations. With seven of eight, a GPT-2 whose passes
/// over its data are a loop too reserved 1.022 times as much as with a scope around the step.
const SERVED: u64 = 4;
/// The same if each departure costs the arena, whose memory then moves twice: seven of this many. A diffusion model whose third step computes
/// one more loss was planned for 0.75 without its loop of three steps, with 300 calls of the device in each of them.
const SERVED_AT_A_COST: u64 = 8;
/// Iterations with more allocations are not searched: a search for them would go without plans for long.
const LONGEST: u64 = 1 << 14;
/// Each search needs twice as many equal departures as the one before, up to 2^16: it goes without plans for some iterations.
const MOST_TRIES: u32 = 16;

impl Outer {
    /// Begins an entry.
    pub(super) fn begin(&mut self) {
        (self.departures, self.least) = (Default::default(), None);
    }

    /// Notes that a loop is left for an allocation of so many bytes, which may cost its arena. Returns whether to search for the loop around it.
    pub(super) fn departs(&mut self, ended: u64, (bytes, costs_arena): (u64, bool), counts: (u64, u64)) -> bool {
        let known = self.departures.iter().position(|departure| departure.bytes == bytes);
        let place = known.unwrap_or_else(|| usize::from(self.departures[1].ended < self.departures[0].ended));
        let departure = &mut self.departures[place];
        if known.is_none() {
            *departure = Departure { bytes, ..Departure::default() };
        }
        let whole = departure.repeats(ended, counts, if costs_arena { SERVED_AT_A_COST } else { SERVED });
        if departure.equal < 1 << self.tries || whole > LONGEST {
            return false;
        }
        departure.equal = 0;
        self.tries = (self.tries + 1).min(MOST_TRIES);
        self.least = Some((whole - whole / 4) as u32);
        true
    }
}

impl Departure {
    /// Counts another departure for the same allocation. Plans serve little if more than one of `of` allocations goes without them. Returns the
    /// allocations since the one before.
    fn repeats(&mut self, ended: u64, (made, served): (u64, u64), of: u64) -> u64 {
        let new = made.wrapping_sub(std::mem::replace(&mut self.made, made));
        let planned = served.wrapping_sub(std::mem::replace(&mut self.served, served));
        let gap = ended.saturating_sub(std::mem::replace(&mut self.ended, ended));
        let is_like = gap > 1 && gap == std::mem::replace(&mut self.gap, gap);
        let is_badly_served = planned.saturating_mul(of) < new.saturating_mul(of - 1);
        self.equal = if is_like && is_badly_served { self.equal + 1 } else { 0 };
        new
    }
}

#[cfg(test)]
mod tests {
    use super::Outer;

    /// The departures, of these gaps, after which the loop around is searched. Plans served this many percent.
    fn searched(gaps: &[u64], percent: u64) -> Vec<usize> {
        searched_at(gaps, percent, false)
    }

    fn searched_at(gaps: &[u64], percent: u64, costs_arena: bool) -> Vec<usize> {
        let (mut outer, mut ended) = (Outer::default(), 0);
        let mut departs = |&gap: &u64| {
            ended += gap;
            outer.departs(ended, (7, costs_arena), (1000 * ended, 10 * ended * percent))
        };
        gaps.iter()
            .map(&mut departs)
            .enumerate()
            .filter(|&(_, is_searched)| is_searched)
            .map(|(place, _)| place)
            .collect()
    }

    #[test]
    fn a_loop_that_is_left_again_and_again_in_the_same_way_has_one_around_it() {
        assert_eq!(searched(&[9, 4, 4, 4, 4, 4, 4], 70), [2, 4], "ever more rarely");
        assert_eq!(searched(&[4, 5, 6, 4, 5, 6], 70), [], "answers of any length");
        assert_eq!(searched(&[4; 8], 80), [], "its plan serves enough");
        assert_eq!(searched(&[1; 8], 0), [], "it is no loop");
        assert_eq!(searched(&[400; 8], 0), [], "too long");
    }

    #[test]
    fn a_loop_that_loses_its_arena_each_time_has_one_around_it_unless_its_plan_serves_nearly_all() {
        assert_eq!(searched_at(&[4; 7], 80, true), [1, 3]);
        assert_eq!(searched_at(&[4; 8], 88, true), []);
    }

    #[test]
    fn a_loop_that_is_left_twice_in_each_iteration_around_it_is_left_in_the_same_way() {
        let mut outer = Outer::default();
        let mut departs = |ended, bytes| outer.departs(ended, (bytes, false), (1000 * ended, 0));
        assert!(![(5, 10), (6, 20), (9, 10), (10, 20)].into_iter().any(|(ended, bytes)| departs(ended, bytes)));
        assert!(departs(13, 10));
    }
}
