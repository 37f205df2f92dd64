//! The causes that a diagnosis can name.

use super::words::WORDS;

/// A cause that prevents planning, or makes a scope reserve more memory than it needs.
///
/// ```
/// use gpucache::{cache_scope, diagnosis::Cause, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..20 {
///     cache_scope!(counted, recycle = "off", { drop(host.zeros::<u8>(4096)?) });
/// }
/// let diagnosis = gpucache::diagnose("counted").unwrap();
/// assert_eq!(diagnosis.findings[0].cause, Cause::NotRecycled);
/// println!("{}: {}", diagnosis.findings[0], Cause::NotRecycled.remedy());
/// # Ok::<(), gpucache::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// Arrays outlive their entry. Either the program never drops some of them, so that more and more are alive. Or it drops them
    /// in no fixed order, and they occupy addresses that the plan needs for other arrays.
    Escapes,
    /// The order of allocations changes from entry to entry: some entries have allocations that others lack.
    ChangingOrder,
    /// The sizes of arrays change from entry to entry, independently of each other or by much.
    ChangingShapes,
    /// Entries allocate the same arrays, but drop them in different orders.
    ChangingDrops,
    /// An entry allocates on several streams of the device. A plan covers one stream.
    OtherStreams,
    /// The program drops arrays while other streams may still use them. Their memory is not free before that work ends.
    UsedElsewhere,
    /// The scope is entered again inside itself and hardly ever left. Only the outermost entry is planned.
    Nested,
    /// The scope encloses a loop instead of the body of the loop: one entry makes the same allocations many times.
    LoopInside,
    /// Most entries allocate nothing that the scope serves.
    Empty,
    /// The scope is entered with [`Recycle::Off`](crate::Recycle::Off): each allocation calls the device.
    NotRecycled,
    /// With [`Recycle::Keyed`](crate::Recycle::Keyed) the scope keeps every block, and far more than is ever live at once.
    KeyedWaste,
    /// Entries make more allocations than a plan records: 131,072.
    TooLong,
    /// The arrays of an entry together have more bytes than a plan has addresses for: 512 GiB.
    TooLarge,
    /// A limit of the scope, the device or the process leaves no room for the plan or for allocations. Or it makes idle memory
    /// go back before the scope needs it again.
    Limit,
    /// The device runs short of memory again and again, without a limit.
    Short,
    /// The plan finds no room unless the device reserves clearly more memory than entries ever had in use at once.
    NoRoom,
    /// The program trims the device between entries, and the scope then takes its memory from the device again.
    Trimmed,
    /// The idle limit of the device returns the memory of the scope between entries, and the scope takes it from the device again.
    IdleLimit,
    /// Other scopes, or another limit, take the idle memory of the scope between entries, and the scope takes new memory from the
    /// device.
    Displaced,
    /// The program invalidates the scope again and again. Each time the scope learns anew.
    Invalidated,
    /// Names that differ only in a number have one scope each, and few of them are entered often enough to be planned.
    ManyNames,
}

impl Cause {
    /// The description of the cause, as a sentence without its full stop.
    pub(super) fn meaning(self) -> &'static str {
        self.words()[0]
    }

    /// Why the cause prevents a plan or costs memory, as a sentence without its full stop.
    ///
    /// ```
    /// assert!(gpucache::diagnosis::Cause::NotRecycled.reason().contains("device"));
    /// ```
    pub fn reason(self) -> &'static str {
        self.words()[1]
    }

    /// The remedy, as a sentence without its full stop.
    ///
    /// ```
    /// assert!(gpucache::diagnosis::Cause::NotRecycled.remedy().contains("recycle"));
    /// ```
    pub fn remedy(self) -> &'static str {
        self.words()[2]
    }

    fn words(self) -> [&'static str; 3] {
        WORDS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_words() {
        use Cause::*;
        let causes = [
            Escapes,
            ChangingOrder,
            ChangingShapes,
            ChangingDrops,
            OtherStreams,
            UsedElsewhere,
            Nested,
            LoopInside,
            Empty,
            NotRecycled,
            KeyedWaste,
            TooLong,
            TooLarge,
            Limit,
            Short,
            NoRoom,
            Trimmed,
            IdleLimit,
            Displaced,
            Invalidated,
            ManyNames,
        ];
        let names: Vec<&str> =
            include_str!("words.rs").lines().filter_map(|line| line.strip_prefix("    // ")).collect();
        assert_eq!(names, causes.map(|cause| format!("{cause:?}")));
        for cause in causes {
            let words = cause.words();
            assert!(words.iter().all(|text| !text.is_empty() && !text.ends_with('.')), "{cause:?}");
        }
    }
}
