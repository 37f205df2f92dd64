//! Opens the page of a run of 10⁵ events in a browser. The page is drawn within two seconds without an error. Searching, pointing, keys and
//! the limit show what the trace has. On a telephone nothing is cut off.
//!
//! The browser is Chromium, from `PATH`. Without one the test says that it did nothing; with `GPUCACHE_NEEDS_BROWSER` set it fails.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const EVENTS: u64 = 100_000;
const MOST_BYTES: u64 = 10 << 20;
const MOST_MILLISECONDS: u64 = 2000;
const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// Uses the page, and keeps its texts as attributes of the root.
const PROBE: &str = r#"<script>
const told = document.documentElement.dataset;
const key = (target, name) => target.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
const plan = byId("plan");
byId("search").value = "needle 17x19";
byId("search").dispatchEvent(new Event("input"));
told.found = byId("found").textContent;
key(byId("search"), "Enter");
told.selected = byId("selected").textContent;
drawNow();
const [box, at] = [plan.getBoundingClientRect(), boxOf(surface("plan").frame, view.selected)];
const [clientX, clientY] = [box.left + (at.left + at.right) / 2, box.top + (at.top + at.bottom) / 2];
plan.dispatchEvent(new PointerEvent("pointermove", { clientX, clientY }));
told.tip = byId("tip").textContent;
told.zoomed = !isWhole();
key(plan, "0");
told.whole = isWhole() && view.high - view.low === view.device.height;
key(plan, "+");
told.closer = !isWhole();
byId("limit").value = 50;
byId("limit").dispatchEvent(new Event("input"));
told.limit = byId("limit-says").textContent;
told.failed = byId("failed").textContent;
run.limits = { ...run.limits, device: view.device.number, rows: [[view.device.peakLive, 3, 0, 0]] };
byId("limit").value = 100;
byId("limit").dispatchEvent(new Event("input"));
told.replayed = byId("limit-says").textContent;
told.holes = holesText({ count: 2, bytes: 300, longest: [["0x10", 0, 200], ["0x900", 0, 100]] });
byId("axis").value = "time";
byId("axis").dispatchEvent(new Event("change"));
byId("colour").value = "served";
byId("colour").dispatchEvent(new Event("change"));
byId("theme").click();
drawNow();
</script>"#;

/// The page in a frame as wide as a telephone: the width of its contents, and the elements with contents that do not fit.
const TELEPHONE: &str = r#"<!doctype html><iframe id="frame" src="page.html" style="width: 390px; height: 800px; border: 0"></iframe><script>
onload = () => {
  const page = frame.contentDocument;
  const told = document.documentElement.dataset;
  told.wide = page.documentElement.scrollWidth;
  const all = [...page.querySelectorAll(".table, table, caption, td, dd, dt, p, h1, h2, h3, ul, .tools, .head, .card, button, select")];
  told.cut = all.filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth > 1).map((one) => one.outerHTML.slice(0, 60)).join(" ");
  told.scrolls = [...page.querySelectorAll("canvas")].every((one) => frame.contentWindow.getComputedStyle(one).touchAction === "pan-y");
};
</script>"#;

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The file of a run: steps of two scopes, arrays of many sizes, and one array of a scope that is entered once.
fn trace() -> String {
    let mut lines = vec![
        "step,op,id,bytes,stream,time_ns,thread,scope,served,address,dtype,shape,site,device,scope_site".to_owned(),
    ];
    lines.push("0,reserve,0,6291456,0,0,0,,,0x0,,,,1,".to_owned());
    for step in 1.. {
        let first = lines.len();
        add_step(&mut lines, step, first);
        if lines.len() as u64 > EVENTS {
            break;
        }
    }
    lines.join("\n") + "\n"
}

/// An entry of a scope, with arrays whose ids count from `first`.
fn add_step(lines: &mut Vec<String>, step: usize, first: usize) {
    let scope = if step == 777 { "needle" } else { ["train", "evaluate"][usize::from(step.is_multiple_of(8))] };
    let served = if step < 3 || scope == "needle" { "range" } else { "plan" };
    let (time, site) = (step * 1_000_000, "src/a/rather/long/path/of/a/program/main.rs:9:5,1,src/main.rs:7:5");
    let turn = |op: &str| format!("{step},{op},0,0,0,{time},0,{scope},,0x0,,,,1,src/main.rs:7:5");
    let (mut frees, mut address) = (Vec::new(), 0x7000_0000_0000usize);
    lines.push(turn("enter"));
    for place in 0..24 {
        let (id, elements) = (first + place, 256 + (place * place * 977 + step % 5 * 640) % 90_000);
        let (dtype, shape, bytes) = match scope {
            "needle" if place == 5 => ("f64", "17x19".to_owned(), 17 * 19 * 8),
            _ => ("f32", elements.to_string(), elements * 4),
        };
        let array = format!("{id},{bytes},3,{time},0,{scope}");
        lines.push(format!("{step},a,{array},{served},{address:#x},{dtype},{shape},{site}"));
        frees.push(format!("{step},f,{array},,{address:#x},,,,1,"));
        address += bytes.next_multiple_of(256);
    }
    lines.append(&mut frees);
    if step == 777 {
        lines.push(format!("{step},short,0,2048,3,{time},0,{scope},,0x0,f16,32x32,{site}"));
    }
    lines.push(turn("leave"));
}

fn report(trace: &Path, page: &Path) {
    let mut command = Command::new(env!("CARGO"));
    // With the features of the whole workspace, with which it is already built.
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    command.args(["run", "--quiet", "--example", "report"]);
    if !cfg!(feature = "cuda") {
        command.arg("--no-default-features");
    }
    let done = command.arg("--").arg(trace).arg("--page").arg(page).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// The browser, if one is installed.
fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let all = std::env::split_paths(&paths).flat_map(|folder| BROWSERS.map(|name| folder.join(name)));
    let found = all.into_iter().find(|path| path.is_file());
    assert!(found.is_some() || std::env::var_os("GPUCACHE_NEEDS_BROWSER").is_none(), "no browser of {BROWSERS:?}");
    found
}

/// Opens a page, and returns the attributes of its root by their names.
fn opened(browser: &Path, page: &Path, profile: &Path) -> HashMap<String, String> {
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--dump-dom"]);
    command.args(["--allow-file-access-from-files", "--window-size=1280,900"]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    let done = command.arg(format!("file://{}", page.display())).output().unwrap();
    let (dom, said) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    let wrong: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let root = dom.split_once("<html").and_then(|(_, rest)| rest.split_once('>')).map_or("", |(root, _)| root);
    let attributes = root.split("data-").skip(1).filter_map(|text| text.split_once("=\""));
    attributes.map(|(name, text)| (name.to_owned(), text.split('"').next().unwrap().to_owned())).collect()
}

#[test]
fn the_page_of_many_events_is_drawn_soon_and_tells_what_the_trace_has() {
    let Some(browser) = browser() else {
        println!("there is no browser of {BROWSERS:?}: nothing was done");
        return;
    };
    let folder = Folder(std::env::temp_dir().join(format!("gpucache-page-{}", std::process::id())));
    std::fs::create_dir(&folder.0).unwrap();
    let path = |name: &str| folder.0.join(name);
    std::fs::write(path("run.csv"), trace()).unwrap();
    report(&path("run.csv"), &path("page.html"));
    let page = std::fs::read_to_string(path("page.html")).unwrap();
    assert!(page.len() as u64 <= MOST_BYTES, "{} bytes", page.len());

    std::fs::write(path("probed.html"), page.replace("</body>", &format!("{PROBE}</body>"))).unwrap();
    let told = opened(&browser, &path("probed.html"), &path("profile"));
    println!("{} bytes, drawn in {} ms", page.len(), told["drawn"]);
    assert_answers(&told);

    std::fs::write(path("telephone.html"), TELEPHONE).unwrap();
    let told = opened(&browser, &path("telephone.html"), &path("profile"));
    assert!(told["wide"].parse::<u64>().unwrap() <= 390, "{told:?}");
    assert_eq!((&*told["cut"], &*told["scrolls"]), ("", "true"));
}

/// Checks that the page's answers agree with the trace.
fn assert_answers(told: &HashMap<String, String>) {
    let milliseconds: u64 = told["drawn"].parse().unwrap();
    assert!(milliseconds <= MOST_MILLISECONDS, "{milliseconds} ms");

    assert!(told["found"].starts_with("1 array"), "{told:?}");
    for words in [&told["selected"], &told["tip"]] {
        let parts = [
            "needle",
            "program/main.rs:9:5",
            "src/main.rs:7:5",
            "f64 [17 × 19]",
            "2.52 KiB (2,584)",
            "24 events",
            "range",
            "0, 3",
        ];
        assert!(parts.iter().all(|part| words.contains(part)), "{words}");
    }
    let replayed = "Maybe too low: The run never reserved more than this limit.";
    assert!(told["replayed"].starts_with(replayed), "{told:?}");
    assert!(told["replayed"].contains("3 allocations find no memory"), "{told:?}");
    assert!(told["holes"].contains("1 − longest hole ÷ all holes, is 33%"), "{told:?}");
    let failed = ["1 allocation of the traced run failed", "needle", "f16 [32 × 32]", "2 KiB", "6 MiB"];
    assert!(failed.iter().all(|part| told["failed"].contains(part)), "{told:?}");
    assert!(["zoomed", "whole", "closer"].iter().all(|name| told[*name] == "true"), "{told:?}");
    assert!(told["limit"].starts_with("Too low: The first failure is at event"), "{told:?}");
}
