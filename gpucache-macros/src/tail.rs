//! Finds the async block at the end of a body, which becomes the future that the function returns.

use proc_macro2::TokenStream;
use syn::parse::Parser;
use syn::{Block, Expr, ExprAsync, ExprCall, ExprMethodCall, ExprPath, Stmt};

/// The statements of a body, if they can be parsed.
pub(crate) fn parsed(statements: &TokenStream) -> Option<Vec<Stmt>> {
    Block::parse_within.parse2(statements.clone()).ok()
}

/// The async block at the end of a body: `async { .. }`, `Box::pin(async { .. })` or `async { .. }.boxed()`.
pub(crate) fn async_block(statements: &mut [Stmt]) -> Option<&mut ExprAsync> {
    match statements.last_mut() {
        Some(Stmt::Expr(tail, None)) => within(tail),
        _ => None,
    }
}

fn within(tail: &mut Expr) -> Option<&mut ExprAsync> {
    let inside = match tail {
        Expr::Async(block) => return Some(block),
        Expr::Call(ExprCall { func, args, .. }) if args.len() == 1 && is_box_pin(func) => args.first_mut()?,
        Expr::MethodCall(call) if boxes(call) => &mut *call.receiver,
        _ => return None,
    };
    match inside {
        Expr::Async(block) => Some(block),
        _ => None,
    }
}

fn is_box_pin(function: &Expr) -> bool {
    let Expr::Path(ExprPath { path, .. }) = function else { return false };
    let mut last = path.segments.iter().rev().map(|segment| &segment.ident);
    last.next().is_some_and(|method| method == "pin") && last.next().is_some_and(|owner| owner == "Box")
}

/// Whether this calls one of the methods of the crate `futures` that do the same as `Box::pin`.
fn boxes(call: &ExprMethodCall) -> bool {
    call.args.is_empty() && (call.method == "boxed" || call.method == "boxed_local")
}
