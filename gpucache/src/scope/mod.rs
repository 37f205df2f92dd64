//! Scopes by name: as values, which the macros expand to, and functions that take a name.

mod auto;
mod name;
#[cfg(feature = "tracing")]
mod shown;
mod stack;
mod unknown;
mod value;

pub use auto::auto_scope;
pub use name::{AsName, diagnose, diagnose_all, forget, invalidate, invalidate_all, scopes, stats};
pub use stack::ScopeGuard;
pub use value::{OwnedScope, Scope};

/// Runs a block inside a scope: the arrays that it allocates come from the thread's cache of that name.
///
/// `cache_scope!(NAME, { .. })` is an expression with the value of its block. `?`, `return`, `break` and lifetimes work as in
/// any block. Only `.await` is refused, because other tasks of the thread would run inside the scope.
///
/// NAME is one of these:
///
/// - an identifier: `cache_scope!(step, ..)` names the scope `"step"`. A local variable of that name is an error, because the scope
///   would not get its value;
/// - a string literal;
/// - `self::IDENTIFIER`: the path of the module, `"::"` and the identifier;
/// - `name = EXPRESSION`: any expression that is `AsRef<str>`.
///
/// Options follow the name:
///
/// - `recycle = "auto"`, the default, learns the order of allocations and plans their addresses. `"range"` returns idle memory to the
///   device's range. `"keyed"` keeps every block for the next request of the same dtype, shape, device and stream. `"off"` keeps none.
/// - `limit = "512MiB"`, a number of bytes, or a [`Limit`](crate::Limit) limits the memory of the scope on a thread ([`Scope::limit`]).
/// - `placement = "device" | "host" | "auto"` says where placed arrays rest ([`Scope::placement`]).
///
/// If scopes are nested, the innermost one serves. A scope may be entered again inside itself. Memory is reused only after the drop of the
/// array that used it, so arrays may leave the block, the function and the thread.
///
/// [`prelude::cache_scope`](crate::prelude::cache_scope) is the same as an attribute on functions. To use both in one module, write
/// `use gpucache::{cache_scope, prelude::*};`. [`Scope`] is the same as a value, for a name or a policy that is chosen at run time.
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

/// Runs a block outside of all scopes: its arrays are plain allocations, which are freed when they are dropped. `.await` is refused in it,
/// because other tasks of the thread would run outside of their scopes.
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
        $crate::__private::refuse_await! { $($body)* }
        let _guard = $crate::ScopeGuard::outside();
        { $($body)* }
    }};
    ($($other:tt)*) => {
        ::core::compile_error!("`uncached!` takes a block in braces and nothing else; write `uncached!({ .. })`")
    };
}
