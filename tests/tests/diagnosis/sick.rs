//! Programs with one problem each, which their diagnosis names, and no other.

use gpucache::device::{Host, Virtual};
use gpucache::{Scope, cache_scope, diagnose, diagnosis::Cause, prelude::*};
use gpucache_tests::turn;

use super::{KIB, MIB, Result, causes, device, is_healthy, train_step};

#[track_caller]
fn is_sick(name: &str, cause: Cause) {
    assert_eq!(causes(name), [cause], "{name}");
}

#[test]
fn several_streams_in_one_scope() -> Result {
    let _turn = turn();
    let (one, other) = (Host::new_stream()?, Host::new_stream()?);
    for _ in 0..40 {
        cache_scope!(sick_streams, {
            for _ in 0..4 {
                drop((one.zeros::<u8>(5 * KIB)?, other.zeros::<u8>(6 * KIB)?));
            }
        });
    }
    is_sick("sick_streams", Cause::OtherStreams);
    Ok(())
}

/// Each entry on another stream than the one before, with a state on each stream. Plans do not move away from such a state.
#[test]
fn states_of_streams_in_turn_in_one_scope() -> Result {
    let _turn = turn();
    let streams = [Host::new_stream()?, Host::new_stream()?];
    let mut states = [uncached(&streams[0])?, uncached(&streams[1])?];
    for entry in 0..60 {
        let turn = entry % 2;
        cache_scope!(sick_turns, {
            train_step(&streams[turn], 4, 32)?;
            states[turn] = states[turn].try_clone()?;
        });
    }
    is_sick("sick_turns", Cause::OtherStreams);
    Ok(())
}

#[test]
fn arrays_used_on_another_stream() -> Result {
    let _turn = turn();
    let (one, other) = (Host::new_stream()?, Host::new_stream()?);
    let mut sum = uncached(&other)?;
    for _ in 0..40 {
        cache_scope!(sick_used, {
            for _ in 0..8 {
                let part = Array::full(&one, 64 * KIB, 1.0f32)?;
                other.launch((&mut sum, &part), |(sum, part)| sum[0] += part[0])?;
            }
        });
    }
    is_sick("sick_used", Cause::UsedElsewhere);
    Ok(())
}

fn uncached(host: &Host) -> gpucache::Result<Array<f32, Host>> {
    Array::zeros(host, 1)
}

#[test]
fn a_scope_inside_itself() -> Result {
    let device = device();
    cache_scope!(sick_nested, {
        for _ in 0..100 {
            cache_scope!(sick_nested, { train_step(&device, 4, 32)? });
        }
    });
    is_healthy("sick_nested");
    Ok(())
}

#[test]
fn a_scope_around_the_loop() -> Result {
    let device = device();
    cache_scope!(sick_loop, {
        for _ in 0..100 {
            train_step(&device, 4, 32)?;
        }
    });
    is_healthy("sick_loop");
    Ok(())
}

#[test]
fn a_scope_that_another_one_serves() -> Result {
    let device = device();
    for _ in 0..100 {
        cache_scope!(sick_empty, { cache_scope!(sick_empty_inner, { train_step(&device, 4, 32)? }) });
    }
    is_sick("sick_empty", Cause::Empty);
    is_healthy("sick_empty_inner");
    Ok(())
}

#[test]
fn entries_that_are_too_long() -> Result {
    let (device, mut random) = (device(), fastrand::Rng::with_seed(1));
    for _ in 0..12 {
        cache_scope!(sick_long, {
            for _ in 0..140_000 {
                drop(device.zeros::<u8>(random.usize(1..1 << 30))?);
            }
        });
    }
    is_sick("sick_long", Cause::TooLong);
    Ok(())
}

#[test]
fn entries_that_are_too_large() -> Result {
    let device = device();
    for _ in 0..12 {
        cache_scope!(sick_large, {
            for _ in 0..10 {
                drop(device.zeros::<u8>(1 << 36)?);
            }
        });
    }
    is_sick("sick_large", Cause::TooLarge);
    Ok(())
}

/// Less than the step has in use at once, and some more.
#[test]
fn a_limit_that_is_too_low() -> Result {
    let device = device();
    let scope = Scope::new("sick_limit").limit(10 * MIB as u64);
    for _ in 0..40 {
        scope.run(|| {
            let kept = device.zeros::<u8>(4 * MIB)?;
            drop(device.zeros::<u8>(5 * MIB)?);
            drop(device.zeros::<u8>(6 * MIB)?);
            device.zeros::<u8>(7 * MIB).unwrap_err();
            drop(kept);
            Ok::<_, gpucache::Error>(())
        })?;
    }
    is_sick("sick_limit", Cause::Limit);
    Ok(())
}

/// Entries of one and of two allocations in turn, where a third one fails.
#[test]
fn a_share_is_of_all_allocations() -> Result {
    let device = device();
    let scope = Scope::new("sick_share").limit(10 * MIB as u64);
    for entry in 0..40 {
        scope.run(|| {
            let _kept = device.zeros::<u8>(4 * MIB)?;
            match entry % 2 {
                0 => drop(device.zeros::<u8>(5 * MIB)?),
                _ => drop(device.zeros::<u8>(7 * MIB).unwrap_err()),
            }
            Ok::<_, gpucache::Error>(())
        })?;
    }
    let diagnosis = diagnose("sick_share").unwrap();
    let [finding] = &diagnosis.findings[..] else { unreachable!("{diagnosis}") };
    let share = finding.allocations as f64 / (1.5 * finding.of_entries as f64);
    assert!((finding.share - share).abs() < 0.01, "{diagnosis}");
    Ok(())
}

#[test]
fn a_limit_of_the_device() -> Result {
    let device = device();
    device.set_limit(12 * MIB as u64).unwrap();
    for _ in 0..40 {
        cache_scope!(sick_limited, {
            let _kept = device.zeros::<u8>(8 * MIB)?;
            device.zeros::<u8>(6 * MIB).unwrap_err();
        });
    }
    is_sick("sick_limited", Cause::Limit);
    Ok(())
}

#[test]
fn a_device_that_is_too_small() -> Result {
    let device = Virtual::new(16 * MIB);
    for _ in 0..40 {
        cache_scope!(sick_short, {
            let kept = device.zeros::<u8>(8 * MIB)?;
            device.zeros::<u8>(10 * MIB).unwrap_err();
            drop(kept);
        });
    }
    is_sick("sick_short", Cause::Short);
    Ok(())
}

#[test]
fn memory_that_is_trimmed_each_time() -> Result {
    let device = device();
    for _ in 0..40 {
        cache_scope!(sick_trimmed, { train_step(&device, 4, 3200)? });
        device.trim();
    }
    is_sick("sick_trimmed", Cause::Trimmed);
    Ok(())
}

/// The idle limit returns the memory of the scope to the device at the end of each entry.
#[test]
fn an_idle_limit_that_is_too_low() -> Result {
    let device = device();
    device.set_idle_limit(0).unwrap();
    for _ in 0..40 {
        cache_scope!(sick_idle_limit, { train_step(&device, 4, 3200)? });
    }
    is_sick("sick_idle_limit", Cause::IdleLimit);
    never_says("sick_idle_limit", "trim");
    Ok(())
}

/// Two scopes in turn on a device that has room for one of them.
#[test]
fn two_scopes_that_take_turns_on_a_small_device() -> Result {
    let device = Virtual::new(16 * MIB);
    for _ in 0..40 {
        cache_scope!(sick_one, recycle = "keyed", { drop(device.zeros::<u8>(10 * MIB)?) });
        cache_scope!(sick_other, recycle = "keyed", { drop(device.zeros::<u8>(12 * MIB)?) });
    }
    for name in ["sick_one", "sick_other"] {
        never_says(name, "trim");
    }
    Ok(())
}

#[track_caller]
fn never_says(name: &str, word: &str) {
    let diagnosis = diagnose(name).unwrap();
    println!("{diagnosis}");
    assert!(!diagnosis.to_string().contains(word), "{diagnosis}");
}

#[test]
fn a_scope_that_is_invalidated_each_time() -> Result {
    let device = device();
    for _ in 0..40 {
        cache_scope!(sick_invalidated, { train_step(&device, 4, 32)? });
        invalidate("sick_invalidated");
    }
    is_sick("sick_invalidated", Cause::Invalidated);
    Ok(())
}

#[test]
fn a_name_for_each_request() -> Result {
    let device = device();
    for request in 0..100 {
        cache_scope!(name = format!("sick request {request}"), { train_step(&device, 4, 32)? });
    }
    is_sick("sick request 7", Cause::ManyNames);
    Ok(())
}

/// Forty layers with the same two problems of one line, and another scope with one of them: two diagnoses, of which the first has the
/// figures of all layers.
#[test]
fn equal_findings_of_many_scopes_are_one_diagnosis() -> Result {
    let device = device();
    let mut kept = Vec::new();
    for _ in 0..40 {
        for layer in 0..40 {
            cache_scope!(name = format!("sick layer {layer}"), { kept.push(device.zeros::<f32>(1000 + layer)?) });
        }
        cache_scope!(sick_keeper, { kept.push(device.zeros::<f32>(1000)?) });
    }
    let own =
        |one: &&gpucache::diagnosis::Diagnosis| one.scope.starts_with("sick layer") || &*one.scope == "sick_keeper";
    let all = gpucache::diagnose_all();
    let of_these: Vec<_> = all.iter().filter(own).collect();
    let [layers, keeper] = of_these[..] else { panic!("{of_these:#?}") };
    let single = diagnose("sick layer 7").unwrap();
    assert_eq!((&*layers.scope, layers.alike.len(), keeper.alike.len()), ("sick layer 0", 39, 0));
    assert_eq!((layers.entries, single.entries), (1600, 40));
    let (joined, one) = (&layers.findings[0], &single.findings[0]);
    assert_eq!((joined.cause, joined.allocations), (one.cause, 40 * one.allocations));
    assert!(joined.sites.len() <= 3 && joined.details.len() <= 4, "{joined:?}");
    let text = layers.to_string();
    assert!(text.starts_with("scope `sick layer 0`, `sick layer 1`, `sick layer 10` and 37 more at "), "{text}");
    Ok(())
}

/// Entries on one stream whose plan serves none of their allocations.
#[test]
fn one_stream_is_not_several() -> Result {
    let _turn = turn();
    let device = device();
    for (name, every, odd) in
        [("sick_one_2", 2, 3), ("sick_one_4", 4, 3), ("sick_one_4_large", 4, 400), ("sick_one_8", 8, 50)]
    {
        let scope = Scope::new(name);
        for entry in 0..80usize {
            scope.run(|| -> Result {
                if entry > 16 && entry.is_multiple_of(every) {
                    let sizes = (0..entry % 7 + 1).map(|number| (number * odd + entry) * KIB);
                    sizes.map(|bytes| device.zeros::<u8>(bytes)).collect::<gpucache::Result<Vec<_>>>()?;
                } else {
                    train_step(&device, 4, 32)?;
                }
                Ok(())
            })?;
        }
        let causes = causes(name);
        assert!(!causes.contains(&Cause::OtherStreams), "{name}: {causes:?}");
    }
    Ok(())
}
