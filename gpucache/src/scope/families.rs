//! Scopes whose names differ only in numbers: [`Families`].

use std::sync::Arc;

use hashbrown::HashMap;

use crate::diagnosis::Siblings;
use crate::stats::of_scope;
use gpucache_engine::cache::NamedCaches;

/// Scopes with a number in their names, by their names without digits.
pub(super) type Families = HashMap<String, Siblings>;

/// The name of the family; `None` for a name without a number.
fn family_of(name: &str) -> Option<String> {
    let plain: String = name.chars().filter(|letter| !letter.is_ascii_digit()).collect();
    (plain.len() < name.len()).then_some(plain)
}

/// The families of these scopes, or only that of the scope `of`.
pub(super) fn families(scopes: &[Arc<NamedCaches>], of: Option<&str>) -> Families {
    let only = of.map(family_of);
    let mut families = Families::new();
    for scope in scopes {
        let Some(family) = family_of(scope.name()) else { continue };
        if only.as_ref().is_none_or(|only| only.as_ref() == Some(&family)) {
            let stats = of_scope(scope);
            families.entry(family).or_default().add(stats.entries, stats.idle_bytes);
        }
    }
    families
}

/// The scopes whose names differ from this one only in numbers, with this scope.
pub(super) fn siblings(families: &Families, name: &str) -> Siblings {
    family_of(name).and_then(|family| families.get(&family).copied()).unwrap_or_default()
}
