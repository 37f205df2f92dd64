//! Random programs of a few scopes, whose entries mostly repeat and sometimes deviate. The devices check every rule,
//! run out of memory, or fail. No memory is handed out twice, contents stay, statistics equal those of a naive model,
//! errors are justified, and all memory can be freed.
//!
//! `PROGRAMS` sets the number of programs on each device, 600 by default. A release build plays a million on the
//! virtual device in three minutes. `SEED=n` runs only the n-th one.

use fastrand::Rng;
use gpucache::device::{Host, Virtual};
use gpucache_tests::Faulty;
use gpucache_tests::faulty::{Failure, Fault};
use gpucache_tests::play::entries::Style;
use gpucache_tests::play::programs::{Kind, Program, SCOPES};
use gpucache_tests::play::{Checked, Player};
use gpucache_tests::seeds;

const GRANULE: u64 = 2 << 20;

/// Programs that found a defect, the second one only after the first: a plan without a layout served from a block that was too small.
const FOUND: [u64; 2] = [687_017, 687_018];

/// Runs `program` for each seed, and reports which one failed.
fn each_seed(share: u64, program: impl Fn(u64)) {
    seeds::each_and(&FOUND, 600, share, program);
}

/// A player in scopes that later programs of this test use too, because the process never forgets a name.
fn player<D: Checked>(device: D, test: &str) -> Player<D> {
    Player::new(device, (0..SCOPES).map(|scope| format!("programs, {test}, {scope}")))
}

fn kind(rng: &mut Rng, bytes: (usize, usize)) -> Kind {
    let escapes = [(usize::MAX, 1), (8, 64), (6, 1)][rng.usize(0..3)];
    let style = Style { allocations: (2, 20), bytes, escapes };
    let varies = [1.0, 1.05, 3.0][rng.usize(0..3)];
    let mixes = [usize::MAX, 8][rng.usize(0..2)];
    Kind { style, deviates: rng.usize(2..8), varies, threads: 100, mixes }
}

/// Plays a program and skips its failures. Calls `before` with the number of each round.
fn play<D: Checked>(player: &mut Player<D>, program: &Program, before: impl Fn(&Player<D>, usize)) {
    for (number, round) in program.rounds.iter().enumerate() {
        before(player, number);
        if let Err(error) = round.play(player) {
            player.skipped.push(error);
        }
    }
}

#[test]
fn with_plenty_of_memory() {
    each_seed(1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let bytes = [(1, 4 << 10), (64 << 10, 64 << 20), (1, 64 << 20)][rng.usize(0..3)];
        let program = kind(rng, bytes).program(rng, SCOPES, 12);
        let mut player = player(Virtual::new(1 << 46), "plenty");
        play(&mut player, &program, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

/// Plays a program on a device with a limit near the memory that one entry needs. Returns the limit, and the player, whose failures
/// were only shortages.
fn play_with_little(kind: Kind, rng: &mut Rng, test: &str) -> (u64, Player<Virtual>) {
    let program = kind.program(rng, SCOPES, 12);
    let limit = ((program.bound as f64 * (0.7 + 0.8 * rng.f64())) as u64).next_multiple_of(GRANULE);
    let mut player = player(Virtual::new(limit as usize), test);
    player.skips_failures = rng.bool();
    play(&mut player, &program, |_, _| ());
    assert!(player.skipped.iter().all(gpucache::Error::is_out_of_memory), "{:?}", player.skipped);
    (limit, player)
}

#[test]
fn with_little_memory() {
    each_seed(1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let kind = kind(rng, (64 << 10, 64 << 20));
        play_with_little(kind, rng, "little").1.finish();
    });
}

/// No request fails that moving idle memory could serve. Only failures make entries deviate here, so the model
/// knows how much memory blocks take.
#[test]
fn only_what_has_to_fail() {
    each_seed(1, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let kind = Kind { varies: 1.0, deviates: usize::MAX, ..kind(rng, (64 << 10, 64 << 20)) };
        let (limit, player) = play_with_little(kind, rng, "due");
        let refused = player.least_refused.unwrap_or(u64::MAX);
        assert!(refused > limit, "a request failed though {refused} bytes would do, of {limit}");
        player.finish();
    });
}

#[test]
fn on_the_host() {
    each_seed(4, |seed| {
        let rng = &mut Rng::with_seed(seed);
        let program = kind(rng, (1, 32 << 10)).program(rng, SCOPES, 12);
        let mut player = player(Host::new(), "host");
        play(&mut player, &program, |_, _| ());
        assert!(player.skipped.is_empty(), "{:?}", player.skipped);
        player.finish();
    });
}

/// Any call may fail, once or until the next entry. The ranges consist of chunks, or there is no range.
#[test]
fn on_a_device_that_fails() {
    each_seed(4, |seed| {
        // A device of chunks is never forgotten, and each existing one makes invalidations slower.
        if seed >= 4000 {
            return;
        }
        let rng = &mut Rng::with_seed(seed);
        let program = kind(rng, (1, 32 << 10)).program(rng, SCOPES, 12);
        let device = match rng.usize(0..4) {
            0 => Faulty::new(),
            1 => Faulty::with_chunks(4 << 20),
            _ => Faulty::with_chunks(usize::MAX),
        };
        let mut player = player(device, "failing");
        player.skips_failures = rng.bool();
        let faults: Vec<Option<Fault>> = program.rounds.iter().map(|_| fault(rng)).collect();
        play(&mut player, &program, |player, round| match faults[round] {
            Some(fault) => player.device().arm(fault),
            None => player.device().disarm(),
        });
        let device = player.device().clone();
        device.disarm();
        player.finish();
        device.assert_clean();
    });
}

fn fault(rng: &mut Rng) -> Option<Fault> {
    let failure = [Failure::Device, Failure::OutOfMemory][rng.usize(0..2)];
    let at = rng.u64(1..60);
    match rng.usize(0..4) {
        0 => Some(Fault::once(at, failure)),
        1 => Some(Fault::for_ever(at, failure)),
        _ => None,
    }
}
