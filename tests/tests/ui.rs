//! The macros as a program meets them: what has to compile and run (`ui/pass`), and what must not compile, with the
//! message it then gets (`ui/fail`, one mistake to a file).
//!
//! `TRYBUILD=overwrite` writes the messages anew; read each before it is kept.

#[test]
fn programs_that_compile_and_run() {
    trybuild::TestCases::new().pass("ui/pass/*.rs");
}

#[test]
fn mistakes_and_their_messages() {
    trybuild::TestCases::new().compile_fail("ui/fail/*.rs");
}
