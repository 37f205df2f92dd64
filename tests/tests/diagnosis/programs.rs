//! Programs that only repeat an entry, and the cause that their diagnosis names.

use std::collections::VecDeque;

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{Recycle, Scope, diagnosis::Cause, prelude::*};

use super::{KIB, Result, causes, device, train_step};

/// The properties that all entries of a program share.
struct World {
    device: Virtual,
    rng: Rng,
    /// Arrays that outlive their entry.
    kept: Vec<Array<f32, Virtual>>,
    sizes: Vec<usize>,
    entry: usize,
}

impl World {
    /// An array that one in `of` entries keeps.
    fn maybe_keep(&mut self, elements: usize, of: u32) -> Result {
        let array = self.device.zeros::<f32>(elements)?;
        if self.rng.u32(..of) == 0 {
            self.kept.push(array);
        }
        Ok(())
    }
}

/// A name, the cause, how the scope recycles, a seed, and an entry.
type Program = (&'static str, Cause, Recycle, u64, fn(&mut World) -> Result);

const PROGRAMS: [Program; 11] = [
    ("every entry keeps an array for good", Cause::Escapes, Recycle::Auto, 1, |world| {
        train_step(&world.device, 6, 32)?;
        world.maybe_keep(320, 1)
    }),
    ("any entry may keep arrays for any time", Cause::Escapes, Recycle::Auto, 1, |world| {
        world.rng.shuffle(&mut world.kept);
        world.kept.truncate(40);
        (1..20).try_for_each(|size| world.maybe_keep(size * 10 * KIB, 4))
    }),
    ("a third of the arrays stays alive", Cause::Escapes, Recycle::Auto, 7, |world| {
        (1..20).try_for_each(|size| world.maybe_keep(size * KIB, 3))
    }),
    ("sizes differ by more than a place of a plan can have", Cause::ChangingShapes, Recycle::Auto, 2, |world| {
        let arrays = (0..8).map(|_| world.device.zeros::<f32>(1 << world.rng.u32(4..22)));
        arrays.collect::<gpucache::Result<Vec<_>>>().map(drop)
    }),
    ("some sizes of a regular step change", Cause::ChangingShapes, Recycle::Auto, 3, |world| {
        train_step(&world.device, 4, 32)?;
        let prompts = (0..8).map(|_| world.device.zeros::<u8>(1 << world.rng.u32(4..24)));
        let _prompts = prompts.collect::<gpucache::Result<Vec<_>>>()?;
        train_step(&world.device, 2, 16)
    }),
    ("the number of allocations is random", Cause::ChangingOrder, Recycle::Auto, 4, |world| {
        for _ in 0..world.rng.usize(1..60) {
            let _one = world.device.zeros::<u8>(world.rng.usize(1..20) * KIB)?;
        }
        Ok(())
    }),
    ("the same sizes come in random order", Cause::ChangingOrder, Recycle::Auto, 10, |world| {
        world.rng.shuffle(&mut world.sizes);
        let mut alive = VecDeque::new();
        for &size in &world.sizes {
            alive.push_back(world.device.zeros::<u8>(size)?);
            alive.truncate(4);
            alive.rotate_left(1);
        }
        Ok(())
    }),
    ("two arrays of a regular step change places", Cause::ChangingOrder, Recycle::Auto, 11, |world| {
        train_step(&world.device, 4, 32)?;
        for place in 0..8 {
            let sizes = [[3 + place, 40 + place], [40 + place, 3 + place]][world.rng.usize(..2)];
            let _two = sizes.map(|size| world.device.zeros::<u8>(size * 10 * KIB));
        }
        Ok(())
    }),
    ("the same arrays are dropped in random order", Cause::ChangingDrops, Recycle::Auto, 6, |world| {
        let mut alive = Vec::new();
        for size in 1..40 {
            alive.push(world.device.zeros::<u8>(size * 100 * KIB)?);
            if alive.len() > 4 {
                alive.swap_remove(world.rng.usize(..alive.len()));
            }
        }
        Ok(())
    }),
    ("nothing is recycled", Cause::NotRecycled, Recycle::Off, 1, |world| train_step(&world.device, 4, 32)),
    ("no key ever returns", Cause::KeyedWaste, Recycle::Keyed, 1, |world| {
        train_step(&world.device, 4, 1 + world.entry)
    }),
];

#[test]
fn each_program_has_one_cause() -> Result {
    let mut wrong = Vec::new();
    for (name, cause, recycle, seed, entry) in PROGRAMS {
        let sizes = (1..20).map(|size| size * size * 10 * KIB).collect();
        let mut world = World { device: device(), rng: Rng::with_seed(seed), kept: Vec::new(), sizes, entry: 0 };
        for number in 0..100 {
            world.entry = number;
            Scope::new(name).recycle(recycle).run(|| entry(&mut world))?;
        }
        let found = causes(name);
        if found != [cause] {
            wrong.push(format!("{name}: {found:?}, not {cause:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    Ok(())
}
