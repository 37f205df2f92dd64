//! The macros of `gpucache`: the attribute `#[cache_scope(..)]` and the procedural half of `cache_scope!(..)`.
//!
//! `ast` is the syntax that was written, `valid` decides what of it is accepted (every rejection stands there),
//! `expand` writes the code, from `guard` (what enters a scope) and `future` (what does so at each poll). `later` and `tail`
//! read what runs after a function has returned, and the async block among it that can be scoped. What they write names
//! nothing but `gpucache::Scope`, its guard, `gpucache::Recycle`, `gpucache::Placement`, and the trait that a computed name has.
//!
//! Invariants: the user's tokens keep their own spans, so that errors in a body appear at the user's own lines; names
//! of ours are hygienic, so that a body can neither see nor shadow its guard; where an attribute is rejected the item
//! is still emitted as it was, so that one mistake gives one message.

mod ast;
mod expand;
mod future;
mod guard;
mod later;
mod mentions;
mod tail;
mod valid;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

/// Runs the body of a function inside the cache scope of a name.
///
/// Arrays that the body allocates are served by the calling thread's cache of that name, and are recycled when the
/// scope is entered again. The scope is left when the body's value has been computed and its locals are dropped: by its
/// end, `?`, `return` or a panic. By-value parameters drop after that, as in every function; their memory finds its
/// cache all the same.
///
/// - `#[cache_scope(train_step)]`: an identifier; the scope is named `"train_step"`.
/// - `#[cache_scope("train step")]`: a string literal.
/// - `#[cache_scope(self::train_step)]`: the path of the module that this is written in, as `module_path!()` gives it,
///   `"::"` and the identifier: `"mycrate::model::train_step"`.
/// - `#[cache_scope(name = format!("layer{index}"))]`: any expression that is `AsRef<str>`. It is evaluated at every
///   call and may use the function's parameters.
///
/// After the name, `recycle = ".."` says what becomes of freed memory:
///
/// - `"auto"`: the scope learns the order of its allocations and serves them from a layout planned for that order; what
///   deviates is served as with `"range"`. This is the default.
/// - `"range"`: a small share of the freed blocks is kept by type, shape and device; the device's range has the rest.
/// - `"keyed"`: every freed block is kept for the next array of its type, shape and device.
/// - `"off"`: every block is handed back to the device.
///
/// `placement = "device"`, `"host"` or `"auto"` says where arrays rest that are placed inside while nobody uses them. See
/// [`Scope::placement`](https://docs.rs/gpucache/latest/gpucache/struct.Scope.html#method.placement).
///
/// `limit = BYTES`, any expression that is a `u64`, says how much the scope may hold on a thread, in use or idle; it is
/// evaluated at every call, and is hard. See
/// [`Scope::limit`](https://docs.rs/gpucache/latest/gpucache/struct.Scope.html#method.limit).
///
/// Names are of the whole process, so that two libraries' `step` would be one scope: a library had better write
/// `#[cache_scope(self::step)]`, or use a scope that nobody else can name,
/// [`Scope::owned`](https://docs.rs/gpucache/latest/gpucache/struct.Scope.html#method.owned).
///
/// # Functions that return futures
///
/// An `async fn` enters its scope at each poll and leaves it at each suspension, so that tasks which share a thread do
/// not allocate from each other's scopes; its future is `Send` if it was without the attribute. The same holds for the
/// async block of a body that ends in `Box::pin(async move { .. })`, `async move { .. }.boxed()` or an async block; the
/// statements before that block run when the function is called, outside the scope. A computed name is evaluated once, at the first poll; it may
/// borrow the parameters of an `async fn`, but not move or change them.
///
/// An attribute that makes a plain function of an `async fn` (`#[tokio::main]`, say) goes below this one: above it, the
/// scope would be that of the thread which runs everybody's tasks, from the first to the last.
///
/// # Functions that return what runs later
///
/// A scope is left when its function returns. Closures and iterators that it returns, and futures that it does not make in
/// its last expression, run afterwards: the attribute does not compile on a function whose return type says so (`impl` or
/// `Box<dyn ..>` of `Fn`, `Iterator`, `Future`, `Stream` and their like, and `BoxFuture`). Write `cache_scope!(NAME, { .. })`
/// around what allocates: inside the closure, say, or around the making of it. Such a type in a `Result`, an `Option` or
/// a tuple, or behind an alias, is taken for a value, made inside the scope and run outside.
///
/// ```ignore
/// fn batches(host: &Host) -> impl Iterator<Item = gpucache::Result<Array<f32, Host>>> {
///     (0..4).map(move |batch| cache_scope!(batches, { Array::full(host, 16, batch as f32) }))
/// }
///
/// #[cache_scope(load)]
/// fn load(host: Host) -> Pin<Box<dyn Future<Output = gpucache::Result<f32>> + Send>> {
///     let future = async move { Ok(Array::full(&host, 4, 1.0f32)?.iter().sum()) };
///     Box::pin(async move { future.await }) // `Box::pin(future)` would be polled outside
/// }
/// ```
///
/// # Errors
///
/// The crate has to be known as `gpucache`, or to be named: `crate = path` where it is renamed, or re-exported by another one. The
/// attribute does not compile on a `const fn`, on a function without a body or whose work runs later, on anything but a
/// function, or with an option it does not know.
#[proc_macro_attribute]
pub fn cache_scope(arguments: TokenStream, item: TokenStream) -> TokenStream {
    expand_attribute(arguments.into(), item.clone().into())
        .unwrap_or_else(|rejection| {
            let mut tokens = rejection.to_compile_error();
            tokens.extend(TokenStream2::from(item));
            tokens
        })
        .into()
}

/// The expansion of `gpucache::cache_scope!`, which passes its crate, a semicolon and then its input: write that
/// instead.
#[doc(hidden)]
#[proc_macro]
pub fn cache_scope_block(input: TokenStream) -> TokenStream {
    expand_block(input.into()).into()
}

fn expand_attribute(arguments: TokenStream2, item: TokenStream2) -> syn::Result<TokenStream2> {
    let function = valid::function(syn::parse2(item)?)?;
    let scope = valid::scope(syn::parse2::<ast::Attribute>(arguments)?.arguments)?;
    Ok(expand::function(function, &scope))
}

fn expand_block(input: TokenStream2) -> TokenStream2 {
    let body = ast::last_block(&input);
    let expanded = syn::parse2::<ast::Block>(input).and_then(|block| {
        let krate = block.krate.clone();
        valid::block(block).map(|(scope, body)| expand::block(krate.into(), &scope, body))
    });
    expanded.unwrap_or_else(|rejection| expand::rejected_block(&rejection, body))
}
