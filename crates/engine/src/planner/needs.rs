//! The memory that a scope needs again and again between two arenas: that of the prompt before each text that a model generates, for example.
//! A look at the range would give it back, since the loop of an arena needs none of it. Once the scope has taken such memory again several
//! times, looks keep as much as it needed lately. The second half of a recorded generation without scopes took 10,900
//! calls for pages without this, and 900 with it.

/// The bytes that a scope lately had in use at once.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// The most bytes in this window.
    most: u64,
    /// The most bytes in the window before.
    most_before: u64,
    /// The entry with which this window began.
    begun: u64,
    /// The arenas of this window.
    arenas: u32,
    /// The bytes that the range reserved before and after the last look that gave memory back.
    gave_back: (u64, u64),
    /// How often most of that memory was reserved again until the next arena, up to [`REGAINED`].
    regained: u32,
    /// Whether no look has seen this arena.
    is_new: bool,
}

/// The arenas of a window, or its entries if there are fewer arenas. The needs of a scope are remembered for one to two windows. With 256
/// entries alone, half the length of a text, a generation forgot its longest texts after two others. On an H200, the last 40 of 60 texts took
/// 7,101 calls for memory then, and take 5,356 now.
const ARENAS: u32 = 16;
const WINDOW: u64 = 4096;
/// Memory that was given back and reserved again so often is needed again. The first entries of many programs do so twice.
const REGAINED: u32 = 3;
/// Memory of less than this share of the reserved memory does not count. With 1/8, a recorded fit of splats reserved 1.021 times
/// its live memory, and 1.016 with 1/6.
const MUCH: u64 = 6;

impl Needs {
    /// Notes an arena, and that at most so many bytes were in use since the last note.
    pub(super) fn begin(&mut self, entry: u64, in_use: u64) {
        self.note(entry, in_use);
        self.arenas += 1;
        self.is_new = true;
    }

    /// Notes that at most so many bytes were in use since the last note.
    pub(super) fn note(&mut self, entry: u64, in_use: u64) {
        if self.arenas >= ARENAS || entry.saturating_sub(self.begun) >= WINDOW {
            (self.most_before, self.most, self.begun, self.arenas) = (self.most, 0, entry, 0);
        }
        self.most = self.most.max(in_use);
    }

    /// Begins a look at a range that reserves so many bytes. Returns how many bytes the scope is likely to have in use at once again.
    pub(super) fn look(&mut self, reserved: u64) -> u64 {
        let is_new = std::mem::take(&mut self.is_new);
        if self.regained >= REGAINED {
            return self.most.max(self.most_before);
        }
        let (before, after) = self.gave_back;
        if is_new && before > after {
            let is_regained = reserved.saturating_sub(after) >= (before - after) / 2;
            self.regained += u32::from(is_regained);
            self.gave_back = (0, 0);
        }
        0
    }

    /// Notes that a look changed the reserved bytes from `before` to `after`.
    pub(super) fn gave_back(&mut self, before: u64, after: u64) {
        if before.saturating_sub(after) > before / MUCH {
            self.gave_back = (before, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes that a look keeps after so many cycles, in which the scope needs `need` bytes between two arenas, and 400 bytes with an arena.
    fn after(needs: &mut Needs, entries: std::ops::Range<u64>, need: u64) -> u64 {
        let mut keep = 0;
        for entry in entries {
            needs.begin(entry, need);
            keep = needs.look(need);
            needs.gave_back(need, keep.clamp(400, need));
        }
        keep
    }

    #[test]
    fn memory_that_is_reserved_again_after_looks_is_kept() {
        let mut needs = Needs::default();
        let window = u64::from(ARENAS);
        assert_eq!(after(&mut needs, 0..4, 1600), 0);
        assert_eq!(after(&mut needs, 4..5, 1600), 1600);
        assert_eq!(after(&mut needs, 5..window, 800), 1600);
        assert_eq!(after(&mut needs, window..2 * window, 800), 1600, "a larger need is remembered for a while");
        assert_eq!(after(&mut needs, 2 * window..2 * window + 1, 800), 800);
    }

    #[test]
    fn needs_are_forgotten_while_one_arena_serves() {
        let mut needs = Needs::default();
        assert_eq!(after(&mut needs, 0..5, 1600), 1600);
        needs.note(WINDOW, 400);
        assert_eq!(needs.look(1600), 1600);
        needs.note(2 * WINDOW, 400);
        assert_eq!(needs.look(1600), 400);
    }

    #[test]
    fn memory_that_is_needed_once_is_not_kept() {
        let mut needs = Needs::default();
        assert_eq!(after(&mut needs, 0..1, 1600), 0);
        assert_eq!(after(&mut needs, 1..WINDOW, 400), 0);
    }
}
