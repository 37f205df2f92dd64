//! The words of each cause: what happens, why it matters, and what to do, as sentences without their ends.

/// In the order of the causes.
pub(super) const WORDS: [[&str; 3]; 21] = [
    // Escapes
    [
        "arrays outlive their entry",
        "a plan reuses the addresses of an array once its entry ends; an array that is alive then needs memory of its own",
        "drop these arrays within the entry, or allocate long-lived arrays outside the scope, by `uncached!` or in a scope of \
         their own",
    ],
    // ChangingOrder
    [
        "the order of allocations changes from entry to entry",
        "a plan serves the allocations of an entry in one known order",
        "give work that runs only in some entries a scope of its own; choose recycle = \"range\" if no order ever repeats",
    ],
    // ChangingShapes
    [
        "the sizes of arrays change from entry to entry",
        "a plan has a place of limited size for each array",
        "pad arrays to a few sizes, give each size a scope of its own, or choose recycle = \"range\"",
    ],
    // ChangingDrops
    [
        "entries drop the same arrays in different orders",
        "a plan lets arrays share addresses if they are never alive at the same time",
        "drop each array at a fixed place of the entry, or choose recycle = \"range\"",
    ],
    // OtherStreams
    [
        "one entry allocates on several streams",
        "a plan covers the allocations of one stream",
        "give each stream a scope of its own",
    ],
    // UsedElsewhere
    [
        "the program drops arrays while other streams may still use them",
        "their memory stays reserved until the work of those streams has ended",
        "allocate an array on the stream that uses it last, or synchronize with that stream before the drop",
    ],
    // Nested
    [
        "the scope is entered again inside itself",
        "gpucache plans only the outermost entry of a scope, and the outermost entry hardly ever ends",
        "give the outer block another name, or remove its scope",
    ],
    // LoopInside
    [
        "the scope encloses a loop: one entry makes the same allocations many times",
        "gpucache learns a plan from entries that repeat, and this entry does not end",
        "move the scope into the loop, around its body",
    ],
    // Empty
    [
        "most entries allocate nothing from the scope",
        "the innermost scope of the allocating thread serves an allocation",
        "put the scope where its thread allocates the arrays, or remove it",
    ],
    // NotRecycled
    [
        "the scope is entered with recycle = \"off\"",
        "each allocation and each drop calls the device",
        "remove `recycle`, unless the scope only counts allocations",
    ],
    // KeyedWaste
    [
        "recycle = \"keyed\" keeps far more memory than is ever live at once",
        "it keeps a block for each shape, even while no array has that shape",
        "choose recycle = \"auto\" or \"range\", which share memory between shapes",
    ],
    // TooLong
    [
        "an entry makes more allocations than a plan records (131072)",
        "gpucache does not plan longer entries",
        "give each repeated part of the entry a scope of its own",
    ],
    // TooLarge
    [
        "the arrays of an entry have more bytes than a plan has addresses for (512 GiB)",
        "gpucache does not plan larger entries",
        "give each part of the entry a scope of its own",
    ],
    // Limit
    [
        "a limit of the scope, the device or the process is too low for the entry",
        "the plan or some allocations find no memory below the limit",
        "raise the limit, or keep less memory live at once; the error of a failed allocation lists who reserves the memory",
    ],
    // Short
    [
        "the device runs short of memory",
        "the plan or some allocations find no memory on the device",
        "reserve less memory on the device; the error of a failed allocation lists who reserves it",
    ],
    // NoRoom
    [
        "the plan finds no room",
        "the plan needs one stretch of addresses, arrays that stay alive take some of its pages, and gpucache does not reserve much more memory \
         than was in use at once",
        "allocate arrays that stay alive outside the scope, and give each kind of work a scope of its own",
    ],
    // Trimmed
    [
        "the program trims the device between entries",
        "the scope must take its memory from the device again in the next entry",
        "call `trim` less often, for example only when the work changes",
    ],
    // IdleLimit
    [
        "the idle limit of the device returns the scope's memory between entries",
        "the scope must take its memory from the device again in the next entry",
        "raise the idle limit to the memory that the scope needs, or remove the limit",
    ],
    // Displaced
    [
        "other scopes or a limit take the scope's idle memory between entries",
        "the scope must take its memory from the device again in the next entry",
        "keep less memory live in other scopes, or raise the limit of the device",
    ],
    // Invalidated
    [
        "the program invalidates the scope again and again",
        "each invalidation drops the plan, and the scope learns anew",
        "invalidate the scope only where its work changes for good",
    ],
    // ManyNames
    [
        "many names differ only in a number, and each is entered only a few times",
        "each name has memory of its own, and learns a plan of its own",
        "use one name for all of them, or invalidate each one after its last use (`Scope::owned` does that)",
    ],
];
