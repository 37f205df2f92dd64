//! Random programs of captured scopes on streams of the host. They set limits of the host, so they take turns with all other tests.

use gpucache::prelude::*;
use gpucache_tests::captured::Program;
use gpucache_tests::turn;

/// `PROGRAMS`, `SEED` and `STEPS` say which programs run, and how long.
#[test]
fn random_programs_agree_with_the_model() {
    let _turn = turn();
    let steps = gpucache_tests::process::number("STEPS").unwrap_or(200) as usize;
    let mut launches = 0;
    gpucache_tests::seeds::each(30, 1, |seed| {
        let host = Host::new_stream().unwrap();
        launches += Program::new(&host, "captured: programs", seed).run(steps);
    });
    assert!(launches > 0);
}
