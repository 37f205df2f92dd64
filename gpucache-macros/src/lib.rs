//! The macros of `gpucache`: the attribute `#[cache_scope(..)]` and the procedural half of `cache_scope!(..)`.
//!
//! An expansion passes through these files. `ast` parses the input. `valid` checks it and contains every rejection. `later` and `tail`
//! help it: `later` finds code that would run after the scope was left, and `tail` finds the async block at the end of a body.
//! `expand` writes the code, with `guard` (enters a scope) and `future` (enters it at each poll). `bindings` lists the
//! names that a parameter binds, and `mentions` the variables that a computed name uses. `locals`, with `source` and `text`, reads the source file to find out whether a name is also a local variable. The generated
//! code names only `gpucache::Scope`, its guard, `gpucache::Recycle`, `gpucache::offload::Placement`,
//! and the trait of computed names.
//!
//! Invariants: the user's tokens keep their own spans, so that errors in a body appear at the user's own lines. Names
//! that the macros introduce are hygienic, so a body can neither see nor shadow its guard. If an attribute is rejected, the item
//! is still emitted unchanged, so that one mistake gives one message.

mod ast;
mod bindings;
mod expand;
mod future;
mod guard;
mod later;
mod locals;
mod mentions;
mod source;
mod tail;
mod text;
mod valid;

use proc_macro::TokenStream;
use proc_macro2::TokenStream as TokenStream2;

/// Runs the body of a function inside the cache scope with this name.
///
/// The calling thread's cache of that name serves the arrays that the body allocates, and recycles their memory when the
/// scope is entered again. The scope ends after the body's value was computed and its locals were dropped: at the end of the body, or by
/// `?`, `return` or a panic. Parameters passed by value drop after that, as in every function; their memory still returns to its
/// cache.
///
/// - `#[cache_scope(train_step)]`: an identifier; the scope is named `"train_step"`.
/// - `#[cache_scope("train step")]`: a string literal.
/// - `#[cache_scope(self::train_step)]`: the path of the current module, as `module_path!()` returns it, followed by
///   `"::"` and the identifier: `"mycrate::model::train_step"`.
/// - `#[cache_scope(name = format!("model{index}"))]`: any expression that is `AsRef<str>`. It is evaluated at every
///   call and may use the function's parameters.
///
/// Options follow the name. `recycle = ".."` says how freed memory is reused:
///
/// - `"auto"`: the scope learns the order of its allocations and serves them from a layout planned for that order. Allocations that
///   deviate from it are served as with `"range"`. This is the default.
/// - `"range"`: the scope keeps a small share of the freed blocks by type, shape, device and stream. The others return to the
///   device's range.
/// - `"keyed"`: the scope keeps every freed block for the next array of the same type, shape, device and stream.
/// - `"off"`: every block is returned to the device.
///
/// `placement = "device"`, `"host"` or `"auto"` says where a placed array rests while nobody uses it. See
/// [`Scope::placement`](https://docs.rs/gpucache/latest/gpucache/struct.Scope.html#method.placement).
///
/// `limit = "512MiB"` limits how much memory the scope holds on a thread, in use or idle. The value is a text in quotes, which the
/// compiler reads, or an expression that is a `u64` of bytes, a `gpucache::Limit` or a text. An expression is evaluated at every call. See
/// [`Scope::limit`](https://docs.rs/gpucache/latest/gpucache/struct.Scope.html#method.limit).
///
/// Scope names are shared by the whole process: if two libraries use the name `step`, they share one scope. A library should write
/// `#[cache_scope(self::step)]`, or use a scope that nobody else can name:
/// [`Scope::owned`](https://docs.rs/gpucache/latest/gpucache/struct.Scope.html#method.owned).
///
/// # Functions that return futures
///
/// An `async fn` enters its scope at each poll and leaves it at each suspension. So tasks that share a thread do not allocate from each
/// other's scopes. Its future is `Send` if it is `Send` without the attribute. All of this also holds for a function whose body ends in
/// an async block, in `Box::pin(async move { .. })` or in `async move { .. }.boxed()`. The statements before that block run when the
/// function is called, outside the scope. A computed name is evaluated once, at the first poll. It may borrow the parameters of an
/// `async fn`, but not move or change them.
///
/// Some attributes turn an `async fn` into a plain function; `#[tokio::test]` is one. Put an attribute of this kind below
/// `#[cache_scope]`. If it is above, the scope covers everything that the runtime's main thread runs, from the first task to the last.
/// An `async fn` with `#[tokio::main]` or another `main` is rejected: it runs once, so nothing in its scope would repeat.
///
/// # Functions that return code that runs later
///
/// A scope is left when its function returns. A returned closure or iterator runs after that, and so does a future that the function does
/// not create in its last expression. The attribute rejects a function with one of these return types: `impl` or `Box<dyn ..>` of `Fn`,
/// `Iterator`, `Future`, `Stream` and similar traits, or `BoxFuture`. Write `cache_scope!(NAME, { .. })` around the code that allocates,
/// inside the closure or around its creation. The attribute does not recognize these types inside a `Result`, an `Option` or a tuple, or
/// behind an alias. The value is then created inside the scope and runs outside.
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
/// The generated code names the crate `gpucache`. If the crate is renamed, or another crate re-exports it, write `crate = path`. The
/// attribute compiles only on functions, and with known options. It rejects a `const fn`, a function without a body, and a function
/// whose work runs later.
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

/// The expansion of `gpucache::cache_scope!`. That macro passes the path of its crate, a semicolon and its own input. Use
/// `cache_scope!` instead.
#[doc(hidden)]
#[proc_macro]
pub fn cache_scope_block(input: TokenStream) -> TokenStream {
    expand_block(input.into()).into()
}

/// Refuses an `.await` in the block of `gpucache::uncached!`, and expands to nothing otherwise.
#[doc(hidden)]
#[proc_macro]
pub fn refuse_await(block: TokenStream) -> TokenStream {
    valid::uncached(&block.into()).map_or_else(|rejection| rejection.to_compile_error().into(), |()| TokenStream::new())
}

fn expand_attribute(arguments: TokenStream2, item: TokenStream2) -> syn::Result<TokenStream2> {
    let function = valid::function(syn::parse2(item)?)?;
    let arguments = syn::parse2::<ast::Attribute>(arguments)?.arguments;
    valid::not_a_parameter(&arguments, &function)?;
    let scope = valid::scope(arguments)?;
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
