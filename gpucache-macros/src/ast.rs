//! The parsed input, before it is checked: the arguments of both macros, and the item under the attribute.
//!
//! A body is kept as tokens, because the macros need not understand it to run it inside a scope.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Expr, ExprGroup, ExprLit, Ident, Lit, LitStr, Result, Signature, Token, Visibility, braced, token};

/// One of the comma-separated arguments.
pub(crate) enum Argument {
    /// `train_step`
    Word(Ident),
    /// `"train step"`
    Text(LitStr),
    /// `key = value`
    Setting { key: Ident, value: Expr },
    /// Any other expression.
    Other(Expr),
}

/// The arguments of `#[cache_scope(..)]`.
pub(crate) struct Attribute {
    pub(crate) arguments: Vec<Argument>,
}

/// The input of `cache_scope!`, behind the path of the crate that forwards it.
pub(crate) struct Block {
    pub(crate) krate: TokenTree,
    pub(crate) arguments: Vec<Argument>,
    /// `None` if no block follows.
    pub(crate) body: Option<Body>,
}

/// The item under the attribute.
pub(crate) enum Item {
    Function(Box<Function>),
    /// A function that ends in a semicolon, which is here.
    Declaration(Span),
    /// Another item, which begins with this token.
    Other(Span),
}

pub(crate) struct Function {
    pub(crate) attributes: Vec<syn::Attribute>,
    pub(crate) visibility: Visibility,
    pub(crate) defaultness: Option<Token![default]>,
    pub(crate) signature: Signature,
    pub(crate) body: Body,
}

/// `{ #![inner attributes] statements }`
pub(crate) struct Body {
    pub(crate) brace: token::Brace,
    pub(crate) attributes: Vec<syn::Attribute>,
    pub(crate) statements: TokenStream,
}

impl Parse for Argument {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let ahead = input.fork();
        if ahead.call(Ident::parse_any).is_ok() {
            if ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(token::Brace) {
                return input.call(Ident::parse_any).map(Self::Word);
            }
            if ahead.peek(Token![=]) && !ahead.peek(Token![==]) {
                let key = input.call(Ident::parse_any)?;
                input.parse::<Token![=]>()?;
                return Ok(Self::Setting { key, value: input.parse()? });
            }
        }
        let value = input.parse()?;
        Ok(literal(&value).cloned().map_or(Self::Other(value), Self::Text))
    }
}

/// Returns the expression as a string literal, if it is one; another macro may have passed it on inside a group.
pub(crate) fn literal(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        Expr::Group(ExprGroup { expr, .. }) => literal(expr),
        _ => None,
    }
}

/// Arguments up to the end or to a block.
fn arguments(input: ParseStream<'_>) -> Result<Vec<Argument>> {
    let mut arguments = Vec::new();
    while !input.is_empty() && !input.peek(token::Brace) {
        arguments.push(input.parse()?);
        if input.is_empty() {
            break;
        }
        separator(input)?;
    }
    Ok(arguments)
}

fn separator(input: ParseStream<'_>) -> Result<()> {
    if input.parse::<Option<Token![,]>>()?.is_some() {
        return Ok(());
    }
    Err(input.error("a comma is missing here: put a comma between the name, each option and the block"))
}

impl Parse for Attribute {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let arguments = arguments(input)?;
        if input.peek(token::Brace) {
            let message = "`#[cache_scope]` takes no block: remove the block, or write `cache_scope!(NAME, { .. })` as a statement";
            return Err(input.error(message));
        }
        Ok(Self { arguments })
    }
}

impl Parse for Block {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let krate = input.parse()?;
        input.parse::<Token![;]>()?;
        let arguments = arguments(input)?;
        let body = if input.peek(token::Brace) { Some(input.parse()?) } else { None };
        input.parse::<Option<Token![,]>>()?;
        if !input.is_empty() {
            return Err(input.error(
                "unexpected input after the block: the block comes last, as in `cache_scope!(NAME, OPTIONS, { .. })`",
            ));
        }
        Ok(Self { krate, arguments, body })
    }
}

impl Parse for Body {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let content;
        let brace = braced!(content in input);
        Ok(Self { brace, attributes: content.call(syn::Attribute::parse_inner)?, statements: content.parse()? })
    }
}

impl Parse for Item {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let attributes = input.call(syn::Attribute::parse_outer)?;
        let visibility = input.parse()?;
        let defaultness = input.parse()?;
        if !begins_function(input) {
            let start = input.span();
            input.parse::<TokenStream>()?;
            return Ok(Self::Other(start));
        }
        if let Some(end) = final_semicolon(input)? {
            input.parse::<TokenStream>()?;
            return Ok(Self::Declaration(end));
        }
        let signature = input.parse()?;
        let body = input.parse()?;
        Ok(Self::Function(Box::new(Function { attributes, visibility, defaultness, signature, body })))
    }
}

/// Whether qualifiers and then `fn` come next.
fn begins_function(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    while let Ok(word) = ahead.call(Ident::parse_any) {
        if word == "fn" {
            return true;
        }
        if !["const", "async", "gen", "unsafe", "safe", "extern"].iter().any(|qualifier| word == qualifier) {
            return false;
        }
        if ahead.peek(LitStr) && ahead.parse::<LitStr>().is_err() {
            return false;
        }
    }
    false
}

/// The semicolon that ends a function without a body. The signature is not parsed, because `syn` cannot parse that of a `safe fn`.
fn final_semicolon(input: ParseStream<'_>) -> Result<Option<Span>> {
    let last = input.fork().parse::<TokenStream>()?.into_iter().last();
    Ok(match last {
        Some(TokenTree::Punct(end)) if end.as_char() == ';' => Some(end.span()),
        _ => None,
    })
}

/// The last block in the input of `cache_scope!`, found without parsing the rest.
pub(crate) fn last_block(input: &TokenStream) -> Option<Group> {
    let blocks = input.clone().into_iter().filter_map(|token| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => Some(group),
        _ => None,
    });
    blocks.last()
}
