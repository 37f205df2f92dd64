//! The results of a program: one JSON object of numbers and plain texts.

use std::error::Error;
use std::fmt;

pub(crate) type Outcome<T = Report> = Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Default)]
pub(crate) struct Report(Vec<(String, String)>);

impl Report {
    pub(crate) fn number(mut self, name: impl Into<String>, value: u64) -> Report {
        self.0.push((name.into(), value.to_string()));
        self
    }

    pub(crate) fn text(mut self, name: &str, value: &str) -> Report {
        let escaped = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        self.0.push((name.into(), format!("\"{escaped}\"")));
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields: Vec<String> = self.0.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        write!(f, "{{{}}}", fields.join(", "))
    }
}

/// Fails with a message if a condition does not hold.
pub(crate) fn ensure(holds: bool, message: impl FnOnce() -> String) -> Outcome<()> {
    if holds { Ok(()) } else { Err(message().into()) }
}
