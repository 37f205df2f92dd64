//! A page that shows what a run did with memory: one file of HTML that needs no network and nothing beside it.
//!
//! The data is small: arrays as columns of small numbers, and what they have in common in a table of kinds. What is looked at while
//! zooming is computed by the page, and what stands in its tables is computed here.
//!
//! | file | its one matter |
//! |---|---|
//! | `kinds` | what many arrays have in common, told once |
//! | `bands` | addresses without the gaps that nothing ever used |
//! | `peak` | who holds the memory when most of it is in use, and what is free in between |
//! | `beside` | what no plan served though its scope has one, and why |
//! | `limits` | what the run does in less memory |
//! | `scopes` | what each scope did |
//! | `columns` | all of it as JSON |
//! | `page.html`, `*.css`, `*.js` | what is shown |

mod bands;
mod beside;
mod columns;
mod kinds;
mod limits;
mod peak;
mod scopes;

use std::io::{self, Write};

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

/// Writes the page of a run, which is called `name` there: one file of HTML that needs no network and nothing beside it.
///
/// The run is replayed under some limits before, on a device without memory, so that the page tells what each of them would have done.
/// A run that contradicts itself, as a file of another program may, has a page without that.
///
/// # Errors
/// Those of the writer.
///
/// ```
/// use gpucache::{cache_scope, prelude::*, trace};
/// use gpucache_report::{Run, page};
///
/// trace::start(1000);
/// cache_scope!(step, { drop(Host::new().zeros::<f32>([32, 64])?) });
/// let mut file = Vec::new();
/// page::write(&Run::from(&trace::stop()), "one step", &mut file)?;
/// assert!(String::from_utf8(file)?.starts_with("<!doctype html>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn write(run: &Run, name: &str, mut to: impl Write) -> io::Result<()> {
    // No text in the data ends the element that it stands in.
    let data = columns::of(run, name, &limits::of(name, run)).to_string().replace('<', "\\u003c");
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::run::tests::example;

    #[test]
    fn all_parts_are_in_the_page_and_names_end_nothing() {
        let mut run = example();
        run.events[2].scope = "</script><b>".into();
        let mut page = Vec::new();
        write(&run, "run & co", &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        assert_eq!(page.matches("</script>").count(), 2);
        assert!(page.ends_with("</html>\n") && page.contains("\\u003c/script>\\u003cb>") && page.contains("run & co"));
        assert!(SCRIPTS.iter().all(|script| page.contains(script)) && page.contains(STYLE));
        assert!(["/*style*/", "/*data*/", "/*script*/", "http://", "https://"].iter().all(|text| !page.contains(text)));
    }

    #[test]
    fn sums_that_no_number_holds_are_the_most_that_one_does() {
        let mut run = example();
        run.events.iter_mut().for_each(|event| event.bytes = u64::MAX);
        run.reserved[0].bytes = u64::MAX;
        write(&run, "absurd", std::io::sink()).unwrap();
        run.events.retain(|event| event.id == 0);
        write(&run, "nothing is alive", std::io::sink()).unwrap();
    }
}
