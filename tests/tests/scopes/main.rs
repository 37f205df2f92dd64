//! Scopes and arrays as a program uses them: nesting, policies, values, names and errors.
//!
//! | file | content |
//! |---|---|
//! | `nested_programs` | random programs of nested scopes |
//! | `policy_nested` | a name inside itself with another policy |
//! | `depth` | entries within many open entries |
//! | `value_form` | scopes as values |
//! | `values` | arrays as values |
//! | `unknown_name` | the message about a name that no scope has |
//! | `question_mark` | errors that `?` converts |
#![allow(clippy::panic, clippy::unwrap_used)]

mod depth;
mod nested_programs;
mod policy_nested;
mod question_mark;
mod unknown_name;
mod value_form;
mod values;
