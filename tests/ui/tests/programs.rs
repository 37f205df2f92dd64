//! Programs that use the macros and have to compile and run. Each file of `pass` is a program, which this one runs in its own
//! process, because the programs share names of scopes.

use std::process::{Command, ExitCode};

#[path = "../pass/async_cancelled.rs"]
mod async_cancelled;
#[path = "../pass/async_fn.rs"]
mod async_fn;
#[path = "../pass/async_inference.rs"]
mod async_inference;
#[path = "../pass/async_methods.rs"]
mod async_methods;
#[path = "../pass/async_name_only.rs"]
mod async_name_only;
#[path = "../pass/async_names.rs"]
mod async_names;
#[path = "../pass/async_parameters.rs"]
mod async_parameters;
#[path = "../pass/async_send.rs"]
mod async_send;
#[path = "../pass/await_of_others.rs"]
mod await_of_others;
#[path = "../pass/both_imports.rs"]
mod both_imports;
#[path = "../pass/boxed_future.rs"]
mod boxed_future;
#[path = "../pass/break_label.rs"]
mod break_label;
#[path = "../pass/crate_by_path.rs"]
mod crate_by_path;
#[path = "../pass/drop_order.rs"]
mod drop_order;
#[path = "../pass/early_return.rs"]
mod early_return;
#[path = "../pass/escaping_array.rs"]
mod escaping_array;
#[path = "../pass/future_methods.rs"]
mod future_methods;
#[path = "../pass/generics_and_lifetimes.rs"]
mod generics_and_lifetimes;
#[path = "../pass/hygiene.rs"]
mod hygiene;
#[path = "../pass/impl_trait.rs"]
mod impl_trait;
#[path = "../pass/inner_attributes.rs"]
mod inner_attributes;
#[path = "../pass/methods.rs"]
mod methods;
#[path = "../pass/name_beside_variables.rs"]
mod name_beside_variables;
#[path = "../pass/name_expression.rs"]
mod name_expression;
#[path = "../pass/name_identifier.rs"]
mod name_identifier;
#[path = "../pass/name_literal.rs"]
mod name_literal;
#[path = "../pass/name_of_module.rs"]
mod name_of_module;
#[path = "../pass/name_through_macro_rules.rs"]
mod name_through_macro_rules;
#[path = "../pass/nested_and_recursive.rs"]
mod nested_and_recursive;
#[path = "../pass/panics.rs"]
mod panics;
#[path = "../pass/pattern_parameters.rs"]
mod pattern_parameters;
#[path = "../pass/placement_option.rs"]
mod placement_option;
#[path = "../pass/question_mark.rs"]
mod question_mark;
#[path = "../pass/recycle_option.rs"]
mod recycle_option;
#[path = "../pass/statement_positions.rs"]
mod statement_positions;
#[path = "../pass/uncached.rs"]
mod uncached;
#[path = "../pass/unsafe_and_extern.rs"]
mod unsafe_and_extern;

/// Names the program that a child process runs.
const CHILD: &str = "GPUCACHE_UI_PROGRAM";

const PROGRAMS: [(&str, fn()); 37] = [
    ("async_cancelled", async_cancelled::main),
    ("async_fn", async_fn::main),
    ("async_inference", async_inference::main),
    ("async_methods", async_methods::main),
    ("async_name_only", async_name_only::main),
    ("async_names", async_names::main),
    ("async_parameters", async_parameters::main),
    ("async_send", async_send::main),
    ("await_of_others", await_of_others::main),
    ("both_imports", both_imports::main),
    ("boxed_future", boxed_future::main),
    ("break_label", break_label::main),
    ("crate_by_path", crate_by_path::main),
    ("drop_order", drop_order::main),
    ("early_return", early_return::main),
    ("escaping_array", escaping_array::main),
    ("future_methods", future_methods::main),
    ("generics_and_lifetimes", generics_and_lifetimes::main),
    ("hygiene", hygiene::main),
    ("impl_trait", impl_trait::main),
    ("inner_attributes", inner_attributes::main),
    ("methods", methods::main),
    ("name_beside_variables", name_beside_variables::main),
    ("name_expression", name_expression::main),
    ("name_identifier", name_identifier::main),
    ("name_literal", name_literal::main),
    ("name_of_module", name_of_module::main),
    ("name_through_macro_rules", name_through_macro_rules::main),
    ("nested_and_recursive", nested_and_recursive::main),
    ("panics", panics::main),
    ("pattern_parameters", pattern_parameters::main),
    ("placement_option", placement_option::main),
    ("question_mark", question_mark::main),
    ("recycle_option", recycle_option::main),
    ("statement_positions", statement_positions::main),
    ("uncached", uncached::main),
    ("unsafe_and_extern", unsafe_and_extern::main),
];

/// Whether the program ends successfully.
fn passes(name: &str) -> bool {
    let status = Command::new(std::env::current_exe().unwrap()).env(CHILD, name).status().unwrap();
    println!("{name} ... {}", if status.success() { "ok" } else { "FAILED" });
    status.success()
}

fn main() -> ExitCode {
    if let Ok(asked) = std::env::var(CHILD) {
        PROGRAMS.iter().find(|(name, _)| *name == asked).unwrap().1();
        return ExitCode::SUCCESS;
    }
    let failed = PROGRAMS.iter().filter(|(name, _)| !passes(name)).count();
    println!("{} programs, of which {failed} failed", PROGRAMS.len());
    ExitCode::from(u8::from(failed > 0))
}
