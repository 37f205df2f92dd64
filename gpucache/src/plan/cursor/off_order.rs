//! What the cursor does with requests that are not the expected ones.
//!
//! Everything here may look at every position, for as long as `effort` lasts, and keeps the cursor's invariant.

use hashbrown::HashMap;

use super::{Cursor, Served, Slot};
use crate::plan::envelope::{Envelope, Expected};

/// What becomes of a request that is not the expected one.
#[derive(Debug)]
pub(crate) enum Answer {
    /// Served all the same.
    Served(Served, Option<Deviation>),
    /// To be served beside the plan.
    Beside(Option<Deviation>),
}

/// A way in which an entry differs from its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deviation {
    Extra,
    /// Served earlier than planned; so many positions were passed over.
    Early {
        missing: u64,
    },
    /// Served after it had been passed over.
    Late,
    /// What was taken for an extra allocation was this position, in another size.
    Resized {
        position: usize,
        bytes: u64,
    },
    /// More bytes than ever were seen at this position.
    Larger {
        position: usize,
    },
    Blocked,
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

/// How far a request may lie from the expected one and still be found.
const WINDOW: usize = 16;
/// As far where sizes vary, and many requests look alike.
const NEAR: usize = 2;

impl OffOrder {
    /// Begins an entry of so many positions.
    pub(super) fn begin(&mut self, positions: usize) {
        self.passed.clear();
        self.unlike = None;
        (self.is_scaled, self.is_cut) = (false, false);
        self.effort = 64 * positions + (1 << 12);
    }
}

impl Cursor {
    /// Answers a request that [`serve`](Cursor::serve) did not.
    ///
    /// Another size than expected is taken for an extra allocation, until the request after it shows that it was the
    /// expected one. If that has another size as well, sizes are taken to be others for the rest of the entry.
    pub(crate) fn serve_off_order(&mut self, bytes: u64, envelope: &Envelope) -> Answer {
        if self.off_order.effort == 0 {
            self.stop();
        }
        let Some(expected) = envelope.at(self.next) else {
            return self.serve_passed(bytes).unwrap_or(Answer::Beside(Some(Deviation::Extra)));
        };
        if !expected.is_planned() && expected.has(bytes) {
            self.next += 1;
            self.passed_over += 1;
            return Answer::Beside(None);
        }
        if self.slots[self.next].fits(bytes) {
            self.pass_over(self.next);
            return Answer::Beside(Some(Deviation::Blocked));
        }
        if self.off_order.is_scaled && expected.is_like(bytes) {
            return self.serve_other_size(bytes, expected);
        }
        if let Some(answer) = self.serve_ahead(bytes, envelope).or_else(|| self.serve_passed(bytes)) {
            return answer;
        }
        if self.off_order.unlike.is_some_and(|(next, before)| next == self.next && expected.is_like(before))
            && let Some(following) = envelope.at(self.next + 1).filter(|following| following.is_like(bytes))
        {
            self.off_order.is_scaled = true;
            let resized = self.account_for(self.next + 1, envelope);
            self.pass_over(self.next);
            return match self.serve_other_size(bytes, following) {
                Answer::Served(served, _) => Answer::Served(served, Some(resized)),
                Answer::Beside(_) => Answer::Beside(Some(resized)),
            };
        }
        self.off_order.unlike = Some((self.next, bytes));
        Answer::Beside(Some(Deviation::Extra))
    }

    /// Serves a position behind the next one that expects this request, and passes over those before it.
    fn serve_ahead(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        let ahead = self.next + 1..self.slots.len().min(self.next + WINDOW);
        let found = ahead.into_iter().find(|&position| {
            let is_near = position <= self.next + NEAR;
            envelope.at(position).is_some_and(|expected| expected.has(bytes) && (is_near || !expected.varies()))
        })?;
        let deviation = self.account_for(found, envelope);
        while self.next < found {
            self.pass_over(self.next);
        }
        if let Some(served) = self.serve(bytes) {
            return Some(Answer::Served(served, Some(deviation)));
        }
        self.pass_over(found);
        Some(Answer::Beside(Some(deviation)))
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
                self.slots[position].lower_least(bytes);
                Deviation::Resized { position, bytes }
            }
            None => Deviation::Early { missing: (found - position) as u64 },
        }
    }

    /// Serves a position that was passed over before, if nothing alive overlaps it.
    fn serve_passed(&mut self, bytes: u64) -> Option<Answer> {
        let place = self.off_order.passed.iter().rposition(|&position| {
            let slot = &self.slots[position as usize];
            slot.fits(bytes)
                && !(0..self.slots.len()).any(|other| self.is_live(other) && self.slots[other].overlaps(slot))
        })?;
        self.spend(self.slots.len());
        let position = self.off_order.passed.remove(place);
        let served = self.slots[position as usize].serve(position as usize, bytes);
        self.begin_life(served, bytes);
        self.block(position as usize);
        self.passed_over = self.passed_over.wrapping_sub(1);
        Some(Answer::Served(served, Some(Deviation::Late)))
    }

    /// Another size than was seen here: a smaller one is served, a larger one is to be remembered.
    fn serve_other_size(&mut self, bytes: u64, expected: &Expected) -> Answer {
        let position = self.next;
        self.slots[position].lower_least(bytes);
        if let Some(served) = self.serve(bytes) {
            return Answer::Served(served, None);
        }
        self.pass_over(position);
        Answer::Beside(match self.slots[position].fits(bytes) {
            true => Some(Deviation::Blocked),
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
        if self.slots[position].blockers > 0 {
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
        let (before, from) = self.slots.split_at(self.next.min(self.slots.len()));
        let overlaps = |slot: &Slot| slot.overlaps(&self.slots[live]);
        let reuser = match from.iter().position(overlaps) {
            Some(place) => before.len() + place,
            // At the latest itself, in the next entry.
            None => before.iter().position(overlaps).unwrap_or(live),
        };
        self.spend(reuser.abs_diff(self.next));
        self.lives[live] = self.lives[live].displaced();
        self.off_order.reusers.insert(live as u32, reuser as u32);
        self.set_blockers(reuser, self.slots[reuser].blockers + 1);
    }

    fn set_blockers(&mut self, reuser: usize, blockers: u32) {
        let [one, other] = self.first_reusers.first_two(reuser);
        let blocked = if blockers > 0 { self.first_reusers.always() } else { other };
        (self.slots[reuser].before, self.slots[reuser].blockers) = ([one, blocked], blockers);
    }

    /// A displaced position came back.
    #[cold]
    pub(super) fn unblock(&mut self, position: u32) {
        if let Some(reuser) = self.off_order.reusers.remove(&position) {
            self.set_blockers(reuser as usize, self.slots[reuser as usize].blockers - 1);
        }
    }

    /// Finds the reusers of all that is live anew, for an entry that begins after one that was cut short.
    pub(super) fn rebase(&mut self) {
        self.forget_displaced();
        for live in 0..self.slots.len() {
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
        self.next = self.slots.len();
        self.off_order.passed.clear();
        self.off_order.is_cut = true;
    }

    fn spend(&mut self, looks: usize) {
        self.off_order.effort = self.off_order.effort.saturating_sub(looks);
    }
}
