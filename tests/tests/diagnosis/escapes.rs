//! Arrays that outlive their entry: the finding has the lines that allocated them, and the number of arrays that escaped.

use std::collections::VecDeque;

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{
    Array, cache_scope, diagnose,
    diagnosis::{Cause, Finding},
    prelude::*,
};

use super::{KIB, Result, device};

type Kept = VecDeque<Array<u8, Virtual>>;

#[track_caller]
fn only_finding(name: &str) -> Finding {
    let diagnosis = diagnose(name).unwrap();
    println!("{diagnosis}");
    let [finding] = &diagnosis.findings[..] else { panic!("{diagnosis}") };
    assert_eq!(finding.cause, Cause::Escapes, "{diagnosis}");
    finding.clone()
}

/// The lines of this file that a finding names.
fn lines(finding: &Finding) -> Vec<u32> {
    let mut lines: Vec<u32> =
        finding.sites.iter().filter(|site| site.file() == file!()).map(|site| site.line()).collect();
    lines.sort_unstable();
    lines
}

/// Fifty entries of six arrays, of which two are kept: too few entries for the record of leaks.
#[test]
fn a_hundred_of_three_hundred_arrays_escape() -> Result {
    let (device, mut kept) = (device(), Kept::new());
    let mut at = [0, 0];
    for _ in 0..50 {
        cache_scope!(escapes_soon, {
            let _inside = [1, 2, 3, 4].map(|size| device.zeros::<u8>(size * 10 * KIB));
            at[0] = line!() + 1;
            kept.push_back(device.zeros::<u8>(10 * KIB)?);
            at[1] = line!() + 1;
            kept.push_back(device.zeros::<u8>(20 * KIB)?);
        });
    }
    let finding = only_finding("escapes_soon");
    assert_eq!(lines(&finding), at);
    assert_eq!(finding.allocations, 100);
    assert!((finding.share - 1.0 / 3.0).abs() < 0.01, "{finding:?}");
    assert_eq!(finding.bytes, (50 * 30 * KIB) as u64);
    assert!(!finding.to_string().contains("100%"), "{finding}");
    Ok(())
}

/// One array of `of` is kept, the oldest ones or any are dropped: a finding of escapes names their line, and about their share.
#[test]
fn arrays_escape_for_a_while() -> Result {
    for (most, of, is_shuffled) in [(40, 4, true), (60, 3, true), (10_000, 3, false)] {
        let (device, mut kept, mut rng, mut at) = (device(), Kept::new(), Rng::with_seed(1), 0);
        let name = format!("escapes: {most} of one in {of}, {is_shuffled}");
        for _ in 0..100 {
            cache_scope!(name = &name, {
                for size in 1..20 {
                    at = line!() + 1;
                    let array = device.zeros::<u8>(size * 10 * KIB)?;
                    if rng.u32(..of) == 0 {
                        kept.push_back(array);
                    }
                }
            });
            if is_shuffled {
                rng.shuffle(kept.make_contiguous());
            }
            kept.drain(..kept.len().saturating_sub(most));
        }
        let finding = only_finding(&name);
        assert_eq!(lines(&finding), [at], "{finding}");
        assert!((finding.share - 1.0 / f64::from(of)).abs() < 0.15, "{finding}");
    }
    Ok(())
}

/// Each other entry keeps its arrays, in a way that no entry repeats.
#[test]
fn an_escape_beside_healthy_arrays() -> Result {
    let (device, mut kept, mut rng, mut at) = (device(), Kept::new(), Rng::with_seed(5), 0);
    for _ in 0..60 {
        cache_scope!(escapes_or_not, {
            for size in 1..9 {
                drop(device.zeros::<u8>(size * 30 * KIB)?);
                at = line!() + 1;
                let array = device.zeros::<u8>(size * 10 * KIB)?;
                if rng.bool() {
                    kept.push_back(array);
                }
            }
        });
        rng.shuffle(kept.make_contiguous());
        kept.truncate(20);
    }
    let finding = only_finding("escapes_or_not");
    assert_eq!(lines(&finding), [at]);
    assert!(finding.share < 0.5, "{finding}");
    Ok(())
}
