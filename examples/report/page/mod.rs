//! A page that shows what a run did with memory: one file of HTML that needs no network and nothing beside it.
//!
//! The data is small: arrays as columns of small numbers, and what they have in common in a table of kinds. What is looked at while
//! zooming is computed by the page, and what stands in its tables is computed here.
//!
//! | file | its one matter |
//! |---|---|
//! | `lives` | arrays from their allocation to their free |
//! | `kinds` | what many arrays have in common, told once |
//! | `bands` | addresses without the gaps that nothing ever used |
//! | `peak` | who holds the memory when most of it is in use, and what is free in between |
//! | `beside` | what no plan served though its scope has one, and why |
//! | `scopes` | what each scope did |
//! | `columns` | all of it as JSON |
//! | `page.html`, `*.css`, `*.js` | what is shown |

mod bands;
mod beside;
mod columns;
mod kinds;
mod lives;
mod peak;
mod scopes;

use std::io::{self, Write};

use serde_json::Value;

use crate::run::Run;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// The scripts, in the order in which their first lines use each other.
const SCRIPTS: [&str; 9] = [
    include_str!("data.js"),
    include_str!("text.js"),
    include_str!("view.js"),
    include_str!("chart.js"),
    include_str!("plan.js"),
    include_str!("search.js"),
    include_str!("tables.js"),
    include_str!("limit.js"),
    include_str!("main.js"),
];

/// What a replay of the run under a limit gave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limited {
    pub(crate) limit_bytes: u64,
    /// Whether an allocation found no memory.
    pub(crate) out_of_memory: bool,
    pub(crate) reserved_bytes: u64,
    /// Of the allocations in scopes, from 0 to 1.
    pub(crate) planned_share: f64,
}

impl Limited {
    /// Those of a list of objects with the names of the fields.
    ///
    /// # Errors
    /// For what is no such list, with the object.
    pub(crate) fn list(value: &Value) -> Result<Vec<Limited>, String> {
        let objects = value.as_array().ok_or("it is no list")?;
        objects.iter().map(|object| Limited::of(object).ok_or(format!("it is no limit: {object}"))).collect()
    }

    fn of(object: &Value) -> Option<Limited> {
        Some(Limited {
            limit_bytes: object["limit_bytes"].as_u64()?,
            out_of_memory: object["out_of_memory"].as_bool()?,
            reserved_bytes: object["reserved_bytes"].as_u64()?,
            planned_share: object["planned_share"].as_f64()?,
        })
    }
}

/// Writes the page of a run.
///
/// # Errors
/// Those of the writer.
pub(crate) fn write(run: &Run, name: &str, limits: &[Limited], mut to: impl Write) -> io::Result<()> {
    // No text in the data ends the element that it stands in.
    let data = columns::of(run, name, limits).to_string().replace('<', "\\u003c");
    let mut rest = TEMPLATE;
    for (mark, parts) in [("/*style*/", &[STYLE][..]), ("/*data*/", &[&data]), ("/*script*/", &SCRIPTS)] {
        let (before, after) = rest.split_once(mark).unwrap_or((rest, ""));
        to.write_all(before.as_bytes())?;
        parts.iter().try_for_each(|part| to.write_all(part.as_bytes()))?;
        rest = after;
    }
    to.write_all(rest.as_bytes())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::tests::example;

    #[test]
    fn all_parts_are_in_the_page_and_names_end_nothing() {
        let mut run = example();
        run.events[2].scope = "</script><b>".into();
        let mut page = Vec::new();
        write(&run, "run & co", &[], &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.ends_with("</html>\n") && page.contains("\\u003c/script>\\u003cb>") && page.contains("run & co"));
        assert!(SCRIPTS.iter().all(|script| page.contains(script)) && page.contains(STYLE));
        assert!(["/*style*/", "/*data*/", "/*script*/", "http://", "https://"].iter().all(|text| !page.contains(text)));
    }

    #[test]
    fn limits_are_read() {
        let one = json!({ "limit_bytes": 5, "out_of_memory": true, "reserved_bytes": 4, "planned_share": 0.5 });
        let read = Limited { limit_bytes: 5, out_of_memory: true, reserved_bytes: 4, planned_share: 0.5 };
        assert_eq!(Limited::list(&json!([one])), Ok(vec![read]));
        assert!(Limited::list(&one).is_err() && Limited::list(&json!([{ "limit_bytes": 5 }])).is_err());
    }
}
