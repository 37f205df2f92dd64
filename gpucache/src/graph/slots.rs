//! Where the addresses of operands are in captured work, found by comparing captures.
//!
//! A word that lies in an operand is that operand's, if no other one has the address. On a GPU an argument of a kernel may also be a number
//! that looks like an address. So such a word is *sure* only once two captures with the operand at two addresses agreed on it.

use super::visitor::Operand;
use gpucache_engine::device::Word;

/// The words of a capture: the value and the owner of each.
#[derive(Debug, Default)]
pub(super) struct Slots(Vec<(u64, Owner)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// No operand has the address.
    Nobody,
    /// The operand with this number; `is_sure` if it certainly is its address.
    Operand { number: u32, is_sure: bool },
    /// Several operands have the address; `is_sure` if it certainly is that of one of them.
    Several { is_sure: bool },
    /// It changed although no operand moved there.
    Changing,
}

impl Owner {
    /// What an earlier capture knew for sure stays sure.
    fn or_known(self, known: Owner) -> Owner {
        match (self, known) {
            (Owner::Operand { number, .. }, Owner::Operand { number: before, is_sure: true }) if number == before => {
                known
            }
            (Owner::Several { .. }, Owner::Several { is_sure: true }) => known,
            _ => self,
        }
    }

    /// The value of its word if the operands move from `before` to `now`, and whether that is sure. `None` if it is not known.
    #[inline]
    fn after(self, value: u64, before: &[Operand], now: &[Operand]) -> Option<(u64, bool)> {
        match self {
            Owner::Nobody => Some((value, true)),
            Owner::Changing => None,
            Owner::Several { is_sure } => common_move(value, before, now).map(|value| (value, is_sure)),
            Owner::Operand { number, is_sure } => {
                let (one, other) = (&before[number as usize], &now[number as usize]);
                Some((other.address.wrapping_add(value.wrapping_sub(one.address)), is_sure))
            }
        }
    }
}

impl Slots {
    /// The words of a first capture.
    pub(super) fn of(words: &[Word], operands: &[Operand]) -> Slots {
        let slot = |word: &Word| {
            let mut owners = (0..).zip(operands).filter(|(_, operand)| operand.contains(word.value));
            let owner = match (owners.next(), owners.next()) {
                (None, _) => Owner::Nobody,
                (Some((number, _)), None) => Owner::Operand { number, is_sure: word.is_address },
                (Some(_), Some(_)) => Owner::Several { is_sure: word.is_address },
            };
            (word.value, owner)
        };
        Slots(words.iter().map(slot).collect())
    }

    /// The words of another capture of the same work, with what both captures tell.
    pub(super) fn compared(&self, before: &[Operand], words: &[Word], now: &[Operand]) -> Slots {
        let is_alike = self.0.len() == words.len() && before.len() == now.len();
        if !is_alike {
            return Slots::of(words, now);
        }
        let slot = |(&(old, known), word): (&(u64, Owner), &Word)| {
            let moved = |(one, other): (&Operand, &Operand)| {
                let offset = old.wrapping_sub(one.address);
                one.contains(old) && word.value == other.address.wrapping_add(offset)
            };
            let mut owners = (0..).zip(before.iter().zip(now)).filter(|(_, pair)| moved(*pair));
            let is_sure = |(one, other): (&Operand, &Operand)| word.is_address || one.address != other.address;
            let owner = match (owners.next(), owners.next()) {
                (Some((number, pair)), None) => Owner::Operand { number, is_sure: is_sure(pair) },
                (Some((_, pair)), Some(_)) => Owner::Several { is_sure: is_sure(pair) },
                (None, _) if old == word.value => Owner::Nobody,
                (None, _) => Owner::Changing,
            };
            (word.value, owner.or_known(known))
        };
        Slots(self.0.iter().zip(words).map(slot).collect())
    }

    /// Adds the words to change if the operands move from `before` to `now`. Returns false if that is not known for sure. Nothing is
    /// noted yet: see [`changed`](Slots::changed).
    pub(super) fn changes(&self, before: &[Operand], now: &[Operand], into: &mut Vec<(usize, u64)>) -> bool {
        for (place, &(old, owner)) in self.0.iter().enumerate() {
            match owner.after(old, before, now) {
                Some((value, _)) if value == old => {}
                Some((value, true)) => into.push((place, value)),
                _ => return false,
            }
        }
        true
    }

    /// The slots of work that has other words too: any move of an operand needs another capture.
    pub(super) fn unknown() -> Slots {
        Slots(vec![(0, Owner::Changing)])
    }

    /// Notes that these words were changed.
    pub(super) fn changed(&mut self, changes: &[(usize, u64)]) {
        changes.iter().for_each(|&(place, value)| self.0[place].0 = value);
    }
}

/// Where a word goes if all operands that have the address agree on that, as they do for one array that is passed several times.
fn common_move(value: u64, before: &[Operand], now: &[Operand]) -> Option<u64> {
    let owners = before.iter().zip(now).filter(|(one, _)| one.contains(value));
    let mut places = owners.map(|(one, other)| other.address.wrapping_add(value.wrapping_sub(one.address)));
    let first = places.next()?;
    places.all(|place| place == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operand(address: u64) -> Operand {
        Operand { address, bytes: 100, is_written: false, element: std::any::TypeId::of::<u8>() }
    }

    fn words(values: &[u64], is_address: bool) -> Vec<Word> {
        values.iter().map(|&value| Word { value, is_address, is_written: false, bytes: 0, element: None }).collect()
    }

    fn changes(slots: &Slots, before: &[Operand], now: &[Operand]) -> Option<Vec<(usize, u64)>> {
        let mut changes = Vec::new();
        slots.changes(before, now, &mut changes).then_some(changes)
    }

    #[test]
    fn a_word_that_may_be_a_number_is_sure_after_a_second_capture() {
        let (one, other, third) = ([operand(1000)], [operand(5000)], [operand(9000)]);
        let slots = Slots::of(&words(&[7, 1004], false), &one);
        assert_eq!(changes(&slots, &one, &one), Some(Vec::new()));
        assert_eq!(changes(&slots, &one, &other), None);
        let slots = slots.compared(&one, &words(&[7, 5004], false), &other);
        assert_eq!(changes(&slots, &other, &third), Some(vec![(1, 9004)]));
    }

    #[test]
    fn a_number_that_looks_like_an_address_stays() {
        let (one, other, third) = ([operand(1000)], [operand(5000)], [operand(9000)]);
        let slots = Slots::of(&words(&[1000, 1050], false), &one);
        let slots = slots.compared(&one, &words(&[5000, 1050], false), &other);
        assert_eq!(changes(&slots, &other, &third), Some(vec![(0, 9000)]));
    }

    #[test]
    fn addresses_are_sure_at_once() {
        let (one, other) = ([operand(1000), operand(2000)], [operand(2000), operand(1000)]);
        let slots = Slots::of(&words(&[1001, 2002, 40], true), &one);
        assert_eq!(changes(&slots, &one, &other), Some(vec![(0, 2001), (1, 1002)]));
    }

    #[test]
    fn one_array_twice_is_told_apart_once_the_two_differ() {
        let (same, apart) = ([operand(1000), operand(1000)], [operand(1000), operand(3000)]);
        let slots = Slots::of(&words(&[1000, 1008], true), &same);
        assert_eq!(changes(&slots, &same, &apart), None);
        let slots = slots.compared(&same, &words(&[3000, 1008], true), &apart);
        assert_eq!(changes(&slots, &apart, &[operand(0), operand(50)]), Some(vec![(0, 50), (1, 8)]));
    }

    #[test]
    fn one_array_twice_moves_as_one() {
        let (one, other, third) = ([operand(1000); 2], [operand(5000); 2], [operand(9000); 2]);
        let slots = Slots::of(&words(&[1004], true), &one);
        assert_eq!(changes(&slots, &one, &other), Some(vec![(0, 5004)]));
        let slots = Slots::of(&words(&[1004], false), &one);
        assert_eq!(changes(&slots, &one, &other), None);
        let slots = slots.compared(&one, &words(&[5004], false), &other);
        assert_eq!(changes(&slots, &other, &third), Some(vec![(0, 9004)]));
    }

    #[test]
    fn work_with_numbers_that_change_is_captured_anew() {
        let (one, other) = ([operand(1000)], [operand(5000)]);
        let slots = Slots::of(&words(&[1, 1000], false), &one).compared(&one, &words(&[2, 5000], false), &other);
        assert_eq!(changes(&slots, &other, &one), None);
    }
}
