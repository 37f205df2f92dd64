//! Programs that repeat themselves make no device calls once they are warm, also where orders or scopes take turns and arrays outlive their
//! entries. With plans, some of them would move pages in entry after entry.
//!
//! `PROGRAMS` sets how many random programs run of each kind, and `SEED=n` runs only the n-th.

use fastrand::Rng;
use gpucache::device::{Device, Virtual};
use gpucache::stats::Unplanned;
use gpucache::{Allocate, Array, Recycle, Scope, ScopeGuard, invalidate, stats};
use gpucache_tests::play::{Op, entries::Style};
use gpucache_tests::{seeds, turn};

/// More than the arrays of an order.
const SLOTS: usize = 64;
/// Entries until a program counts as warm, and entries that are counted then. In these, plans are tried again once or twice.
const WARM: usize = 1_000;
const COUNTED: usize = 4_000;
/// The lists of a scope may keep so many bytes idle in any case (`LIST_FLOOR` of the engine).
const MOST_IDLE: u64 = 64 << 10;
/// The most device calls in an entry, in the mean: a try of plans has up to 4,000. Before, 8 to 19 calls were in each entry.
const FEW: f64 = 2.0;

/// Programs whose entries take turns.
#[derive(Clone, Copy, Debug)]
enum Turns {
    /// Two orders of one scope, like the two steps of an adversarial network.
    Orders,
    /// Two scopes, like training and evaluation.
    Scopes,
    /// One scope inside the other.
    Nested,
}

/// By slot. The orders have slots of their own.
type Kept = [Option<Array<u8, Virtual>>; 2 * SLOTS];

/// A program of two random orders. One in `escapes` arrays outlives its entry, until the same order drops it in its next turn.
struct Program {
    turns: Turns,
    orders: [Vec<Op>; 2],
    device: Virtual,
    names: [String; 2],
    recycle: Recycle,
    kept: Kept,
}

/// The cost of a warm program.
struct Cost {
    /// Device calls for each entry.
    device_calls: f64,
    /// Reserved bytes, in the mean.
    reserved: f64,
}

impl Program {
    fn new(turns: Turns, seed: u64, escapes: usize, recycle: Recycle) -> Program {
        let rng = &mut Rng::with_seed(seed);
        let style = Style { allocations: (20, 40), bytes: (64 << 10, 64 << 20), escapes: (escapes, 1) };
        Program {
            turns,
            orders: [0, SLOTS as u32].map(|first| style.entry(rng, first)),
            device: Virtual::new(1 << 48),
            names: [0, 1].map(|scope| format!("{turns:?} {seed} {escapes} {recycle:?} {scope}")),
            recycle,
            kept: [const { None }; 2 * SLOTS],
        }
    }

    fn enter(&self, scope: usize) -> ScopeGuard {
        Scope::new(&self.names[scope]).recycle(self.recycle).enter()
    }

    fn play(&mut self, ops: &[Op], now: &mut Kept) {
        for op in ops {
            match *op {
                Op::Allocate { slot, bytes } => now[slot as usize] = Some(self.device.zeros(bytes).expect("memory")),
                Op::Drop(slot) => now[slot as usize] = None,
                Op::DropOld(slot) => self.kept[slot as usize] = None,
                _ => {}
            }
        }
    }

    fn entry(&mut self, number: usize) {
        let [first, second] = self.orders.clone();
        let mut now = [const { None }; 2 * SLOTS];
        match self.turns {
            Turns::Orders | Turns::Scopes => {
                let scope = if matches!(self.turns, Turns::Scopes) { number % 2 } else { 0 };
                let _inside = self.enter(scope);
                self.play(if number.is_multiple_of(2) { &first } else { &second }, &mut now);
            }
            Turns::Nested => {
                let _inside = self.enter(0);
                let (before, after) = first.split_at(first.len() / 2);
                self.play(before, &mut now);
                let inner = self.enter(1);
                self.play(&second, &mut now);
                drop(inner);
                self.play(after, &mut now);
            }
        }
        now.into_iter().zip(&mut self.kept).filter(|(new, _)| new.is_some()).for_each(|(new, kept)| *kept = new);
    }

    fn is_pausing(&self) -> bool {
        stats(&self.names[0]).unwrap().plan.unplanned == Some(Unplanned::MovesRecur)
    }

    fn run(&mut self) -> Cost {
        (0..WARM).for_each(|number| self.entry(number));
        let calls = |device: &Virtual| device.memory().times_taken() + device.memory().times_given_back();
        let (before, mut reserved) = (calls(&self.device), 0);
        for number in WARM..WARM + COUNTED {
            self.entry(number);
            reserved += self.device.memory().bytes;
        }
        let device_calls = (calls(&self.device) - before) as f64 / COUNTED as f64;
        Cost { device_calls, reserved: reserved as f64 / COUNTED as f64 }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.kept.fill_with(|| None);
        for name in &self.names {
            invalidate(name);
        }
    }
}

/// Runs programs. Warm ones make few device calls, and reserve hardly more than the range alone.
fn make_few_calls(turns: Turns, escapes: usize) {
    let _turn = turn();
    let (mut programs, mut ratios, mut most) = (0_u32, 0.0, 0.0_f64);
    seeds::each(4, 1, |seed| {
        let [auto, range] =
            [Recycle::Auto, Recycle::Range].map(|recycle| Program::new(turns, seed, escapes, recycle).run());
        (programs, ratios) = (programs + 1, ratios + auto.reserved / range.reserved);
        most = most.max(auto.device_calls);
        assert!(auto.device_calls <= FEW, "SEED={seed}: {} device calls in each entry", auto.device_calls);
    });
    let ratio = ratios / f64::from(programs);
    println!("{turns:?}, one in {escapes}: {programs} programs, reserved ÷ range {ratio:.3}, at most {most:.2} calls");
    assert!(programs == 1 || ratio <= 1.15, "reserved memory ÷ that of the range: {ratio:.3}");
}

#[test]
fn orders_by_turns() {
    make_few_calls(Turns::Orders, 6);
    make_few_calls(Turns::Orders, 24);
}

#[test]
fn scopes_by_turns() {
    make_few_calls(Turns::Scopes, 6);
}

#[test]
fn nested_scopes() {
    make_few_calls(Turns::Nested, 6);
}

/// The statistics say why such a scope goes without plans.
#[test]
fn a_pause_is_told() {
    let _turn = turn();
    let told = |seed| {
        let mut program = Program::new(Turns::Orders, seed, 6, Recycle::Auto);
        let is_told = (0..600).any(|number| {
            program.entry(number);
            program.is_pausing()
        });
        invalidate(&program.names[0]);
        assert!(!program.is_pausing(), "SEED={seed}: an invalidation ends the pause");
        is_told
    };
    assert!((0..20).any(told));
}

/// While a scope goes without plans, its lists keep hardly any idle memory. Another thread could not take it while this one is inside.
#[test]
fn a_pause_keeps_no_idle_memory_in_lists() {
    let _turn = turn();
    let mut looks = 0;
    seeds::each(20, 1, |seed| {
        let mut program = Program::new(Turns::Orders, seed, 6, Recycle::Auto);
        program.orders.iter_mut().flatten().for_each(in_few_sizes);
        for number in 0..600 {
            program.entry(number);
            if program.is_pausing() {
                looks += 1;
                let idle = stats(&program.names[0]).unwrap().idle_bytes;
                assert!(idle <= MOST_IDLE, "SEED={seed}: {idle} bytes are idle in entry {number}");
            }
        }
    });
    assert!(looks > 100, "{looks}");
}

/// Makes a request one of two sizes.
fn in_few_sizes(op: &mut Op) {
    if let Op::Allocate { bytes, .. } = op {
        *bytes = if *bytes < 32 << 20 { 4 << 20 } else { 10 << 20 };
    }
}
