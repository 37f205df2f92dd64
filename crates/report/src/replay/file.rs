//! Reads a history from a file. The first line names the format of the others. Every error has the file and the line.

use std::path::Path;

use super::builder::Builder;
use super::csv::{self, Csv};
use super::format::Format;
use super::history::History;
use super::rmm::{self, Rmm};
use crate::error::Error;
use crate::text::{self, Damage};

impl History {
    /// Reads a file, packed by gzip or not: a trace of `GPUCACHE_TRACE`, another file that begins with the columns
    /// `step,op,id,bytes,stream`, or the log of RMM's `logging_resource_adaptor`.
    ///
    /// `a` allocates, `f` frees, and an `id` names one allocation; sizes are in bytes. Without a column `scope`, each step is an entry of
    /// one scope. A log of RMM is one step. All threads and streams become one, in the order of the file. Scopes of other threads get
    /// names of their own.
    ///
    /// # Errors
    /// The file cannot be read, is cut off, or breaks its format. The error has the line.
    ///
    /// ```
    /// use gpucache_report::replay::History;
    ///
    /// let path = std::env::temp_dir().join("gpucache-history.csv");
    /// std::fs::write(&path, "step,op,id,bytes,stream\n0,a,0,512,0\n0,f,0,512,0\n")?;
    /// assert_eq!(History::read(&path)?.operations(), 2);
    /// std::fs::write(&path, "step,op,id,bytes,stream\n0,f,7,512,0\n")?;
    /// assert!(History::read(&path).unwrap_err().to_string().ends_with(":2: 7 is freed, but was never allocated"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(path: impl AsRef<Path>) -> Result<History, Error> {
        let path = path.as_ref();
        text::read(path, |text| parse(text, name_of(path)))
    }
}

/// The name of the file without its endings.
fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".csv").unwrap_or(name).to_owned()
}

fn parse(text: &str, name: String) -> Result<History, Damage> {
    let mut lines = text.lines().zip(1..);
    let (header, _) = lines.next().ok_or((1, "the file is empty".to_owned()))?;
    let mut format = format_of(header).ok_or_else(|| (1, unknown(header)))?;
    let mut builder = Builder::default();
    for (line, number) in lines {
        format.line(line, &mut builder).map_err(|what| (number, what))?;
    }
    builder.finish(name).map_err(|what| (text.lines().count(), what))
}

fn format_of(header: &str) -> Option<Box<dyn Format>> {
    match header {
        rmm::HEADER => Some(Box::<Rmm>::default()),
        _ => Csv::of(header).map(|csv| Box::new(csv) as Box<dyn Format>),
    }
}

fn unknown(header: &str) -> String {
    let header: String = header.chars().take(80).collect();
    format!("{header:?} is not the first line of a trace, which is {:?} or {:?}", csv::HEADER, rmm::HEADER)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const GOOD: &str = "step,op,id,bytes,stream\n0,a,0,512,0\n0,f,0,512,0\n";

    #[test]
    fn lines_end_as_on_any_system() {
        for text in [GOOD, &GOOD.replace('\n', "\r\n")] {
            assert_eq!(parse(text, String::new()).unwrap().operations(), 2);
        }
    }

    #[test]
    fn what_is_no_history_is_refused() {
        for text in ["", "\n", "id,bytes\n", "step,op,id,bytes,stream\n"] {
            assert_eq!(parse(text, String::new()).unwrap_err().0, 1, "{text:?}");
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        let folder = std::env::temp_dir().join(format!("gpucache-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("bad.csv");
        std::fs::write(&path, format!("{GOOD}0,f,7,512,0\n")).unwrap();
        let error = History::read(&path).unwrap_err().to_string();
        let missing = History::read(folder.join("missing.csv")).unwrap_err().to_string();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(error, format!("{}:4: 7 is freed, but was never allocated", path.display()));
        assert!(missing.contains("missing.csv"), "{missing}");
    }

    #[test]
    fn names_lose_their_endings() {
        for path in ["a/gpt2.csv.gz", "gpt2.csv", "gpt2"] {
            assert_eq!(name_of(Path::new(path)), "gpt2");
        }
        assert_eq!(name_of(Path::new("rmm_log.dev0.txt")), "rmm_log.dev0.txt");
    }
}
