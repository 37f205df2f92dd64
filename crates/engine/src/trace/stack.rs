//! The callers of an allocation, behind the feature `backtrace`.

use std::panic::Location;
use std::sync::Arc;

/// The functions that led to an allocation, the innermost first: a line for each, as `name at file:line:column`. The first one calls the
/// constructor. Functions of the standard library are left out. `None` without the feature, and if no function is known.
#[cfg(not(feature = "backtrace"))]
pub(super) fn callers(_site: &Location<'_>) -> Option<Arc<str>> {
    None
}

#[cfg(feature = "backtrace")]
pub(super) fn callers(site: &Location<'_>) -> Option<Arc<str>> {
    let callers = lines(&std::backtrace::Backtrace::force_capture().to_string(), site);
    (!callers.is_empty()).then(|| callers.join("\n").into())
}

/// The lines of a backtrace from the function that has the call at `site`. Inlined functions of gpucache have no crate in their names, so
/// the place alone tells where the program begins. All functions, if none is at that place.
#[cfg(any(test, feature = "backtrace"))]
fn lines(backtrace: &str, site: &Location<'_>) -> Vec<String> {
    let file = site.file().rsplit(['/', '\\']).next().unwrap_or_default();
    let place = format!("{file}:{}:{}", site.line(), site.column());
    let all = functions(backtrace);
    let first = all.iter().position(|(_, at)| at.ends_with(&place)).unwrap_or(0);
    let until_start = all[first..].iter().take_while(|(name, _)| !name.contains("__rust_begin_short_backtrace"));
    let own = until_start.filter(|(_, at)| !at.starts_with("/rustc/"));
    own.map(|(name, at)| if at.is_empty() { name.clone() } else { format!("{name} at {at}") }).collect()
}

/// The functions of a backtrace, with their places if they are known.
#[cfg(any(test, feature = "backtrace"))]
fn functions(backtrace: &str) -> Vec<(String, String)> {
    let mut functions: Vec<(String, String)> = Vec::new();
    for line in backtrace.lines().map(str::trim) {
        match (line.strip_prefix("at "), line.split_once(": ")) {
            (Some(place), _) => functions.last_mut().into_iter().for_each(|(_, at)| *at = place.to_owned()),
            (None, Some((number, name))) if number.parse::<u32>().is_ok() => {
                functions.push((name.to_owned(), String::new()));
            }
            _ => {}
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_begin_at_the_line_of_the_constructor() {
        let site = Location::caller();
        let place = format!("./src/{}:{}:{}", "stack.rs", site.line(), site.column());
        let text = format!(
            "   0: callers\n             at /a/stack.rs:19:30\n   1: zeros<u8>\n             at /a/mod.rs:91:25\n   2: train::step\n   \
             at {place}\n   3: core::ops::call_once\n      at /rustc/5980/library/core/src/ops.rs:250:5\n   4: train::main\n   \
             5: std::sys::__rust_begin_short_backtrace\n   6: main\n"
        );
        assert_eq!(lines(&text, site), [format!("train::step at {place}"), "train::main".to_owned()]);
        assert_eq!(lines("disabled backtrace", site), [""; 0]);
    }
}
