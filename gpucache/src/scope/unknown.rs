//! The line on stderr for a name that no scope has: [`report`].

use std::collections::HashSet;
use std::io::{self, Write};

use gpucache_engine::base::shortage::Short;
use gpucache_engine::base::sync::{LazyLock, Mutex, lock};
use gpucache_engine::cache::NamedCaches;

/// For so many names a line is printed. A program that calls with a new name each time would fill its log.
const MOST_NAMES: usize = 32;
/// So many similar names are printed.
const MOST_SIMILAR: usize = 3;
/// Names are similar if at most one of so many letters has to change, and at most so many letters in all.
const SIMILAR: usize = 4;
const MOST_CHANGES: usize = 3;
/// Longer names are compared by their first letters.
const LONGEST: usize = 64;

/// Prints that no scope has this name, once for each name.
#[cold]
pub(super) fn report(name: &str) {
    static REPORTED: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Mutex::default);
    let mut reported = lock(&REPORTED);
    if reported.len() >= MOST_NAMES || !reported.insert(name.to_owned()) {
        return;
    }
    drop(reported);
    let known: Vec<String> = NamedCaches::all().iter().map(|scope| scope.name().to_string()).collect();
    let similar = similar(name, &known).iter().map(|name| format!("{:?}", Short(name).to_string())).collect::<Vec<_>>();
    let hint = match &similar[..] {
        [] => String::new(),
        similar => format!("; did you mean {}?", similar.join(" or ")),
    };
    // If stderr is closed, nobody reads it.
    let _ = writeln!(io::stderr(), "gpucache: invalidate: no scope is named {:?}{hint}", Short(name).to_string());
}

/// The names that are most similar to this one, the most similar first.
fn similar<'n>(name: &str, known: &'n [String]) -> Vec<&'n str> {
    let most = letters(name).len().div_ceil(SIMILAR).min(MOST_CHANGES);
    let mut found: Vec<(usize, &str)> = known.iter().map(|other| (distance(name, other), other.as_str())).collect();
    found.retain(|&(distance, _)| distance <= most);
    found.sort_unstable();
    found.into_iter().take(MOST_SIMILAR).map(|(_, name)| name).collect()
}

fn letters(name: &str) -> Vec<char> {
    name.chars().take(LONGEST).flat_map(char::to_lowercase).collect()
}

/// How many letters have to be inserted, deleted or replaced to get one name from the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (letters(one), letters(other));
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (place, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], place + 1);
        for (column, other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, similar};

    #[test]
    fn a_slip_of_the_pen_is_near() {
        assert_eq!(distance("frame", "farme"), 2);
        assert_eq!(distance("", "frame"), 5);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("Step", "step"), 0);
    }

    #[test]
    fn the_most_similar_names_come_first() {
        let known = ["train_step", "train_steps", "eval", "decode"].map(String::from);
        assert_eq!(similar("train-steps", &known), ["train_steps", "train_step"]);
        assert!(similar("load", &known).is_empty());
    }
}
