//! `invalidate` of a name that no scope has prints one line on stderr, once for each name, with similar names. A child process makes
//! the calls, so that its stderr can be read.

use std::process::Command;

use gpucache::{Scope, invalidate, prelude::*};

const CHILD: &str = "GPUCACHE_UNKNOWN_NAME";

/// The part of the child process.
#[test]
fn calls() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let host = Host::new();
    for name in ["train_step", "eval"] {
        Scope::new(name).run(|| drop(host.zeros::<u8>(16).unwrap()));
    }
    assert!(invalidate("train_step").is_known);
    (0..3).for_each(|_| assert!(!invalidate("trainstep").is_known));
    assert!(!Scope::new("load").invalidate().is_known);
    // Nobody can misspell the name of such a scope.
    drop(Scope::new("owned").owned());
    assert!(!invalidate("two\nlines").is_known);
    (0..1000).for_each(|number| assert!(!invalidate(format!("request {number}")).is_known));
}

#[test]
fn an_unknown_name_is_told_once() {
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", "unknown_name::calls", "--nocapture"]).env(CHILD, "1").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("gpucache")).collect();
    assert_eq!(
        lines[0], "gpucache: invalidate: no scope is named \"trainstep\"; did you mean \"train_step\"?",
        "{text}"
    );
    assert_eq!(lines[1], "gpucache: invalidate: no scope is named \"load\"", "{text}");
    assert!(lines[2].contains("two") && lines[2].contains("lines"), "{text}");
    assert!(lines.len() <= 32 && lines[3].contains("request 0"), "{text}");
}
