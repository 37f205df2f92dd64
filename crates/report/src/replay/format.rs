//! The common part of the formats of histories: taking a line, and dividing it into fields.

use super::builder::Builder;

/// Reads the lines after the first one.
pub(super) trait Format {
    /// Takes one line, without its end.
    ///
    /// # Errors
    /// The problem of the line.
    fn line(&mut self, line: &str, history: &mut Builder) -> Result<(), String>;
}

/// Exactly `N` fields, separated by commas.
pub(super) fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split(',').collect();
    fields.try_into().map_err(|fields: Vec<_>| format!("there are {} fields, not {N}", fields.len()))
}
