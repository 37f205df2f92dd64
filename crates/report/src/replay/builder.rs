//! Builds a history from one operation after the other. Each operation is checked against those before it.

use std::collections::HashMap;

use super::history::{History, Op, operations};

/// The size of pages if the trace does not say it: that of a GPU.
const PAGE: u64 = 2 << 20;
/// Each allocation counts as a multiple of this.
const GRANULE: u64 = 256;

/// A history that is not complete yet.
#[derive(Debug, Default)]
pub(super) struct Builder {
    steps: Vec<Vec<Op>>,
    number: u64,
    lives: HashMap<u64, Life>,
    free_slots: Vec<u32>,
    slots: u32,
    scopes: Vec<String>,
    /// The numbers of their names.
    numbers: HashMap<String, u32>,
    /// The scopes that are entered and not left.
    entered: Vec<Option<u32>>,
    live_bytes: u64,
    peak_live_bytes: u64,
    /// The largest size of pages; 0 if no device has any.
    page_bytes: u64,
}

#[derive(Clone, Copy, Debug)]
enum Life {
    Going { slot: u32, bytes: u64 },
    Over,
}

impl Builder {
    /// The next operations belong to the step with this number.
    pub(super) fn step(&mut self, number: u64) -> Result<(), String> {
        if !self.steps.is_empty() && number < self.number {
            return Err(format!("step {number} comes after step {}", self.number));
        }
        if self.steps.is_empty() || number != self.number {
            self.steps.push(Vec::new());
            self.number = number;
        }
        Ok(())
    }

    /// A device whose pages have this size; 0 if it has none.
    pub(super) fn pages(&mut self, page_bytes: u64) {
        self.page_bytes = self.page_bytes.max(page_bytes);
    }

    /// A new allocation; no other one of the history has this id.
    pub(super) fn allocate(&mut self, id: u64, bytes: u64) -> Result<(), String> {
        if self.lives.contains_key(&id) {
            return Err(format!("{id} was allocated before: an id names one allocation"));
        }
        let size = isize::try_from(bytes).map_err(|_| format!("{bytes} bytes are more than a machine can address"))?;
        let live_bytes = self.live_bytes.checked_add(rounded(bytes));
        self.live_bytes = live_bytes.ok_or("more bytes are alive than a machine can count")?;
        self.peak_live_bytes = self.peak_live_bytes.max(self.live_bytes);

        let slot = self.free_slot()?;
        self.lives.insert(id, Life::Going { slot, bytes });
        self.push(Op::Allocate { slot, bytes: size.unsigned_abs() })
    }

    /// The end of an allocation of this and of earlier steps.
    pub(super) fn free(&mut self, id: u64, bytes: u64) -> Result<(), String> {
        let life = self.lives.get_mut(&id).ok_or_else(|| format!("{id} is freed, but was never allocated"))?;
        let Life::Going { slot, bytes: allocated } = *life else { return Err(format!("{id} is freed twice")) };
        if bytes != allocated {
            return Err(format!("{id} is freed with {bytes} bytes, but was allocated with {allocated}"));
        }
        *life = Life::Over;
        self.live_bytes -= rounded(bytes);
        self.free_slots.push(slot);
        self.push(Op::Free { slot })
    }

    /// Enters the scope of this name.
    pub(super) fn enter(&mut self, name: &str) -> Result<(), String> {
        let scope = self.scope(name)?;
        self.go(Some(scope))
    }

    /// Leaves a scope; nothing if it was entered before the history began.
    pub(super) fn leave(&mut self, name: &str) -> Result<(), String> {
        let scope = Some(self.scope(name)?);
        let Some(place) = self.entered.iter().rposition(|entered| *entered == scope) else { return Ok(()) };
        self.entered.remove(place);
        self.push(Op::Leave { scope })
    }

    /// As [`allocate`](Builder::allocate), in the scope of this name or in none, whatever was entered last.
    pub(super) fn allocate_in(&mut self, name: Option<&str>, id: u64, bytes: u64) -> Result<(), String> {
        let scope = name.map(|name| self.scope(name)).transpose()?;
        if self.entered.last().copied().flatten() == scope {
            return self.allocate(id, bytes);
        }
        self.go(scope)?;
        self.allocate(id, bytes)?;
        self.entered.pop();
        self.push(Op::Leave { scope })
    }

    fn go(&mut self, scope: Option<u32>) -> Result<(), String> {
        self.entered.push(scope);
        self.push(Op::Enter { scope })
    }

    /// The number of a scope. A new name gets a new number.
    fn scope(&mut self, name: &str) -> Result<u32, String> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = u32::try_from(self.scopes.len()).map_err(|_| "too many scopes".to_owned())?;
        self.scopes.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        Ok(number)
    }

    /// The slot that was freed last, which is likely still in the processor's cache, or a new one.
    fn free_slot(&mut self) -> Result<u32, String> {
        if let Some(slot) = self.free_slots.pop() {
            return Ok(slot);
        }
        let slot = self.slots;
        self.slots = slot.checked_add(1).ok_or("too many allocations are alive")?;
        Ok(slot)
    }

    fn push(&mut self, op: Op) -> Result<(), String> {
        self.steps.last_mut().ok_or("it belongs to no step")?.push(op);
        Ok(())
    }

    pub(super) fn finish(self, name: String) -> Result<History, String> {
        if operations(&self.steps) == 0 {
            return Err("there is nothing to replay".to_owned());
        }
        let Self { steps, slots, scopes, peak_live_bytes, page_bytes, .. } = self;
        let page_bytes = if page_bytes > 0 { page_bytes } else { PAGE };
        Ok(History { name, steps, scopes, slots: slots as usize, peak_live_bytes, page_bytes, is_one_entry: false })
    }
}

/// No allocation is larger than `isize::MAX`, so this does not overflow.
fn rounded(bytes: u64) -> u64 {
    bytes.next_multiple_of(GRANULE)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_is_of_what_lives_at_once_each_rounded_up() {
        let mut builder = Builder::default();
        builder.step(3).unwrap();
        builder.allocate(10, 1).unwrap(); // 256
        builder.allocate(11, 257).unwrap(); // 768
        builder.free(10, 1).unwrap(); // 512
        builder.step(4).unwrap();
        builder.allocate(12, 256).unwrap(); // 768
        builder.allocate(13, 0).unwrap();
        builder.free(11, 257).unwrap(); // 256
        builder.allocate(14, 300).unwrap(); // 768
        let history = builder.finish("tiny".to_owned()).unwrap();
        assert_eq!((history.peak_live_bytes, history.operations(), history.steps.len()), (768, 7, 2));
    }

    #[test]
    fn an_allocation_is_made_in_its_scope_whatever_was_entered_last() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        builder.leave("of before").unwrap();
        builder.enter("one").unwrap();
        builder.enter("other").unwrap();
        builder.allocate_in(Some("other"), 0, 8).unwrap();
        builder.allocate_in(Some("one"), 1, 8).unwrap();
        builder.leave("one").unwrap();
        builder.allocate_in(None, 2, 8).unwrap();
        builder.leave("other").unwrap();
        builder.allocate_in(None, 3, 8).unwrap();
        let history = builder.finish(String::new()).unwrap();
        assert_eq!(history.scopes, ["of before", "one", "other"]);
        let allocate = |slot| Op::Allocate { slot, bytes: 8 };
        let [enter, leave] = [|scope| Op::Enter { scope }, |scope| Op::Leave { scope }] as [fn(Option<u32>) -> Op; 2];
        let (one, other) = (Some(1), Some(2));
        let inside = [enter(one), enter(other), allocate(0), enter(one), allocate(1), leave(one), leave(one)];
        let outside = [enter(None), allocate(2), leave(None), leave(other), allocate(3)];
        assert_eq!(history.steps, [[&inside[..], &outside].concat()]);
        assert_eq!(history.operations(), 4);
    }

    #[test]
    fn a_slot_is_used_again_once_it_is_free() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        for id in 0..100 {
            builder.allocate(id, 8).unwrap();
            builder.free(id, 8).unwrap();
        }
        let history = builder.finish(String::new()).unwrap();
        assert_eq!(history.slots, 1);
        assert_eq!(history.steps[0][6..8], [Op::Allocate { slot: 0, bytes: 8 }, Op::Free { slot: 0 }]);
    }

    #[test]
    fn sums_that_do_not_fit_are_refused() {
        let mut builder = Builder::default();
        builder.step(0).unwrap();
        assert!(builder.allocate(0, u64::MAX).unwrap_err().contains("address"));
        builder.allocate(1, isize::MAX as u64 - 255).unwrap();
        builder.allocate(2, isize::MAX as u64 - 255).unwrap();
        assert!(builder.allocate(3, 1 << 20).unwrap_err().contains("count"));
    }

    #[test]
    fn a_history_without_operations_is_refused() {
        assert!(Builder::default().finish(String::new()).is_err());
    }
}
