//! Random programs with extreme numbers over the public API.

use fastrand::Rng;
use gpucache::device::Virtual;
use gpucache::{Array, Limit, Recycle, Scope, ScopeGuard, prelude::*};
use gpucache_tests::{seeds, turn};

use super::RECYCLES;

/// A number near an end of the number range, or near a power of two.
pub(super) fn extreme(rng: &mut Rng) -> u64 {
    let power = 1u64 << rng.u32(0..64);
    match rng.u8(0..8) {
        0 => 0,
        1 => u64::MAX - rng.u64(0..600),
        2 => (1 << 63) - rng.u64(0..600),
        3 => power - 1,
        4 => power.saturating_add(rng.u64(0..600)),
        5 => rng.u64(0..=power),
        6 => power,
        _ => rng.u64(..),
    }
}

fn shape(rng: &mut Rng) -> Vec<usize> {
    match rng.u8(0..8) {
        0 => (0..rng.usize(0..5)).map(|_| extreme(rng) as usize).collect(),
        _ => vec![extreme(rng) as usize],
    }
}

struct World {
    rng: Rng,
    devices: Vec<Virtual>,
    names: Vec<String>,
    kept: Vec<Array<u8, Virtual>>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::with_seed(seed);
        let device = |rng: &mut Rng| {
            let capacity = if rng.bool() { usize::MAX } else { extreme(rng) as usize };
            if rng.bool() { Virtual::new(capacity) } else { Virtual::unchecked(capacity) }
        };
        let devices = (0..rng.usize(1..4)).map(|_| device(&mut rng)).collect();
        let names = (0..3).map(|number| format!("extremes: {seed} {number}")).collect();
        World { rng, devices, names, kept: Vec::new() }
    }

    fn device(&mut self) -> Virtual {
        let place = self.rng.usize(0..self.devices.len());
        self.devices[place].clone()
    }

    /// Sets a limit of any size, or reads the statistics of a scope or a device.
    fn look(&mut self) {
        let (device, number) = (self.device(), extreme(&mut self.rng));
        let name = &self.names[self.rng.usize(0..3)];
        match self.rng.u8(0..14) {
            0 => device.set_limit(number).unwrap(),
            1 => device.set_limit(Limit::soft(number)).unwrap(),
            2 => device.set_idle_limit(number).unwrap(),
            3 => gpucache::device::set_process_limit(number).unwrap(),
            4 => _ = device.trim(),
            5 => _ = gpucache::invalidate(name),
            6 => _ = gpucache::invalidate_all(),
            7 => device.reset_peaks(),
            8 => _ = gpucache::stats::reset_peaks(name),
            9 => _ = gpucache::diagnose(name).map(|diagnosis| diagnosis.to_string()),
            10 => _ = format!("{:?}", gpucache::stats(name)),
            11 => _ = format!("{} {}", gpucache::stats::process(), gpucache::stats::top()),
            12 => _ = gpucache::diagnose_all(),
            _ => _ = format!("{} {}", device.stats(), device.stats().reclaim),
        }
    }

    /// Removes the limits, since hardly any request would succeed under them.
    fn unlimit(&mut self) {
        for device in &self.devices {
            device.set_limit(u64::MAX).unwrap();
            device.set_limit(Limit::soft(u64::MAX)).unwrap();
            device.set_idle_limit(u64::MAX).unwrap();
        }
        gpucache::device::set_process_limit(u64::MAX).unwrap();
    }

    fn enter(&mut self) -> ScopeGuard {
        let limit = if self.rng.u8(0..4) == 0 { extreme(&mut self.rng) } else { u64::MAX };
        let recycle: Recycle = RECYCLES[self.rng.usize(0..4)];
        Scope::new(&self.names[self.rng.usize(0..3)]).recycle(recycle).limit(limit).enter()
    }

    /// Entries that are alike, so that they are planned. Their sizes may grow from one entry to the next.
    fn repeat(&mut self) {
        let (device, name) = (self.device(), self.names[self.rng.usize(0..3)].clone());
        let sizes: Vec<u64> = (0..self.rng.usize(1..6)).map(|_| extreme(&mut self.rng)).collect();
        let (factor, step) = (self.rng.u64(1..5), extreme(&mut self.rng));
        for entry in 0..self.rng.u32(4..16) {
            let _inside = Scope::new(&name).enter();
            let size = |bytes: u64| bytes.saturating_mul(factor.saturating_pow(entry / 3));
            let size =
                |bytes: u64| if factor == 1 { bytes.saturating_add(step * u64::from(entry > 4)) } else { size(bytes) };
            let arrays: Vec<_> = sizes.iter().map(|bytes| device.zeros::<u8>(size(*bytes) as usize)).collect();
            let served = arrays.into_iter().filter_map(Result::ok);
            let keeps = self.rng.u8(0..3) == 0;
            self.kept.extend(served.take(usize::from(keeps)));
        }
    }

    fn step(&mut self) {
        let device = self.device();
        match self.rng.u8(0..10) {
            0 => self.look(),
            1 => self.repeat(),
            2 => {
                let dims = shape(&mut self.rng);
                if let Err(error) = device.zeros::<u64>(&dims[..]) {
                    assert!(!dims.contains(&0), "{error}");
                }
                let _ = device.zeros::<u8>(&dims[..]).map(|array| array.reshape(&shape(&mut self.rng)[..]).map(drop));
            }
            3 if !self.kept.is_empty() => drop(self.kept.swap_remove(self.rng.usize(0..self.kept.len()))),
            _ => {
                let _inside = self.rng.bool().then(|| self.enter());
                let array = device.zeros::<u8>(extreme(&mut self.rng) as usize);
                self.kept.extend(array.ok().filter(|_| self.rng.bool()));
            }
        }
        self.kept.truncate(12);
    }
}

#[test]
fn random_programs_of_extreme_numbers_panic_nowhere() {
    let _turn = turn();
    // The first three seeds found overflows, and a plan that was widened beyond any possible layout.
    seeds::each_and(&[109, 117, 158], 100, 1, |seed| {
        let mut world = World::new(seed);
        for number in 0..world.rng.u32(10..80) {
            if number % 16 == 0 {
                world.unlimit();
            }
            let _inside = (world.rng.u8(0..4) == 0).then(|| world.enter());
            (0..world.rng.u32(1..6)).for_each(|_| world.step());
        }
        world.unlimit();
        world.kept.clear();
        world.names.iter().for_each(|name| _ = gpucache::invalidate(name));
        for device in &world.devices {
            device.trim();
            device.synchronize().unwrap();
            assert_eq!(device.memory().bytes, 0);
        }
        assert!(world.names.iter().filter_map(gpucache::stats).all(|stats| stats.busy_bytes == 0));
    });
    gpucache::device::set_process_limit(u64::MAX).unwrap();
}

/// The same while a trace is on. The trace records all of these numbers exactly.
#[test]
fn a_trace_of_extreme_numbers_is_true() {
    let _turn = turn();
    let device = Virtual::new(usize::MAX);
    gpucache::trace::start(10_000);
    let sizes = [1 << 62, isize::MAX as usize, 1, (1 << 62) - 1];
    let arrays: Vec<_> = sizes.iter().map(|bytes| device.zeros::<u8>(*bytes)).collect();
    let served: Vec<u64> = arrays.iter().flatten().map(|array| array.byte_len() as u64).collect();
    drop(arrays);
    let trace = gpucache::trace::stop();
    let of = |action| trace.events.iter().filter(move |event| event.action == action);
    let told: Vec<u64> = of(gpucache::trace::Action::Allocated).map(|event| event.bytes).collect();
    assert_eq!(told, served);
    assert_eq!(of(gpucache::trace::Action::Freed).map(|event| event.bytes).sum::<u64>(), served.iter().sum::<u64>());
    let held = of(gpucache::trace::Action::Reserved).map(|event| event.bytes).max();
    assert_eq!(held, Some(served.iter().sum::<u64>()));
    assert!(trace.events.iter().any(|event| event.address > 1 << 63));
}
