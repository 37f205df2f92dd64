//! The spans and events for a subscriber of `tracing`: a span for each entry of a scope, and events when a plan is learned, an
//! entry deviates, memory is short, and arrays move or go.
#![cfg(feature = "tracing")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use gpucache::device::Virtual;
use gpucache::{
    Array, Scope, cache_scope, invalidate,
    offload::{Placed, Placement},
    prelude::*,
    uncached,
};
use gpucache_tests::turn;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// One message to the subscriber.
#[derive(Clone, Debug, PartialEq)]
struct Told {
    /// The scopes whose spans the thread was in. The innermost is last.
    inside: Vec<String>,
    /// `+` and `-` for a span that was entered or left, or the message of an event.
    what: String,
    fields: BTreeMap<String, String>,
}

impl Told {
    fn is_scope(&self) -> bool {
        self.what == "+" || self.what == "-"
    }

    fn number(&self, field: &str) -> u64 {
        self.fields.get(field).unwrap_or_else(|| panic!("{field} of {self:?}")).parse().unwrap()
    }

    fn text(&self, field: &str) -> &str {
        self.fields.get(field).map_or("", String::as_str)
    }
}

type Act = fn();

/// A subscriber that writes all messages down, and then does something.
struct Collector {
    told: Arc<Mutex<Vec<Told>>>,
    spans: Mutex<Vec<String>>,
    open: Mutex<Vec<Id>>,
    calls: AtomicU64,
    act: Act,
}

#[derive(Default)]
struct Fields(BTreeMap<String, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name().into(), format!("{value:?}"));
    }
}

impl Collector {
    fn note(&self, what: &str, fields: BTreeMap<String, String>) {
        let name = |id: &Id| self.spans.lock().unwrap()[id.into_u64() as usize - 1].clone();
        let inside = self.open.lock().unwrap().iter().map(name).collect();
        self.told.lock().unwrap().push(Told { inside, what: what.into(), fields });
        if self.calls.fetch_add(1, Relaxed) < 1000 {
            (self.act)();
        }
    }
}

impl Subscriber for Collector {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "gpucache"
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        assert_eq!((metadata.name(), *metadata.level()), ("gpucache.scope", Level::DEBUG));
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let mut spans = self.spans.lock().unwrap();
        spans.push(fields.0.remove("scope").unwrap());
        Id::from_u64(spans.len() as u64)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let what = fields.0.remove("message").unwrap();
        let is_grave = what == "out of memory";
        assert_eq!(*event.metadata().level(), if is_grave { Level::WARN } else { Level::DEBUG }, "{what}");
        self.note(&what, fields.0);
    }

    fn enter(&self, id: &Id) {
        self.open.lock().unwrap().push(id.clone());
        self.note("+", BTreeMap::new());
    }

    fn exit(&self, id: &Id) {
        self.note("-", BTreeMap::new());
        self.open.lock().unwrap().retain(|open| open != id);
    }
}

/// The messages while a body runs. The subscriber does something for each.
fn told_to(act: Act, body: impl FnOnce()) -> Vec<Told> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let (spans, open, calls) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
    let collector = Collector { told: told.clone(), spans, open, calls, act };
    tracing::subscriber::with_default(collector, body);
    std::mem::take(&mut *told.lock().unwrap())
}

fn told(body: impl FnOnce()) -> Vec<Told> {
    told_to(|| {}, body)
}

/// The events among the messages.
fn events(body: impl FnOnce()) -> Vec<Told> {
    told(body).into_iter().filter(|told| !told.is_scope()).collect()
}

fn only<'a>(told: &'a [Told], what: &str) -> &'a Told {
    let found: Vec<_> = told.iter().filter(|told| told.what == what).collect();
    assert_eq!(found.len(), 1, "{what}: {told:#?}");
    found[0]
}

/// One entry. Its second array may have another length.
fn step<D: Device>(device: &D, name: &str, second: usize) {
    cache_scope!(name = name, {
        let first = Array::<f32, _>::zeros(device, [32, 64]).unwrap();
        drop(Array::<f32, _>::zeros(device, second).unwrap());
        drop(first);
    });
}

fn path(told: &Told) -> String {
    format!("{}{}", told.what, told.inside.join("/"))
}

#[test]
fn scopes_are_spans_that_nest() {
    let _turn = turn();
    let host = Host::new();
    let seen = told(|| {
        cache_scope!(spans_outer, {
            Scope::new("spans_inner").run(|| drop(host.zeros::<u8>(64).unwrap()));
            uncached!({ drop(host.zeros::<u8>(64).unwrap()) });
        });
    });
    let paths: Vec<String> = seen.iter().map(path).collect();
    assert_eq!(paths, ["+spans_outer", "+spans_outer/spans_inner", "-spans_outer/spans_inner", "-spans_outer"]);
}

#[test]
fn guards_in_another_order_leave_their_own_spans() {
    let _turn = turn();
    let (first, second) = (Scope::new("spans_first"), Scope::new("spans_second"));
    let seen = told(|| {
        let guards = (first.enter(), second.enter());
        drop(guards.0);
        drop(guards.1);
    });
    let paths: Vec<String> = seen.iter().map(path).collect();
    assert_eq!(paths, ["+spans_first", "+spans_first/spans_second", "-spans_first/spans_second", "-spans_second"]);
    assert_eq!(first.stats().unwrap().entries, 1);
}

fn learning_and_deviating<D: Device>(device: &D, name: &str) {
    let learned = events(|| (0..4).for_each(|_| step(device, name, 1000)));
    let plan = only(&learned, "plan laid out");
    assert_eq!((plan.text("scope"), plan.inside.as_slice()), (name, &[name.to_string()][..]));
    let bytes = gpucache::stats(name).unwrap().plan.arena_bytes;
    assert_eq!((plan.number("positions"), plan.number("bytes"), plan.number("bound_bytes")), (2, bytes, bytes));
    assert_eq!(plan.text("share"), "1.0");
    let arena = only(&learned, "arena reserved");
    assert_eq!((arena.text("scope"), arena.number("bytes"), arena.number("before_bytes")), (name, bytes, 0));
    assert_eq!(arena.number("device"), device.stats().device);
    assert_eq!(learned.len(), 2, "{learned:#?}");
    assert_eq!(events(|| step(device, name, 1000)), [], "a warm entry tells nothing");

    let seen = events(|| step(device, name, 1200));
    let deviation = only(&seen, "deviation from the plan");
    assert_eq!((deviation.text("scope"), deviation.number("extra"), deviation.number("missing")), (name, 1, 1));
    assert_eq!((deviation.number("number"), deviation.number("bytes")), (2, 4800));
    assert_eq!((deviation.number("least_expected_bytes"), deviation.number("most_expected_bytes")), (4000, 4000));
    assert_eq!((deviation.text("dtype"), deviation.text("shape")), ("f32", "[1200]"));
    assert!(deviation.text("site").contains("spans.rs:"), "{deviation:?}");
    let grown = events(|| (0..3).for_each(|_| step(device, name, 1200)));
    let arena = grown.iter().find(|told| told.what == "arena reserved").unwrap();
    assert!(arena.number("bytes") > arena.number("before_bytes") && arena.number("before_bytes") == bytes);
}

#[test]
fn learning_and_deviating_are_told_on_the_host() {
    let _turn = turn();
    learning_and_deviating(&Host::new(), "spans_learned_on_the_host");
}

#[test]
fn learning_and_deviating_are_told_on_a_virtual_device() {
    let _turn = turn();
    learning_and_deviating(&Virtual::new(1 << 30), "spans_learned_on_a_virtual_device");
}

#[test]
fn a_ring_that_grows_is_told() {
    let _turn = turn();
    let host = Host::new();
    let seen = events(|| {
        let mut state = host.zeros::<f32>(1000).unwrap();
        for _ in 0..10 {
            // The state is alive when its successor is born.
            state = cache_scope!(spans_ring, { state.try_clone().unwrap() });
        }
    });
    let ring = seen.iter().find(|told| told.what == "ring grew").unwrap();
    assert_eq!(ring.text("scope"), "spans_ring");
    assert!(ring.number("bytes") >= 4000, "{ring:?}");
}

#[test]
fn a_reclaim_and_a_shortage_are_reported() {
    let _turn = turn();
    let device = Virtual::new(8 << 20);
    let seen = events(|| {
        cache_scope!(spans_idle, recycle = "keyed", { drop(device.zeros::<u8>(6 << 20).unwrap()) });
        let kept = cache_scope!(spans_short, recycle = "keyed", { device.zeros::<u8>(4 << 20).unwrap() });
        cache_scope!(spans_short, recycle = "keyed", { device.zeros::<u8>(5 << 20).unwrap_err() });
        drop(kept);
    });
    let reclaim: Vec<_> = seen.iter().filter(|told| told.what == "memory reclaim").collect();
    assert_eq!(reclaim.len(), 2, "{seen:#?}");
    assert_eq!((reclaim[0].text("scope"), reclaim[0].text("served_by")), ("spans_short", "release other scopes"));
    assert_eq!((reclaim[0].number("bytes"), reclaim[0].text("gave")), (4 << 20, "release other scopes: 6291456"));
    assert_eq!((reclaim[1].text("served_by"), reclaim[1].number("freed_bytes")), ("none", 0));
    let shortage = only(&seen, "out of memory");
    assert_eq!((shortage.number("bytes"), shortage.text("bound")), (5 << 20, "the device's memory"));
    assert_eq!((shortage.text("scope"), shortage.number("held_bytes")), ("spans_short", 4 << 20));
    assert_eq!(shortage.number("device"), device.stats().device);
}

#[test]
fn the_limit_of_a_scope_is_a_shortage_too() {
    let _turn = turn();
    let device = Virtual::new(1 << 30);
    let seen = events(|| {
        cache_scope!(spans_limited, limit = 1 << 20, { device.zeros::<u8>(2 << 20).unwrap_err() });
    });
    assert_eq!(only(&seen, "out of memory").text("bound"), "the scope's limit");
    device.set_limit(1 << 20).unwrap();
    let seen = events(|| drop(device.zeros::<u8>(2 << 20).unwrap_err()));
    assert_eq!((only(&seen, "out of memory").text("bound"), seen[0].text("scope")), ("the device's limit", ""));
}

fn ways(told: &[Told]) -> Vec<&str> {
    let moves = told.iter().filter(|told| told.what == "array moved");
    moves.inspect(|told| assert_eq!(told.number("bytes"), 1 << 20)).map(|told| told.text("way")).collect()
}

#[test]
fn arrays_that_move_are_told() {
    let _turn = turn();
    let device = Host::new_stream().unwrap();
    let mut placed = Placed::new(device.zeros::<u8>(1 << 20).unwrap()).unwrap();
    let seen = events(|| placed.set_placement(Placement::Host).unwrap());
    assert_eq!(ways(&seen), ["out", "evicted"]);
    assert_eq!(seen[0].number("device"), device.stats().device);
    assert_eq!(ways(&events(|| drop(placed.fetch().unwrap()))), ["in", "evicted"], "nobody wrote it");
    assert_eq!(ways(&events(|| drop(placed.fetch_mut().unwrap()))), ["in", "out", "evicted"]);
    assert_eq!(ways(&events(|| placed.set_placement(Placement::Device).unwrap())), ["in"]);
    assert_eq!(ways(&events(|| drop(placed.fetch().unwrap()))), [""; 0], "it is there");
    placed.set_placement(Placement::Host).unwrap();
    assert_eq!(ways(&events(|| drop(placed.into_array().unwrap()))), ["in"]);
}

#[test]
fn an_invalidation_is_told() {
    let _turn = turn();
    let host = Host::new();
    let kept = cache_scope!(spans_invalidated, { host.zeros::<u8>(4096).unwrap() });
    cache_scope!(spans_invalidated, { drop(host.zeros::<u8>(8192).unwrap()) });
    let mut given = None;
    let seen = events(|| given = Some(invalidate("spans_invalidated")));
    let (told, given) = (only(&seen, "invalidation"), given.unwrap());
    assert_eq!((told.text("scope"), told.number("busy_blocks")), ("spans_invalidated", 1));
    assert_eq!((told.number("bytes"), given.busy_blocks), (given.bytes, 1));
    assert_eq!(events(|| assert!(!invalidate("spans_never_entered").is_known)), []);
    drop(kept);
}

/// A subscriber may enter scopes and allocate, even in the scope of the message.
#[test]
fn a_subscriber_may_allocate() {
    let _turn = turn();
    thread_local! {
        static IS_INSIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
    }
    fn act() {
        if !IS_INSIDE.replace(true) {
            step(&Host::new(), "spans_of_a_subscriber", 1000);
            step(&Host::new(), "spans_heard", 1000);
            invalidate("spans_of_a_subscriber");
            IS_INSIDE.set(false);
        }
    }
    let host = Host::new();
    let seen = told_to(act, || {
        for round in 0..40 {
            cache_scope!(spans_heard, {
                let array = Array::full(&host, 1000 + round % 7, round as f32).unwrap();
                let copy = array.try_clone().unwrap();
                assert!(array.iter().chain(copy.iter()).all(|&value| value == round as f32));
            });
        }
    });
    assert!(seen.len() > 100);
    assert_eq!(gpucache::stats("spans_heard").unwrap().busy_blocks, 0);
}

/// Each message panics, in an entry, a drop and a move.
#[test]
fn a_subscriber_may_panic() {
    let _turn = turn();
    let placed = Placed::new(Host::new_stream().unwrap().zeros::<u8>(1 << 20).unwrap()).unwrap();
    let seen = told_to(
        || panic!("on purpose"),
        || {
            (0..6).for_each(|round| step(&Host::new(), "spans_panics", 1000 + round / 4 * 200));
            placed.set_placement(Placement::Host).unwrap();
        },
    );
    assert!(
        ["plan laid out", "deviation from the plan", "array moved"]
            .iter()
            .all(|what| seen.iter().any(|told| told.what == *what))
    );
    let known = || gpucache::stats("spans_panics").unwrap();
    let allocations = known().allocations();
    assert_eq!((known().entries, known().busy_blocks), (6, 0));
    drop(Host::new().zeros::<u8>(64).unwrap());
    assert_eq!(known().allocations(), allocations, "the thread has left the scope");
}

/// A subscriber may fetch the very array that moves.
#[test]
fn a_subscriber_may_fetch() {
    let _turn = turn();
    use std::cell::{Cell, OnceCell};
    thread_local! {
        static PLACED: OnceCell<Placed<u8, Host>> = const { OnceCell::new() };
        static FETCHED: Cell<u32> = const { Cell::new(0) };
        static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    fn act() {
        if !IS_INSIDE.replace(true) {
            PLACED.with(|placed| assert_eq!(placed.get().unwrap().fetch().unwrap()[99], 7));
            FETCHED.set(FETCHED.get() + 1);
            IS_INSIDE.set(false);
        }
    }
    let array = Array::full(&Host::new_stream().unwrap(), 1000, 7u8).unwrap();
    PLACED.with(|placed| {
        let placed = placed.get_or_init(|| Placed::new(array).unwrap());
        told_to(act, || {
            placed.set_placement(Placement::Host).unwrap();
            assert_eq!(placed.fetch().unwrap()[0], 7);
            placed.set_placement(Placement::Device).unwrap();
        });
    });
    assert!(FETCHED.get() >= 4, "{}", FETCHED.get());
}
