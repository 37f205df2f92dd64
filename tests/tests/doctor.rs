//! Sick programs, each with one known cause that its diagnosis names and no other, and healthy ones, of which it finds nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::VecDeque;

use fastrand::Rng;
use gpucache::device::{Host, Virtual};
use gpucache::{Recycle, Scope, cache_scope, diagnose, diagnosis::Cause, prelude::*};
use gpucache_tests::turn;

#[path = "doctor/leaks.rs"]
mod leaks;

type Result = gpucache::Result<()>;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

fn device() -> Virtual {
    Virtual::new(1 << 40)
}

/// The causes that a diagnosis names; prints it.
fn causes(name: &str) -> Vec<Cause> {
    let diagnosis = diagnose(name).unwrap();
    println!("{diagnosis}\n{}\n{}", gpucache::stats(name).unwrap(), gpucache::stats(name).unwrap().plan);
    diagnosis.findings.iter().map(|finding| finding.cause).collect()
}

#[track_caller]
fn is_sick(name: &str, cause: Cause) {
    assert_eq!(causes(name), [cause], "{name}");
}

#[track_caller]
fn is_healthy(name: &str) {
    assert_eq!(causes(name), [], "{name}");
    assert!(!diagnose(name).unwrap().is_early, "{name}");
}

/// The forward and backward pass of some layers: activations that live until the backward pass, and temporaries.
fn train_step<D: Device>(device: &D, layers: usize, batch: usize) -> Result {
    let mut activations = Vec::new();
    for layer in 0..layers {
        let scratch = device.zeros::<f32>([batch, 256 + layer])?;
        activations.push(device.zeros::<f32>([batch, 128 * (1 + layer % 3)])?);
        drop(scratch);
    }
    for activation in activations.into_iter().rev() {
        let gradient = device.zeros::<f32>(activation.shape())?;
        drop((activation, gradient));
    }
    Ok(())
}

mod sick {
    use super::*;

    /// Every entry keeps an array for good.
    #[test]
    fn arrays_that_pile_up() -> Result {
        let (device, mut kept) = (device(), Vec::new());
        for _ in 0..100 {
            cache_scope!(sick_piling, {
                train_step(&device, 6, 32)?;
                kept.push(device.zeros::<f32>([32, 10])?);
            });
        }
        is_sick("sick_piling", Cause::Escapes);
        Ok(())
    }

    /// Arrays that any entry may keep, for any time.
    #[test]
    fn arrays_that_escape_at_random() -> Result {
        let (device, mut kept, mut rng) = (device(), Vec::new(), Rng::with_seed(1));
        for _ in 0..100 {
            cache_scope!(sick_escapes, {
                for size in 1..20 {
                    let array = device.zeros::<f32>(size * 10 * KIB)?;
                    if rng.u32(..4) == 0 {
                        kept.push(array);
                    }
                }
            });
            rng.shuffle(&mut kept);
            kept.truncate(40);
        }
        is_sick("sick_escapes", Cause::Escapes);
        Ok(())
    }

    /// A third of what entries allocate stays alive, by chance.
    #[test]
    fn arrays_of_which_some_pile_up() -> Result {
        let (device, mut kept, mut rng) = (device(), Vec::new(), Rng::with_seed(7));
        for _ in 0..100 {
            cache_scope!(sick_some_pile, {
                for size in 1..20 {
                    let array = device.zeros::<f32>(size * KIB)?;
                    if rng.u32(..3) == 0 {
                        kept.push(array);
                    }
                }
            });
        }
        is_sick("sick_some_pile", Cause::Escapes);
        Ok(())
    }

    /// Sizes that differ in each entry, by more than a plan's places can have.
    #[test]
    fn shapes_that_change() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(2));
        for _ in 0..100 {
            cache_scope!(sick_shapes, {
                let arrays: Vec<_> =
                    (0..8).map(|_| device.zeros::<f32>(1 << rng.u32(4..22))).collect::<gpucache::Result<_>>()?;
                drop(arrays);
            });
        }
        is_sick("sick_shapes", Cause::ChangingShapes);
        Ok(())
    }

    /// Some sizes of an otherwise regular step change all the time.
    #[test]
    fn some_shapes_that_change() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(3));
        for _ in 0..100 {
            cache_scope!(sick_some_shapes, {
                train_step(&device, 4, 32)?;
                let mut prompt = || device.zeros::<u8>(1 << rng.u32(4..24));
                let _prompts = [prompt()?, prompt()?, prompt()?, prompt()?];
                train_step(&device, 2, 16)?;
            });
        }
        is_sick("sick_some_shapes", Cause::ChangingShapes);
        Ok(())
    }

    /// As many allocations as chance has it.
    #[test]
    fn orders_that_change() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(4));
        for _ in 0..100 {
            cache_scope!(sick_order, {
                for _ in 0..rng.usize(1..60) {
                    let _one = device.zeros::<u8>(rng.usize(1..20) * KIB)?;
                }
            });
        }
        is_sick("sick_order", Cause::ChangingOrder);
        Ok(())
    }

    /// The same sizes, in the order of chance; each array lives until some more were made.
    #[test]
    fn orders_that_are_shuffled() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(10));
        let mut sizes: Vec<usize> = (1..20).map(|size| size * size * 10 * KIB).collect();
        for _ in 0..100 {
            rng.shuffle(&mut sizes);
            cache_scope!(sick_shuffled, {
                let mut alive = VecDeque::new();
                for &size in &sizes {
                    alive.push_back(device.zeros::<u8>(size)?);
                    alive.truncate(4);
                    alive.rotate_left(1);
                }
            });
        }
        is_sick("sick_shuffled", Cause::ChangingOrder);
        Ok(())
    }

    /// Two arrays of a regular step that come in one order or the other.
    #[test]
    fn two_that_change_places() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(11));
        for _ in 0..100 {
            cache_scope!(sick_swapped, {
                train_step(&device, 4, 32)?;
                for place in 0..8 {
                    let sizes = [[3 + place, 40 + place], [40 + place, 3 + place]][rng.usize(..2)];
                    let _two = sizes.map(|size| device.zeros::<u8>(size * 10 * KIB));
                }
            });
        }
        is_sick("sick_swapped", Cause::ChangingOrder);
        Ok(())
    }

    /// A regular step, and now and then some allocations in its middle.
    #[test]
    fn extra_allocations() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(5));
        for _ in 0..100 {
            cache_scope!(sick_extra, {
                train_step(&device, 6, 32)?;
                for _ in 0..rng.usize(..12) {
                    drop(device.zeros::<u8>(5 * KIB)?);
                }
                train_step(&device, 6, 64)?;
            });
        }
        is_sick("sick_extra", Cause::ChangingOrder);
        Ok(())
    }

    /// The same arrays, dropped in another order in each entry.
    #[test]
    fn drops_that_change() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(6));
        for _ in 0..100 {
            cache_scope!(sick_drops, {
                let mut alive = Vec::new();
                for size in 1..40 {
                    alive.push(device.zeros::<u8>(size * 100 * KIB)?);
                    if alive.len() > 4 {
                        alive.swap_remove(rng.usize(..alive.len()));
                    }
                }
            });
        }
        is_sick("sick_drops", Cause::ChangingDrops);
        Ok(())
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

    /// Each entry on another stream than the one before.
    #[test]
    fn streams_in_turn_in_one_scope() -> Result {
        let _turn = turn();
        let streams = [Host::new_stream()?, Host::new_stream()?];
        for entry in 0..60 {
            cache_scope!(sick_turns, { train_step(&streams[entry % 2], 4, 32)? });
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
        is_sick("sick_nested", Cause::Nested);
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
        is_sick("sick_loop", Cause::LoopInside);
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
    fn nothing_recycled() -> Result {
        let device = device();
        for _ in 0..40 {
            cache_scope!(sick_off, recycle = "off", { train_step(&device, 4, 32)? });
        }
        is_sick("sick_off", Cause::NotRecycled);
        Ok(())
    }

    #[test]
    fn keys_that_never_come_again() -> Result {
        let device = device();
        for batch in 1..60 {
            cache_scope!(sick_keyed, recycle = "keyed", { train_step(&device, 4, batch)? });
        }
        is_sick("sick_keyed", Cause::KeyedWaste);
        Ok(())
    }

    #[test]
    fn entries_that_are_too_long() -> Result {
        let device = device();
        for _ in 0..12 {
            cache_scope!(sick_long, {
                for size in 0..140_000 {
                    drop(device.zeros::<u8>(1 + size % 1000)?);
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
        is_sick("sick_trimmed", Cause::GivenBack);
        Ok(())
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
}

mod healthy {
    use super::*;

    /// Gradients of four batches are added up before each update of the parameters.
    #[test]
    fn gradients_that_accumulate() -> Result {
        let device = device();
        for entry in 0..120 {
            cache_scope!(well_accumulating, {
                train_step(&device, 12, 32)?;
                if entry % 4 == 3 {
                    (1..7).try_for_each(|parameter| device.zeros::<f32>(1000 * parameter).map(drop))?;
                }
            });
        }
        is_healthy("well_accumulating");
        Ok(())
    }

    #[test]
    fn a_training_step() -> Result {
        for entries in [8, 12, 20, 33, 100] {
            let (device, name) = (device(), format!("healthy_step of {entries} entries"));
            let mut weights = (0..4).map(|_| device.zeros::<f32>([256, 256])).collect::<gpucache::Result<Vec<_>>>()?;
            for _ in 0..entries {
                cache_scope!(name = &name, {
                    train_step(&device, 12, 32)?;
                    for weight in &mut weights {
                        *weight = weight.try_clone()?;
                    }
                });
            }
            is_healthy(&name);
        }
        Ok(())
    }

    #[test]
    fn two_shapes_in_turn() -> Result {
        let device = device();
        for entry in 0..60 {
            cache_scope!(healthy_turns, { train_step(&device, 6, 32 + 32 * (entry % 2))? });
        }
        is_healthy("healthy_turns");
        Ok(())
    }

    #[test]
    fn two_orders_in_turn() -> Result {
        let device = device();
        for entry in 0..60 {
            cache_scope!(healthy_orders, { train_step(&device, 6 + 3 * (entry % 2), 32)? });
        }
        is_healthy("healthy_orders");
        Ok(())
    }

    #[test]
    fn a_validation_now_and_then() -> Result {
        let device = device();
        for entry in 0..101 {
            cache_scope!(healthy_validated, {
                train_step(&device, 4, 32)?;
                if entry % 10 == 9 {
                    train_step(&device, 3, 77)?;
                }
            });
        }
        is_healthy("healthy_validated");
        Ok(())
    }

    /// What no plan is lost by: recursion, a thread for each entry, scopes of one array that is handed out.
    #[test]
    fn scopes_of_other_kinds() -> Result {
        fn recurse(device: &Virtual, depth: usize) -> Result {
            cache_scope!(healthy_recursion, {
                let _frame = device.zeros::<u8>(KIB * (1 + depth))?;
                if depth > 0 { recurse(device, depth - 1) } else { Ok(()) }
            })
        }
        let device = device();
        for _ in 0..50 {
            recurse(&device, 6)?;
            drop(cache_scope!(healthy_output, { device.zeros::<f32>(1000)? }));
            let entry = || cache_scope!(healthy_thread_each, { train_step(&device, 4, 32) });
            std::thread::scope(|scope| scope.spawn(entry).join().unwrap())?;
        }
        ["healthy_recursion", "healthy_output", "healthy_thread_each"].into_iter().for_each(is_healthy);
        Ok(())
    }

    #[test]
    fn a_batch_that_varies() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(1));
        for _ in 0..100 {
            cache_scope!(healthy_batches, { train_step(&device, 6, rng.usize(16..64))? });
        }
        is_healthy("healthy_batches");
        Ok(())
    }

    #[test]
    fn nested_scopes() -> Result {
        let device = device();
        for _ in 0..60 {
            cache_scope!(healthy_outer, {
                let _input = device.zeros::<f32>([32, 64])?;
                for layer in 0..4 {
                    cache_scope!(name = format!("healthy_layer{layer}"), { train_step(&device, 2, 32)? });
                    cache_scope!(healthy_outer, { train_step(&device, 1, 16)? });
                }
            });
        }
        is_healthy("healthy_outer");
        (0..4).for_each(|layer| is_healthy(&format!("healthy_layer{layer}")));
        Ok(())
    }

    #[test]
    fn carried_state() -> Result {
        let device = device();
        let (mut state, mut frames) = (device.zeros::<f32>([32, 64])?, VecDeque::new());
        for _ in 0..100 {
            cache_scope!(healthy_state, {
                train_step(&device, 4, 32)?;
                state = state.try_clone()?;
                frames.push_back(device.zeros::<u8>([64, 64])?);
                if frames.len() > 8 {
                    frames.pop_front();
                }
            });
        }
        is_healthy("healthy_state");
        Ok(())
    }

    #[test]
    fn a_decode_cache_that_grows() -> Result {
        let device = device();
        for tokens in [40, 150, 90] {
            let mut cache: Vec<_> = (0..8).map(|_| device.zeros::<f32>([1, 64])).collect::<gpucache::Result<_>>()?;
            for token in 1..tokens {
                cache_scope!(healthy_decode, {
                    train_step(&device, 4, 1)?;
                    for keys in &mut cache {
                        *keys = device.zeros::<f32>([token + 1, 64])?;
                    }
                });
            }
            is_healthy("healthy_decode");
        }
        Ok(())
    }

    #[test]
    fn several_threads() -> Result {
        let device = device();
        let step = || (0..40).try_for_each(|_| cache_scope!(healthy_threads, { train_step(&device, 6, 32) }));
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(step)).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
        is_healthy("healthy_threads");
        Ok(())
    }

    /// One scope for each stream, and arrays that go from one to the other.
    #[test]
    fn several_streams() -> Result {
        let _turn = turn();
        let (loader, trainer) = (Host::new_stream()?, Host::new_stream()?);
        for _ in 0..60 {
            let batch = cache_scope!(healthy_loader, {
                let mut batch = Array::zeros(&loader, [32, 64])?;
                loader.launch(&mut batch, |batch| batch.fill(2.0f32))?;
                batch
            });
            cache_scope!(healthy_trainer, {
                let mut squares = Array::<f32, _>::zeros(&trainer, [32, 64])?;
                trainer.launch((&mut squares, &batch), |(squares, batch)| squares.copy_from_slice(batch))?;
                train_step(&trainer, 4, 32)?;
                assert_eq!(squares.to_vec()?[0], 2.0);
            });
        }
        is_healthy("healthy_loader");
        is_healthy("healthy_trainer");
        Ok(())
    }

    #[test]
    fn an_invalidation_now_and_then() -> Result {
        let device = device();
        for entry in 1..100 {
            cache_scope!(healthy_invalidated, { train_step(&device, 6, 32)? });
            if entry % 40 == 0 {
                invalidate("healthy_invalidated");
                device.trim();
            }
        }
        is_healthy("healthy_invalidated");
        Ok(())
    }

    #[test]
    fn by_key_without_waste() -> Result {
        let device = device();
        for _ in 0..60 {
            cache_scope!(healthy_keyed, recycle = "keyed", { train_step(&device, 4, 32)? });
            cache_scope!(healthy_range, recycle = "range", { train_step(&device, 4, 32)? });
        }
        assert_eq!(causes("healthy_keyed"), []);
        assert_eq!(causes("healthy_range"), []);
        Ok(())
    }

    #[test]
    fn what_was_sick_and_is_not_any_more() -> Result {
        let (device, mut rng) = (device(), Rng::with_seed(9));
        for _ in 0..60 {
            cache_scope!(healthy_again, { train_step(&device, rng.usize(1..30), 32)? });
        }
        assert_eq!(causes("healthy_again"), [Cause::ChangingOrder]);
        invalidate("healthy_again");
        for _ in 0..60 {
            cache_scope!(healthy_again, { train_step(&device, 6, 32)? });
        }
        is_healthy("healthy_again");
        Ok(())
    }

    #[test]
    fn a_limit_that_suffices() -> Result {
        let device = device();
        let scope = Scope::new("healthy_limit").limit(64 * MIB as u64).recycle(Recycle::Auto);
        for _ in 0..40 {
            scope.run(|| train_step(&device, 6, 320))?;
        }
        is_healthy("healthy_limit");
        Ok(())
    }

    #[test]
    fn weights_that_the_first_entry_makes() -> Result {
        let (device, mut weights) = (device(), Vec::new());
        for _ in 0..60 {
            cache_scope!(healthy_weights, {
                while weights.len() < 100 {
                    weights.push(device.zeros::<f32>([64, 64])?);
                }
                train_step(&device, 6, 32)?;
            });
        }
        is_healthy("healthy_weights");
        Ok(())
    }
}

#[test]
fn a_finding_tells_what_it_costs_where_it_is_and_what_to_do() -> Result {
    let (device, mut rng) = (device(), Rng::with_seed(12));
    let (mut scope_line, mut line) = (0, 0);
    for _ in 0..64 {
        scope_line = line!() + 1;
        cache_scope!(told, {
            train_step(&device, 6, 32)?;
            for _ in 0..rng.usize(..12) {
                line = line!() + 1;
                drop(device.zeros::<f32>([32, 10, 4])?);
            }
            train_step(&device, 6, 64)?;
        });
    }
    let diagnosis = diagnose("told").unwrap();
    assert_eq!(diagnosis.scope_site.map(|site| site.line()), Some(scope_line));
    let [finding] = &diagnosis.findings[..] else { panic!("{diagnosis}") };
    assert!(finding.entries > finding.of_entries / 4 && finding.entries <= finding.of_entries, "{finding:?}");
    assert!(finding.allocations > 0 && finding.share > 0.0 && finding.share < 1.0, "{finding:?}");
    assert!(finding.sites.iter().any(|site| site.file() == file!() && site.line() == line), "{finding:?}, not {line}");
    let shown = diagnosis.to_string();
    assert!(shown.contains("f32 [32, 10, 4], 5120 bytes, where "), "{shown}");
    assert!(shown.contains("remedy: ") && shown.contains("the order of allocations changes"), "{shown}");
    Ok(())
}

#[test]
fn few_entries_are_too_early() -> Result {
    let device = device();
    for entry in 0..3 {
        cache_scope!(early, { train_step(&device, 4 + entry, 32)? });
    }
    let diagnosis = diagnose("early").unwrap();
    assert!(diagnosis.is_early && diagnosis.is_healthy());
    assert_eq!(diagnosis.to_string(), "scope `early`, 3 entries: too early to say, entries are still learned from");
    assert!(diagnose("a name that nobody entered").is_none());
    Ok(())
}
