//! The causes that a diagnosis can name: what happens, why it matters, and what to do, as sentences without their full stops.

/// Makes an enum of causes with their words.
macro_rules! causes {
    ($(#[$of:meta])* pub enum $name:ident {
        $($(#[$doc:meta])* $cause:ident: $meaning:literal, $reason:literal, $remedy:literal;)*
    }) => {
        $(#[$of])*
        pub enum $name {
            $($(#[$doc])* $cause,)*
        }

        impl $name {
            fn words(self) -> [&'static str; 3] {
                match self {
                    $($name::$cause => [$meaning, $reason, $remedy],)*
                }
            }
        }
    };
}

causes! {
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
    Escapes:
        "arrays outlive their entry",
        "a plan reuses the addresses of an array once its entry ends; an array that is alive then needs memory of its own",
        "drop these arrays within the entry, put the scope around the code that drops them as well, or allocate long-lived arrays outside all \
         scopes (`uncached`) or in a scope of their own";
    /// The order of allocations changes from entry to entry: some entries have allocations that others lack.
    ChangingOrder:
        "the order of allocations changes from entry to entry",
        "a plan serves the allocations of an entry in one known order",
        "give work that runs only in some entries a scope of its own; choose recycle = \"range\" if no order ever repeats";
    /// The sizes of arrays change from entry to entry, independently of each other or by much.
    ChangingShapes:
        "the sizes of arrays change from entry to entry",
        "a plan has a place of limited size for each array",
        "pad arrays to a few sizes, give each size a scope of its own, or choose recycle = \"range\"";
    /// Entries allocate the same arrays, but drop them in different orders.
    ChangingDrops:
        "entries drop the same arrays in different orders",
        "a plan lets arrays share addresses if they are never alive at the same time",
        "drop each array at a fixed place of the entry, or choose recycle = \"range\"";
    /// An entry allocates on several streams of the device. A plan covers one stream.
    OtherStreams:
        "one entry allocates on several streams",
        "a plan covers the allocations of one stream",
        "give each stream a scope of its own";
    /// The program drops arrays while other streams may still use them. Their memory is not free before that work ends.
    UsedElsewhere:
        "the program drops arrays while other streams may still use them",
        "their memory stays reserved until the work of those streams has ended",
        "allocate an array on the stream that uses it last, or synchronize with that stream before the drop";
    /// The scope is entered again inside itself and hardly ever left. Only the outermost entry is planned.
    Nested:
        "the scope is entered again inside itself",
        "gpucache plans only the outermost entry of a scope, and the outermost entry hardly ever ends",
        "give the outer block another name, or remove its scope";
    /// The scope encloses a loop instead of the body of the loop: one entry makes the same allocations many times.
    LoopInside:
        "the scope encloses a loop: one entry makes the same allocations many times",
        "gpucache learns a plan from entries that repeat, and this entry does not end",
        "move the scope into the loop, around its body";
    /// Most entries allocate nothing that the scope serves.
    Empty:
        "most entries allocate nothing from the scope",
        "the innermost scope of the allocating thread serves an allocation",
        "put the scope where its thread allocates the arrays, or remove it";
    /// The scope is entered with [`Recycle::Off`](crate::Recycle::Off): each allocation calls the device.
    NotRecycled:
        "the scope is entered with recycle = \"off\"",
        "each allocation and each drop calls the device",
        "remove `recycle`, unless the scope only counts allocations";
    /// With [`Recycle::Keyed`](crate::Recycle::Keyed) the scope keeps every block, and far more than is ever live at once.
    KeyedWaste:
        "recycle = \"keyed\" keeps far more memory than is ever live at once",
        "it keeps a block for each shape, even while no array has that shape",
        "choose recycle = \"auto\" or \"range\", which share memory between shapes";
    /// Entries make more allocations than a plan records: 131,072.
    TooLong:
        "an entry makes more allocations than a plan records (131072)",
        "gpucache does not plan longer entries",
        "give each repeated part of the entry a scope of its own";
    /// The arrays of an entry together have more bytes than a plan has addresses for: 512 GiB.
    TooLarge:
        "the arrays of an entry have more bytes than a plan has addresses for (512 GiB)",
        "gpucache does not plan larger entries",
        "give each part of the entry a scope of its own";
    /// A limit of the scope, the device or the process leaves no room for the plan or for allocations. Or it makes idle memory
    /// go back before the scope needs it again.
    Limit:
        "a limit of the scope, the device or the process is too low for the entry",
        "the plan or some allocations find no memory below the limit",
        "raise the limit, or keep less memory live at once; the error of a failed allocation lists who reserves the memory";
    /// The device runs short of memory again and again, without a limit.
    Short:
        "the device runs short of memory",
        "the plan or some allocations find no memory on the device",
        "reserve less memory on the device; the error of a failed allocation lists who reserves it";
    /// The plan finds no contiguous memory unless the device reserves clearly more than entries ever had in use at once.
    NoRoom:
        "the plan finds no contiguous memory",
        "the plan needs one stretch of addresses, arrays that stay alive take some of its pages, and gpucache does not reserve much more memory \
         than was in use at once",
        "if arrays pass from scope to scope, put one scope around the whole step; otherwise allocate arrays that stay alive outside the scope, and \
         give each kind of work a scope of its own";
    /// The program trims the device between entries, and the scope then takes its memory from the device again.
    Trimmed:
        "the program trims the device between entries",
        "the scope must take its memory from the device again in the next entry",
        "call `trim` less often, for example only when the work changes";
    /// The idle limit of the device returns the memory of the scope between entries, and the scope takes it from the device again.
    IdleLimit:
        "the idle limit of the device returns the scope's memory between entries",
        "the scope must take its memory from the device again in the next entry",
        "raise the idle limit to the memory that the scope needs, or remove the limit";
    /// Other scopes, or another limit, take the idle memory of the scope between entries, and the scope takes new memory from the
    /// device.
    Displaced:
        "other scopes or a limit take the scope's idle memory between entries",
        "the scope must take its memory from the device again in the next entry",
        "keep less memory live in other scopes, or raise the limit of the device";
    /// The program invalidates the scope again and again. Each time the scope learns anew.
    Invalidated:
        "the program invalidates the scope again and again",
        "each invalidation drops the plan, and the scope learns anew",
        "invalidate the scope only where its work changes for good";
    /// Names that differ only in a number have one scope each, and few of them are entered often enough to be planned.
    ManyNames:
        "many names differ only in a number, and each is entered only a few times",
        "each name has memory of its own, and learns a plan of its own",
        "use one name for all of them, or invalidate each one after its last use (`Scope::owned` does that)";
}
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
}
