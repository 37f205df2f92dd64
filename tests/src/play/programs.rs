//! Random programs: some scopes, at times nested in each other, whose entries repeat and deviate.

use fastrand::Rng;
use gpucache::Recycle;
use gpucache::Result;

use super::deviation::Deviation;
use super::entries::{Style, bound, varied};
use super::{Checked, Op, Player};

/// The most scopes of a program.
pub const SCOPES: usize = 3;
/// Slots of each scope.
const SLOTS: u32 = 1000;

/// The properties of programs.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The style of the entries.
    pub style: Style,
    /// One of this many entries deviates.
    pub deviates: usize,
    /// How much sizes vary from entry to entry.
    pub varies: f64,
    /// One of this many programs starts threads.
    pub threads: usize,
    /// One of this many entries recycles in another way.
    pub mixes: usize,
}

/// The actions between two entries, and in an entry.
#[derive(Debug)]
pub struct Round {
    /// The scope that is entered.
    pub scope: usize,
    /// How the scope recycles.
    pub recycle: Recycle,
    /// The operations of the entry.
    pub ops: Vec<Op>,
    /// Whether kept arrays are dropped before the entry.
    pub drops_kept: bool,
    /// The scope that is invalidated before the entry.
    pub invalidates: Option<usize>,
}

/// A program, and the most bytes that are alive in one of its usual entries.
#[derive(Debug)]
pub struct Program {
    /// The rounds, one after the other.
    pub rounds: Vec<Round>,
    /// In bytes.
    pub bound: u64,
}

impl Kind {
    /// The program of this seed, with this many scopes and entries at most.
    pub fn program(&self, rng: &mut Rng, scopes: usize, rounds: usize) -> Program {
        let scopes = rng.usize(1..=scopes);
        let own: Vec<Vec<Op>> = (0..scopes).map(|scope| self.style.entry(rng, SLOTS * scope as u32)).collect();
        let usual: Vec<Vec<Op>> = (0..scopes).map(|scope| nest(rng, &own, scope)).collect();
        let starts_threads = rng.usize(0..self.threads) == 0;
        let deviations: Vec<Deviation> =
            Deviation::ALL.into_iter().filter(|deviation| starts_threads || !deviation.is_slow()).collect();
        let number = rng.usize(3.min(rounds)..=rounds);
        let varies = if rng.bool() { self.varies } else { 1.0 };
        let rounds = (0..number).map(|_| self.round(rng, &usual, &deviations, varies)).collect();
        let bound = usual.iter().map(|entry| bound(entry)).max().unwrap_or(0);
        Program { rounds, bound }
    }

    fn round(&self, rng: &mut Rng, usual: &[Vec<Op>], deviations: &[Deviation], varies: f64) -> Round {
        // The first scope is entered most often.
        let scope = rng.usize(0..usual.len()).min(rng.usize(0..usual.len()));
        let mut ops = varied(rng, &usual[scope], varies);
        while !ops.is_empty() && rng.usize(0..self.deviates) == 0 {
            let deviation = deviations[rng.usize(0..deviations.len())];
            let other = (scope + 1) % SCOPES;
            if let Some(deviating) = deviation.of(&ops, rng.usize(0..ops.len()), scope, other) {
                ops = deviating;
            }
        }
        let recycle = match rng.usize(0..self.mixes) {
            0 => [Recycle::Off, Recycle::Keyed, Recycle::Range][rng.usize(0..3)],
            _ => Recycle::Auto,
        };
        let invalidates = (rng.usize(0..40) == 0).then(|| rng.usize(0..usual.len()));
        Round { scope, recycle, ops, drops_kept: rng.usize(0..8) == 0, invalidates }
    }
}

/// The entry of a scope, at times with an entry of a later scope inside it.
fn nest(rng: &mut Rng, own: &[Vec<Op>], scope: usize) -> Vec<Op> {
    let mut ops = own[scope].clone();
    if scope + 1 < own.len() && rng.bool() {
        let at = rng.usize(0..=ops.len());
        let enter = [Op::Enter(scope + 1, Recycle::Auto)];
        let inner = enter.into_iter().chain(nest(rng, own, scope + 1)).chain([Op::Leave]);
        ops.splice(at..at, inner.collect::<Vec<_>>());
    }
    ops
}

impl Round {
    /// Plays the round.
    ///
    /// # Errors
    /// As for [`Player::entry`].
    pub fn play<D: Checked>(&self, player: &mut Player<D>) -> Result<()> {
        if self.drops_kept {
            player.drop_kept();
        }
        if let Some(scope) = self.invalidates {
            player.invalidate(scope);
        }
        player.entry(self.scope, self.recycle, &self.ops)
    }
}
