//! How the cursor answers requests that are not the expected ones.
//!
//! The first matching line of this table decides which position a request belongs to. *Next* is the expected position. A request is
//! *like* a position if its bytes may be the position's in another entry (`Expected::is_like`).
//!
//! | the request                                                          | function             | answer, and deviation                          |
//! |----------------------------------------------------------------------|----------------------|------------------------------------------------|
//! | has the bytes of next, which has no place                            | `serve_next`         | carried, or beside, as planned                 |
//! | fits next, but a live array lies there                               | `serve_next`         | beside: `Blocked`                              |
//! | is larger than next by some of the steps by which next grows         | `serve_next`         | beside: `Larger`, or carried                   |
//! | is like next, in an entry whose sizes differ from the plan           | `serve_next`         | there; or beside: `Blocked`, `Larger`, or none |
//! | has the bytes of a position behind next                              | `serve_ahead`        | there, or beside: `Early`, `Resized`           |
//! | is like next, which is carried                                       | `serve_like_carried` | carried: it has another size now               |
//! | fits a position that was passed over, where nothing live lies        | `serve_passed`       | there: `Late`                                  |
//! | is like the one behind next, after an extra request like next        | `serve_rescaled`     | there, or beside: `Resized`                    |
//! | is none of these                                                     |                      | beside: `Extra`                                |
//!
//! *There* means at the position's place; *beside* means by memory outside the plan. So a request of an unexpected size is first taken
//! for an extra one. The next request may show that it was the expected one (`Resized`). If that request also has
//! another size (`serve_rescaled`), all sizes are assumed to differ for the rest of the entry.
//!
//! All functions here keep the cursor's invariant. They may look at every position, until `effort` is used up.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{Cursor, DISPLACED, Position, Served};
use crate::entries::envelope::{Envelope, Expected};

/// The answer to a request that is not the expected one.
#[derive(Debug)]
pub enum Answer {
    /// Served by the plan all the same.
    Served(Served, Option<Deviation>),
    /// A ring has to carry it, as this position, which the cursor has stepped over.
    Carried(usize),
    /// Memory outside the plan has to serve it.
    Beside(Option<Deviation>),
    /// Memory outside the plan has to serve it: it is not regular, and has no room, or its room is full. If the order of the entry is known,
    /// the number of a full room's position comes with it, and the bytes that the room would need.
    Irregular(Option<(usize, u64)>),
}

/// A way in which an entry differs from its plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deviation {
    /// The plan has no such allocation.
    Extra,
    /// The position was served earlier than planned; the cursor passed over others.
    Early {
        /// The number of positions that were passed over.
        missing: u64,
    },
    /// The position was served after it had been passed over.
    Late,
    /// A request that was taken for an extra one was this position's, in another size.
    Resized {
        /// The number of the position.
        position: usize,
        /// The size that was asked for, in bytes.
        bytes: u64,
    },
    /// The request is larger than all earlier ones of this position.
    Larger {
        /// The number of the position.
        position: usize,
    },
    /// A live array lies in the place of this position.
    Blocked {
        /// The number of the position.
        position: usize,
    },
}

/// The state of deviations. It is about the current entry, unless a field says otherwise.
#[derive(Debug, Default)]
pub(super) struct OffOrder {
    /// The reuser of each displaced position, by position; it may come from an earlier entry.
    pub(super) reusers: HashMap<u32, u32>,
    /// Positions that were passed over, the latest one last.
    pub(super) passed: Vec<u32>,
    /// The position that was expected when an extra request came, and the request's bytes.
    pub(super) unlike: Option<(usize, u64)>,
    /// Whether this entry's sizes differ from the plan's.
    pub(super) is_scaled: bool,
    /// The least bytes of the first position and its spread in other entries, if it serves fewer bytes in this one.
    pub(super) first: Option<(u64, u64)>,
    /// How many more positions the entry may look at.
    pub(super) effort: usize,
    /// Whether the cursor stopped before the end of the entry.
    pub(super) is_cut: bool,
}

/// How many positions ahead a request is searched, and how many passed-over positions are remembered. If a program leaves out more
/// at once, the rest of its entry is served beside its plan. With a wider window, an extra request of a common size would be taken for
/// a position far ahead, and all positions in between would be passed over.
const WINDOW: usize = 16;
/// How many positions ahead a request is searched among those whose sizes vary, because many requests look alike there. If a request
/// is a little larger than all before of a position in between, it is more likely that position's.
const NEAR: usize = 2;
/// Looks at other positions that an entry may spend per position of the plan: as many as 64 searches for overlaps through the whole
/// plan. Without a limit, an entry that deviates everywhere would take time square in its length. With a lower limit, the plan
/// would serve fewer requests of entries that deviate.
const LOOKS_PER_POSITION: usize = 64;
/// Looks that an entry may spend besides, so that a few deviations do not stop a short entry.
const FREE_LOOKS: usize = 1 << 12;

impl OffOrder {
    /// Begins an entry of this many positions.
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
        if self.rooms.is_some() {
            return self.serve_partly(bytes, envelope);
        }
        if self.off_order.effort == 0 {
            self.stop();
        }
        self.serve_next(bytes, envelope)
            .or_else(|| self.serve_ahead(bytes, envelope))
            .or_else(|| self.serve_like_carried(bytes, envelope))
            .or_else(|| self.serve_passed(bytes))
            .or_else(|| self.serve_rescaled(bytes, envelope))
            .unwrap_or_else(|| {
                self.off_order.unlike = Some((self.next, bytes));
                Answer::Beside(Some(Deviation::Extra))
            })
    }

    /// Answers a request that belongs to the next position.
    fn serve_next(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        let position = self.next;
        let expected = envelope.at(position).filter(|_| position < self.positions.len())?;
        if !expected.is_planned() {
            return self.may_be_placeless(bytes, expected).then(|| self.step_over());
        }
        if self.positions[position].fits(bytes) {
            self.pass_over(position);
            return Some(Answer::Beside(Some(Deviation::Blocked { position })));
        }
        self.is_scaled(bytes, expected).then(|| self.serve_other_size(bytes, expected))
    }

    /// Whether this position, which has no place, may be that of the request.
    pub(super) fn may_be_placeless(&self, bytes: u64, expected: &Expected) -> bool {
        expected.has(bytes) || self.is_scaled(bytes, expected)
    }

    fn is_scaled(&self, bytes: u64, expected: &Expected) -> bool {
        (self.off_order.is_scaled && expected.is_like(bytes)) || expected.grows_to(bytes)
    }

    /// Steps over the next position, which has no place.
    pub(super) fn step_over(&mut self) -> Answer {
        let is_carried = self.positions[self.next].is_carried();
        self.step_aside();
        if is_carried { Answer::Carried(self.next - 1) } else { Answer::Beside(None) }
    }

    /// Serves a position behind the next one, and passes over those before it.
    fn serve_ahead(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        let mut ahead = self.next + 1..self.positions.len().min(self.next + WINDOW);
        let found = ahead.find(|&position| {
            let is_near = position <= self.next + NEAR && !self.outgrows_one_before(position, bytes, envelope);
            envelope.at(position).is_some_and(|expected| expected.has(bytes) && (is_near || !expected.varies()))
        })?;
        let deviation = Some(self.account_for(found, envelope));
        while self.next < found {
            self.pass_over(self.next);
        }
        let served = self.serve(bytes).map(|served| Answer::Served(served, deviation));
        Some(served.unwrap_or_else(|| {
            self.pass_over(found);
            Answer::Beside(deviation)
        }))
    }

    /// Whether the bytes are a little more than those of a position from the next one up to this one.
    fn outgrows_one_before(&self, position: usize, bytes: u64, envelope: &Envelope) -> bool {
        (self.next..position).filter_map(|before| envelope.at(before)).any(|before| before.outgrows(bytes))
    }

    fn serve_like_carried(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        envelope.at(self.next).filter(|next| next.is_carried() && next.is_like(bytes))?;
        self.step_aside();
        Some(Answer::Carried(self.next - 1))
    }

    /// The first live position that lies in this place.
    fn first_in(&self, wanted: &Position) -> Option<usize> {
        (0..self.positions.len()).find(|&other| self.is_live(other) && self.positions[other].overlaps(wanted))
    }

    /// Serves a position that was passed over before.
    fn serve_passed(&mut self, bytes: u64) -> Option<Answer> {
        let mut looks = 0;
        let place = self.off_order.passed.iter().rposition(|&position| {
            let passed = &self.positions[position as usize];
            if !passed.is_planned() || !passed.fits(bytes) {
                return false;
            }
            let in_the_way = self.first_in(passed);
            looks += in_the_way.unwrap_or(self.positions.len());
            in_the_way.is_none()
        });
        self.spend(looks);
        let place = place?;
        let position = self.off_order.passed.remove(place);
        let served = self.positions[position as usize].serve(position as usize, bytes);
        self.begin_life(served, bytes);
        self.block(position as usize);
        self.passed_over = self.passed_over.wrapping_sub(1);
        Some(Answer::Served(served, Some(Deviation::Late)))
    }

    /// Serves the position behind the next one. The next one is passed over: the extra request before was its request.
    fn serve_rescaled(&mut self, bytes: u64, envelope: &Envelope) -> Option<Answer> {
        let (position, before) = self.off_order.unlike.filter(|&(position, _)| position == self.next)?;
        let following = envelope.at(position + 1).filter(|following| following.is_like(bytes))?;
        envelope.at(position).filter(|next| next.is_like(before))?;
        self.off_order.is_scaled = true;
        let resized = self.account_for(position + 1, envelope);
        self.pass_over(position);
        Some(match self.serve_other_size(bytes, following) {
            Answer::Served(served, _) => Answer::Served(served, Some(resized)),
            Answer::Beside(_) | Answer::Carried(_) | Answer::Irregular(_) => Answer::Beside(Some(resized)),
        })
    }

    /// Returns which deviation explains that the position `found` was requested: either the extra request before was the next
    /// position's, in another size, or the positions before `found` are missing.
    fn account_for(&mut self, found: usize, envelope: &Envelope) -> Deviation {
        let position = self.next;
        let is_resized = |&(next, bytes): &(usize, u64)| {
            let is_like = envelope.at(position).is_some_and(|expected| expected.is_like(bytes));
            next == position && found == position + 1 && is_like
        };
        match self.off_order.unlike.take().filter(is_resized) {
            Some((_, bytes)) => {
                self.lower_least(position, bytes);
                Deviation::Resized { position, bytes }
            }
            None => Deviation::Early { missing: (found - position) as u64 },
        }
    }

    /// Serves a request whose size was not seen here before, if it is smaller. A larger size is reported, to be remembered.
    fn serve_other_size(&mut self, bytes: u64, expected: &Expected) -> Answer {
        let position = self.next;
        self.lower_least(position, bytes);
        if let Some(served) = self.serve(bytes) {
            return Answer::Served(served, None);
        }
        self.pass_over(position);
        let is_in_place = self.positions[position].is_planned() && self.positions[position].fits(bytes);
        Answer::Beside(match is_in_place {
            true => Some(Deviation::Blocked { position }),
            // The request is larger than the place. The envelope may know this size already.
            false => expected.is_planned().then_some(Deviation::Larger { position }),
        })
    }

    /// Steps over the next position without serving it.
    pub(super) fn pass_over(&mut self, position: usize) {
        self.leave_behind(position);
        if self.off_order.passed.len() == WINDOW {
            self.off_order.passed.remove(0);
        }
        self.off_order.passed.push(position as u32);
    }

    /// As [`pass_over`](Cursor::pass_over), for a position that is not asked for later.
    pub(super) fn leave_behind(&mut self, position: usize) {
        self.next = position + 1;
        self.passed_over += 1;
        for place in 0..self.first_reusers.before(position).len() {
            let live = self.first_reusers.before(position)[place] as usize;
            if self.is_live(live) && self.lives[live] & DISPLACED == 0 {
                self.block(live);
            }
        }
        if self.positions[position].blockers > 0 {
            self.hand_on(position);
        }
    }

    /// Finds another reuser for each displaced position that blocks this one.
    fn hand_on(&mut self, position: usize) {
        let blocks = |&(_, &reuser): &(&u32, &u32)| reuser as usize == position;
        let displaced: Vec<u32> = self.off_order.reusers.iter().filter(blocks).map(|(&live, _)| live).collect();
        self.set_blockers(position, 0);
        self.spend(self.off_order.reusers.len());
        displaced.into_iter().for_each(|live| self.block(live as usize));
    }

    /// Finds a new reuser of a live position, from `next` on. If the position blocked another one before, it no longer does.
    pub(super) fn block(&mut self, live: usize) {
        let (before, from) = self.positions.split_at(self.next.min(self.positions.len()));
        let overlaps = |position: &Position| position.overlaps(&self.positions[live]);
        let reuser = match from.iter().position(overlaps) {
            Some(place) => before.len() + place,
            // It finds itself in the next entry at the latest.
            None => before.iter().position(overlaps).unwrap_or(live),
        };
        let looks = if reuser < before.len() { from.len() + reuser } else { reuser - before.len() };
        self.spend(looks);
        self.displace(live, reuser);
    }

    fn displace(&mut self, live: usize, reuser: usize) {
        self.lives[live] |= DISPLACED;
        self.off_order.reusers.insert(live as u32, reuser as u32);
        self.set_blockers(reuser, self.positions[reuser].blockers + 1);
    }

    fn set_blockers(&mut self, reuser: usize, blockers: u32) {
        let [one, other] = self.first_reusers.first_two(reuser);
        let blocked = if blockers > 0 { self.first_reusers.always_live() } else { other };
        (self.positions[reuser].before, self.positions[reuser].blockers) = ([one, blocked], blockers);
    }

    /// Takes back a displaced position.
    #[cold]
    pub(super) fn unblock(&mut self, position: u32) {
        if let Some(reuser) = self.off_order.reusers.remove(&position) {
            self.set_blockers(reuser as usize, self.positions[reuser as usize].blockers - 1);
        }
    }

    /// Finds new reusers for all live positions, when an entry begins after one that was cut short. Live positions do not overlap, so those that
    /// lie in a place are neighbours in order of address, and all of them are found in one round.
    pub(super) fn rebase(&mut self) {
        self.forget_displaced();
        let start = |live: usize| (self.positions[live].start(), live);
        let mut waiting: BTreeMap<u64, usize> = self.live_positions().map(start).collect();
        let next = self.next.min(self.positions.len());
        for place in (next..self.positions.len()).chain(0..next) {
            while let Some(live) = self.last_in(place, &waiting) {
                waiting.remove(&self.positions[live].start());
                self.displace(live, place);
            }
        }
    }

    /// The last of these positions in order of address that lies in the place of this one.
    fn last_in(&self, place: usize, starts: &BTreeMap<u64, usize>) -> Option<usize> {
        let wanted = &self.positions[place];
        let end = wanted.start().saturating_add(wanted.size());
        let (_, &live) = starts.range(..end).next_back().filter(|_| wanted.is_planned())?;
        self.positions[live].overlaps(wanted).then_some(live)
    }

    /// Forgets which positions displaced positions block.
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

    pub(super) fn spend(&mut self, looks: usize) {
        self.off_order.effort = self.off_order.effort.saturating_sub(looks);
    }
}
