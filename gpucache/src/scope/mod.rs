//! Scopes by name: as values, which the macros expand to, and what can be done with a name.

mod families;
mod name;
#[cfg(feature = "tracing")]
mod shown;
mod stack;
mod unknown;
mod value;

pub use name::{AsName, diagnose, diagnose_all, invalidate, invalidate_all, scopes, stats};
pub use stack::ScopeGuard;
pub use value::{OwnedScope, Scope};

/// Serves the arrays that a block allocates from the cache of a name.
///
/// `cache_scope!(NAME, { .. })` is an expression: the value of its block. `?`, `return`, `break` and lifetimes work as in
/// any block, but for `.await`, which is refused: it would leave other tasks of the thread inside. NAME is an identifier, a
/// string literal, `self::IDENTIFIER` for one that begins with the module's path, or `name = EXPR` for an expression that
/// is `AsRef<str>`.
/// `recycle = "auto"`, the default, learns the order of allocations and plans for it; `recycle = "range"` leaves idle memory to
/// the device's range; `recycle = "keyed"` keeps every block for the next request of the same dtype, shape, device and
/// stream; `recycle = "off"` keeps none. `limit = "512MiB"`, bytes or a [`Limit`](crate::Limit) limits what the scope holds on a thread
/// ([`Scope::limit`]),
/// and `placement = "device" | "host" | "auto"` where arrays rest that are placed inside ([`Scope::placement`]).
///
/// The innermost scope serves; one name may be entered again inside itself. Memory is handed out again only after the
/// array that had it was dropped, so arrays may leave the block, the function and the thread.
///
/// As an attribute on functions it is [`prelude::cache_scope`](crate::prelude::cache_scope); as a value, for a name or a policy
/// that is chosen at run time, [`Scope`].
///
/// ```
/// use gpucache::{cache_scope, prelude::*};
///
/// let host = Host::new();
/// for _ in 0..3 {
///     let sum: f32 = cache_scope!(eval, {
///         let scores = Array::full(&host, [10], 0.5f32)?;
///         scores.iter().sum()
///     });
///     assert_eq!(sum, 5.0);
/// }
/// let stats = gpucache::stats("eval").unwrap();
/// assert_eq!((stats.hits, stats.misses), (2, 1));
/// # Ok::<(), gpucache::Error>(())
/// ```
#[macro_export]
macro_rules! cache_scope {
    ($($scope:tt)*) => { $crate::__private::cache_scope_block! { $crate; $($scope)* } };
}

/// Leaves all scopes for a block: its arrays are plain allocations, freed when they are dropped.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, uncached};
///
/// cache_scope!(load, {
///     let weights = uncached!({ Array::<f32, _>::zeros(&Host::new(), 64)? });
///     assert_eq!(gpucache::stats("load").unwrap().misses, 0);
/// });
/// # Ok::<(), gpucache::Error>(())
/// ```
#[macro_export]
macro_rules! uncached {
    ({ $($body:tt)* }) => {{
        let _guard = $crate::ScopeGuard::outside();
        { $($body)* }
    }};
    ($($other:tt)*) => {
        ::core::compile_error!("`uncached!` takes a block in braces and nothing else; write `uncached!({ .. })`")
    };
}
