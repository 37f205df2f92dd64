//! What the cursor does with requests that are not the expected ones.
//!
//! A request is matched with a position by the first line that holds. *Next* is the position that is expected; *like* it are
//! bytes that may be its in another entry (`Expected::is_like`).
//!
//! | where the request belongs                                            | [`Match`]   | what becomes of it, and which deviation it is  |
//! |----------------------------------------------------------------------|-------------|------------------------------------------------|
//! | next has no place, and has these bytes                               | `Placeless` | carried, or beside, as planned                 |
//! | next fits, but something alive lies there                            | `Blocked`   | beside: `Blocked`                              |
//! | next grows, and this is larger by some of its steps                  | `Scaled`    | beside: `Larger`, or carried                   |
//! | sizes are others in this entry, and this is like next                | `Scaled`    | there; or beside: `Blocked`, `Larger`, or none |
//! | one of those behind next has these bytes                             | `Ahead`     | there, or beside: `Early`, `Resized`           |
//! | next is carried, and this is like it                                 | `Carried`   | carried: its size is another one now           |
//! | one that was passed over fits, and nothing alive lies there          | `Passed`    | there: `Late`                                  |
//! | the extra request before was like next, this is like the one behind  | `Rescaled`  | there, or beside: `Resized`                    |
//! | nowhere                                                              | `Extra`     | beside: `Extra`                                |
//!
//! So another size than expected is taken for an extra request, until the one after it shows that it was the expected one
//! (`Resized`). If that has another size as well (`Rescaled`), sizes are taken to be others for the rest of the entry.
//!
//! Everything here may look at every position, for as long as `effort` lasts, and keeps the cursor's invariant.

use hashbrown::HashMap;

use super::{Cursor, Position, Served};
use crate::entries::envelope::{Envelope, Expected};

/// What becomes of a request that is not the expected one.
#[derive(Debug)]
pub enum Answer {
    /// Served all the same.
    Served(Served, Option<Deviation>),
    /// To be carried, as this position, which is stepped over.
    Carried(usize),
    /// To be served beside the plan.
    Beside(Option<Deviation>),
}

/// A way in which an entry differs from its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// The plan has no such allocation.
    Extra,
    /// Served earlier than planned; so many positions were passed over.
    Early {
        /// Positions that were passed over.
        missing: u64,
    },
    /// Served after it had been passed over.
    Late,
    /// What was taken for an extra allocation was this position, in another size.
    Resized {
        /// The number of the position.
        position: usize,
        /// The size that was asked for, in bytes.
        bytes: u64,
    },
    /// More bytes than ever were seen at this position.
    Larger {
        /// The number of the position.
        position: usize,
    },
    /// Something alive is in the place of this position.
    Blocked {
        /// The number of the position.
        position: usize,
    },
}

/// What is known of deviations, in this entry unless said otherwise.
#[derive(Debug, Default)]
pub(super) struct OffOrder {
    /// The reusers of displaced positions, by position, since whenever.
    reusers: HashMap<u32, u32>,
    /// Positions that were passed over, the latest last.
    pub(super) passed: Vec<u32>,
    /// The position that was expected when an extra allocation came, and its bytes.
    pub(super) unlike: Option<(usize, u64)>,
    /// Whether the sizes are others than were seen.
    pub(super) is_scaled: bool,
    /// How many more positions may be looked at.
    pub(super) effort: usize,
    /// Whether the entry's invariant was left before its end.
    pub(super) is_cut: bool,
}

/// The position that a request is taken for.
#[derive(Debug)]
enum Match<'a> {
    /// The next one, which has no place.
    Placeless,
    /// The next one, which is carried, in another size.
    Carried,
    /// The next one, whose place is taken.
    Blocked,
    /// The next one, in another size than this.
    Scaled(&'a Expected),
    /// The one of this number, behind the next.
    Ahead(usize),
    /// One that was passed over, by its place among those.
    Passed(usize),
    /// The one behind the next, in another size than this.
    Rescaled(&'a Expected),
    /// None.
    Extra,
}

/// How many positions ahead a request is looked for, and how many that were passed over are remembered. A program that leaves
/// out more at once goes on beside its plan; with a wider window an extra request of a common size would be taken for one far
/// ahead, and all in between be passed over.
const WINDOW: usize = 16;
/// How many positions ahead a request is looked for among those whose sizes vary, since many requests look alike there.
const NEAR: usize = 2;
/// Looks at other positions that an entry may spend for each that it has: as many as 64 searches through its whole plan for
/// who overlaps whom. Without a limit an entry that deviates everywhere would take time square in its length; with a lower
/// one fewer deviations of an entry are served by its plan.
const LOOKS_PER_POSITION: usize = 64;
/// Looks that an entry may spend besides, so that a short one is not cut for its first deviations.
const FREE_LOOKS: usize = 1 << 12;

impl OffOrder {
    /// Begins an entry of so many positions.
    pub(super) fn begin(&mut self, positions: usize) {
        self.passed.clear();
        self.unlike = None;
        (self.is_scaled, self.is_cut) = (false, false);
        self.effort = LOOKS_PER_POSITION * positions + FREE_LOOKS;
    }
}

impl Cursor {
    /// Answers a request that [`serve`](Cursor::serve) did not.
    pub fn serve_off_order(&mut self, bytes: u64, envelope: &Envelope) -> Answer {
        if self.off_order.effort == 0 {
            self.stop();
        }
        match self.matched(bytes, envelope) {
            Match::Placeless if !self.positions[self.next].is_carried() => {
                self.step_aside();
                Answer::Beside(None)
            }
            Match::Placeless | Match::Carried => {
                self.step_aside();
                Answer::Carried(self.next - 1)
            }
            Match::Blocked => {
                let position = self.next;
                self.pass_over(position);
                Answer::Beside(Some(Deviation::Blocked { position }))
            }
            Match::Scaled(expected) => self.serve_other_size(bytes, expected),
            Match::Ahead(position) => self.serve_ahead(position, bytes, envelope),
            Match::Passed(place) => self.serve_passed(place, bytes),
            Match::Rescaled(following) => self.serve_rescaled(bytes, following, envelope),
            Match::Extra => {
                self.off_order.unlike = Some((self.next, bytes));
                Answer::Beside(Some(Deviation::Extra))
            }
        }
    }

    /// The first line of the module's table that holds.
    fn matched<'a>(&self, bytes: u64, envelope: &'a Envelope) -> Match<'a> {
        let next = envelope.at(self.next).and_then(|expected| self.match_next(bytes, expected));
        next.or_else(|| self.match_ahead(bytes, envelope))
            .or_else(|| self.match_carried(bytes, envelope))
            .or_else(|| self.match_passed(bytes))
            .or_else(|| self.match_rescaled(bytes, envelope))
            .unwrap_or(Match::Extra)
    }

    fn match_next<'a>(&self, bytes: u64, expected: &'a Expected) -> Option<Match<'a>> {
        let is_scaled = (self.off_order.is_scaled && expected.is_like(bytes)) || expected.grows_to(bytes);
        if !expected.is_planned() {
            return (expected.has(bytes) || is_scaled).then_some(Match::Placeless);
        }
        if self.positions[self.next].fits(bytes) {
            return Some(Match::Blocked);
        }
        is_scaled.then_some(Match::Scaled(expected))
    }

    fn match_ahead(&self, bytes: u64, envelope: &Envelope) -> Option<Match<'static>> {
        let mut ahead = self.next + 1..self.positions.len().min(self.next + WINDOW);
        let found = ahead.find(|&position| {
            let is_near = position <= self.next + NEAR;
            envelope.at(position).is_some_and(|expected| expected.has(bytes) && (is_near || !expected.varies()))
        });
        found.map(Match::Ahead)
    }

    fn match_carried(&self, bytes: u64, envelope: &Envelope) -> Option<Match<'static>> {
        let next = envelope.at(self.next).filter(|next| next.is_carried() && next.is_like(bytes));
        next.map(|_| Match::Carried)
    }

    fn match_passed(&self, bytes: u64) -> Option<Match<'static>> {
        let is_free = |wanted: &Position| {
            !(0..self.positions.len()).any(|other| self.is_live(other) && self.positions[other].overlaps(wanted))
        };
        let place = self.off_order.passed.iter().rposition(|&position| {
            let passed = &self.positions[position as usize];
            passed.is_planned() && passed.fits(bytes) && is_free(passed)
        });
        place.map(Match::Passed)
    }

    fn match_rescaled<'a>(&self, bytes: u64, envelope: &'a Envelope) -> Option<Match<'a>> {
        let (position, before) = self.off_order.unlike?;
        let was_next = position == self.next && envelope.at(position)?.is_like(before);
        let following = envelope.at(self.next + 1).filter(|following| following.is_like(bytes));
        following.filter(|_| was_next).map(Match::Rescaled)
    }

    /// Serves a position behind the next one, and passes over those before it.
    fn serve_ahead(&mut self, found: usize, bytes: u64, envelope: &Envelope) -> Answer {
        let deviation = Some(self.account_for(found, envelope));
        while self.next < found {
            self.pass_over(self.next);
        }
        if let Some(served) = self.serve(bytes) {
            return Answer::Served(served, deviation);
        }
        self.pass_over(found);
        Answer::Beside(deviation)
    }

    /// Serves a position that was passed over before.
    fn serve_passed(&mut self, place: usize, bytes: u64) -> Answer {
        self.spend(self.positions.len());
        let position = self.off_order.passed.remove(place);
        let served = self.positions[position as usize].serve(position as usize, bytes);
        self.begin_life(served, bytes);
        self.block(position as usize);
        self.passed_over = self.passed_over.wrapping_sub(1);
        Answer::Served(served, Some(Deviation::Late))
    }

    /// Serves the position behind the next one, which is passed over as the extra request before was that.
    fn serve_rescaled(&mut self, bytes: u64, following: &Expected, envelope: &Envelope) -> Answer {
        self.off_order.is_scaled = true;
        let resized = self.account_for(self.next + 1, envelope);
        self.pass_over(self.next);
        match self.serve_other_size(bytes, following) {
            Answer::Served(served, _) => Answer::Served(served, Some(resized)),
            Answer::Beside(_) | Answer::Carried(_) => Answer::Beside(Some(resized)),
        }
    }

    /// What it means that the position `found` was asked for: that the extra request before was the next one, in another
    /// size, or that those before it are missing.
    fn account_for(&mut self, found: usize, envelope: &Envelope) -> Deviation {
        let position = self.next;
        let is_resized = |&(next, bytes): &(usize, u64)| {
            let is_like = envelope.at(position).is_some_and(|expected| expected.is_like(bytes));
            next == position && found == position + 1 && is_like
        };
        match self.off_order.unlike.take().filter(is_resized) {
            Some((_, bytes)) => {
                self.positions[position].lower_least(bytes);
                Deviation::Resized { position, bytes }
            }
            None => Deviation::Early { missing: (found - position) as u64 },
        }
    }

    /// Another size than was seen here: a smaller one is served, a larger one is to be remembered.
    fn serve_other_size(&mut self, bytes: u64, expected: &Expected) -> Answer {
        let position = self.next;
        self.positions[position].lower_least(bytes);
        if let Some(served) = self.serve(bytes) {
            return Answer::Served(served, None);
        }
        self.pass_over(position);
        let is_in_place = self.positions[position].is_planned() && self.positions[position].fits(bytes);
        Answer::Beside(match is_in_place {
            true => Some(Deviation::Blocked { position }),
            // Larger than the place that it has; the envelope may know that already.
            false => expected.is_planned().then_some(Deviation::Larger { position }),
        })
    }

    /// Steps over the next position without serving it.
    fn pass_over(&mut self, position: usize) {
        self.next = position + 1;
        self.passed_over += 1;
        for place in 0..self.first_reusers.before(position).len() {
            let live = self.first_reusers.before(position)[place] as usize;
            if self.is_live(live) && !self.lives[live].is_displaced() {
                self.block(live);
            }
        }
        if self.positions[position].blockers > 0 {
            self.hand_on(position);
        }
        if self.off_order.passed.len() == WINDOW {
            self.off_order.passed.remove(0);
        }
        self.off_order.passed.push(position as u32);
    }

    /// Finds another reuser for each displaced position that blocks this one.
    fn hand_on(&mut self, position: usize) {
        let blocks = |&(_, &reuser): &(&u32, &u32)| reuser as usize == position;
        let displaced: Vec<u32> = self.off_order.reusers.iter().filter(blocks).map(|(&live, _)| live).collect();
        self.set_blockers(position, 0);
        self.spend(self.off_order.reusers.len());
        displaced.into_iter().for_each(|live| self.block(live as usize));
    }

    /// Finds the reuser of a live position anew, from `next` on; who blocked another one before does so no more.
    fn block(&mut self, live: usize) {
        let (before, from) = self.positions.split_at(self.next.min(self.positions.len()));
        let overlaps = |position: &Position| position.overlaps(&self.positions[live]);
        let reuser = match from.iter().position(overlaps) {
            Some(place) => before.len() + place,
            // At the latest itself, in the next entry.
            None => before.iter().position(overlaps).unwrap_or(live),
        };
        self.spend(reuser.abs_diff(self.next));
        self.lives[live] = self.lives[live].displaced();
        self.off_order.reusers.insert(live as u32, reuser as u32);
        self.set_blockers(reuser, self.positions[reuser].blockers + 1);
    }

    fn set_blockers(&mut self, reuser: usize, blockers: u32) {
        let [one, other] = self.first_reusers.first_two(reuser);
        let blocked = if blockers > 0 { self.first_reusers.always_live() } else { other };
        (self.positions[reuser].before, self.positions[reuser].blockers) = ([one, blocked], blockers);
    }

    /// A displaced position came back.
    #[cold]
    pub(super) fn unblock(&mut self, position: u32) {
        if let Some(reuser) = self.off_order.reusers.remove(&position) {
            self.set_blockers(reuser as usize, self.positions[reuser as usize].blockers - 1);
        }
    }

    /// Finds the reusers of all that is live anew, for an entry that begins after one that was cut short.
    pub(super) fn rebase(&mut self) {
        self.forget_displaced();
        for live in 0..self.positions.len() {
            if self.is_live(live) {
                self.block(live);
            }
        }
    }

    /// Forgets whom displaced positions block.
    pub(super) fn forget_displaced(&mut self) {
        for (_, reuser) in std::mem::take(&mut self.off_order.reusers) {
            self.set_blockers(reuser as usize, 0);
        }
    }

    /// Serves nothing more in this entry.
    pub(super) fn stop(&mut self) {
        self.passed_over += self.left();
        self.next = self.positions.len();
        self.off_order.passed.clear();
        self.off_order.is_cut = true;
    }

    fn spend(&mut self, looks: usize) {
        self.off_order.effort = self.off_order.effort.saturating_sub(looks);
    }
}
