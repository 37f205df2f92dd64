//! Reads the source file of an identifier.

use proc_macro2::Ident;
use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

/// The source text in front of the identifier.
pub(crate) fn before(word: &Ident, name: &str) -> Option<String> {
    if !proc_macro::is_available() {
        return None;
    }
    let span = word.span().unwrap();
    let text = read(span.local_file()?)?;
    let line = span.line().checked_sub(1)?;
    let start: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let column = text[start..].char_indices().nth(span.column().checked_sub(1)?)?.0;
    let (text, rest) = text.split_at(start + column);
    rest.trim_start_matches("r#").starts_with(name).then(|| text.to_owned())
}

/// The text of a file. The last one is kept, since a file often has several scopes.
fn read(path: PathBuf) -> Option<Rc<str>> {
    thread_local! {
        static LAST: RefCell<Option<(PathBuf, Rc<str>)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        if let Some((known, text)) = last
            && *known == path
        {
            return Some(text.clone());
        }
        let text: Rc<str> = std::fs::read_to_string(&path).ok()?.into();
        *last = Some((path, text.clone()));
        Some(text)
    })
}
