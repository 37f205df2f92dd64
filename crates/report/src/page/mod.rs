//! A page that shows the memory of a run: one HTML file that needs no network and no other file.
//!
//! The data is small: arrays are columns of small numbers, and a table of kinds has their common properties. This module computes the
//! tables; the page itself computes the charts.
//!
//! | file | content |
//! |---|---|
//! | `kinds` | properties that many arrays share, stored once |
//! | `bands` | addresses without the gaps that no array ever used |
//! | `peak` | the live arrays at the peak and at the end, and the holes between those at the peak |
//! | `beside` | arrays that no plan served although their scope has one, and why |
//! | `failed` | allocations that found no memory |
//! | `limits` | replays under lower limits |
//! | `scopes` | the figures of each scope |
//! | `columns` | all data as JSON |
//! | `page.html`, `*.css`, `*.js` | the page itself |

mod bands;
mod beside;
mod columns;
mod failed;
mod kinds;
mod limits;
mod peak;
mod scopes;

use std::io::{self, Write};

use crate::run::Run;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

/// The scripts, each after those whose definitions it uses while it loads.
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

/// Writes the page of a run under this name: one HTML file that needs no network and no other file.
///
/// The page has replays of the run under several limits, on a device without memory. They are missing if the events of the run contradict
/// each other, as in a file of another program.
///
/// # Errors
/// Errors of the writer.
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
    // Without `<` no text in the data can end its element.
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
