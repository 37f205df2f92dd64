//! Programs without a problem: their diagnosis finds none.

use std::collections::VecDeque;

use fastrand::Rng;
use gpucache::device::{Host, Virtual};
use gpucache::{Recycle, Scope, cache_scope, diagnosis::Cause, prelude::*};
use gpucache_tests::turn;

use super::{KIB, MIB, Result, causes, device, is_healthy, train_step};

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

/// Each entry on another stream than the one before.
#[test]
fn streams_in_turn() -> Result {
    let _turn = turn();
    let streams = [Host::new_stream()?, Host::new_stream()?];
    for entry in 0..60 {
        cache_scope!(well_on_two_streams, { train_step(&streams[entry % 2], 4, 32)? });
    }
    is_healthy("well_on_two_streams");
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
fn more_allocations_between_regular_ones() -> Result {
    let (device, mut rng) = (device(), Rng::with_seed(5));
    for entry in 0..60 {
        // A regular part is looked for in four entries that differ.
        let boxes = if entry < 4 { 3 * entry } else { rng.usize(..12) };
        cache_scope!(healthy_boxes, {
            train_step(&device, 6, 32)?;
            for _ in 0..boxes {
                drop(device.zeros::<u8>(5 * KIB)?);
            }
            train_step(&device, 6, 64)?;
        });
    }
    is_healthy("healthy_boxes");
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

/// Programs that lose no plan: recursion, a thread for each entry, scopes of one array that is handed out.
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
