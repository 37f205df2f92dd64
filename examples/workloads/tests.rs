//! All programs run, and keep what their descriptions promise.

use fastrand::Rng;

use crate::figures::Figures;
use crate::program::{Program, all};
use crate::run::{Mode, Run};
use crate::tape::Tape;

/// The figures of a program without a device, and the bytes of arrays that are left.
fn counted(program: &Program, seed: u64) -> (Figures, u64) {
    let tape = Tape::new(None, false);
    (program.run)(&tape, &mut Rng::with_seed(seed));
    let left = tape.live_bytes();
    (Figures::of(&tape.end().unwrap()), left)
}

#[test]
fn programs_are_of_ordinary_sizes_and_drop_all_arrays() {
    for program in all() {
        for seed in 1..=3 {
            let (figures, left) = counted(program, seed);
            let context = format!("{} with seed {seed}: {figures:?}", program.name);
            assert_eq!(left, 0, "{context}");
            assert!((20.0..5000.0).contains(&figures.steps), "{context}");
            assert!((20.0..4000.0).contains(&figures.allocations_per_step), "{context}");
            let bytes = figures.peak_live_bytes;
            assert!((f64::from(8 << 20)..f64::from(1 << 30) * 32.0).contains(&bytes), "{context}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_program_and_another_seed_another_one() {
    for program in all() {
        assert_eq!(counted(program, 1), counted(program, 1), "{}", program.name);
        assert_ne!(counted(program, 1), counted(program, 2), "{}", program.name);
    }
}

#[test]
fn names_are_unique() {
    let names: std::collections::BTreeSet<&str> = all().map(|program| program.name).collect();
    assert_eq!(names.len(), all().count());
}

/// The statistics are those of the whole process, so one test alone runs programs on a device.
#[test]
fn runs_report_plans_and_failed_allocations() {
    let run_in = |mode, name: &str, limit| {
        let program = all().find(|program| program.name == name).unwrap();
        Run { program, seed: 1, mode, limit }.perform().unwrap()
    };
    let run = |name: &str, limit| run_in(Mode::Step, name, limit);
    let free = run("fixed", None);
    assert!(free.figures.planned_share > 0.99, "{free:?}");
    assert!(free.figures.reserved_over_live < 1.1, "{free:?}");
    assert_eq!((free.figures.out_of_memory, free.plans.len()), (0.0, 1), "{free:?}");
    let loaded = run("loader_drops", None);
    assert!(loaded.figures.planned_share <= 1.0, "{loaded:?}");
    let limited = run("random_length", Some(0.9));
    assert!(limited.figures.out_of_memory > 0.0, "{limited:?}");
    // Longer texts have another order. Their first step is an iteration without an arena, and is recorded to its end.
    let longer = run_in(Mode::Auto, "curriculum_stepwise", None);
    assert!(longer.figures.late_planned_share > 0.85, "{longer:?}");
}
