//! The names that the pattern of a parameter binds.

use syn::{Ident, Pat, Token};

/// Lists the names that a parameter binds, and removes their `mut`.
pub(crate) fn take_bindings(pattern: &mut Pat, bindings: &mut Vec<(Option<Token![mut]>, Ident)>) {
    match pattern {
        Pat::Ident(binding) => {
            let mutability = if binding.by_ref.is_none() { binding.mutability.take() } else { None };
            if bindings.iter().all(|(_, known)| *known != binding.ident) {
                bindings.push((mutability, binding.ident.clone()));
            }
            if let Some((_, inner)) = &mut binding.subpat {
                take_bindings(inner, bindings);
            }
        }
        Pat::Or(any) => any.cases.iter_mut().for_each(|case| take_bindings(case, bindings)),
        Pat::Paren(inside) => take_bindings(&mut inside.pat, bindings),
        Pat::Reference(reference) => take_bindings(&mut reference.pat, bindings),
        Pat::Slice(slice) => slice.elems.iter_mut().for_each(|element| take_bindings(element, bindings)),
        Pat::Struct(fields) => fields.fields.iter_mut().for_each(|field| take_bindings(&mut field.pat, bindings)),
        Pat::Tuple(tuple) => tuple.elems.iter_mut().for_each(|element| take_bindings(element, bindings)),
        Pat::TupleStruct(tuple) => tuple.elems.iter_mut().for_each(|element| take_bindings(element, bindings)),
        _ => {}
    }
}
