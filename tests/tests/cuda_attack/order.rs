//! Uses on streams that the array's own context object does not know: streams of a second object for the same context, and borrowed
//! streams. Slow work makes every wrong order show in the contents.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, result};
use gpucache::prelude::*;
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, Kernels};

use crate::{Service, Tally, by_service};

const LEN: usize = 1 << 18;
/// Longer than the host takes to go on, in microseconds.
const WHILE: u64 = 3000;

fn wrong(values: &[u32], expected: u32) -> bool {
    values.iter().any(|value| *value != expected)
}

fn full(stream: &Cuda, value: u32) -> Array<u32, Cuda> {
    Array::full(stream, LEN, value).unwrap()
}

/// Slow uses on `foreign`. The memory's next life on `home` knows them only through the use itself.
fn foreign_uses(slow: &Kernels, home: &Cuda, foreign: &Arc<CudaStream>) {
    let mut tally = Tally::default();
    let synchronize = || {
        home.synchronize().unwrap();
        foreign.synchronize().unwrap();
    };
    let mut sink = foreign.alloc_zeros::<u32>(LEN).unwrap();
    let sevens = foreign.clone_htod(&vec![7u32; LEN]).unwrap();
    by_service(&mut tally, "a foreign read, then the next life", || {
        let array = full(home, 1);
        synchronize();
        slow.hold(foreign, WHILE);
        foreign.memcpy_dtod(&array, &mut sink).unwrap();
        drop(array);
        let _next = full(home, 2);
        synchronize();
        wrong(&foreign.clone_dtoh(&sink).unwrap(), 1)
    });
    by_service(&mut tally, "a foreign write, then the next life", || {
        let mut array = full(home, 1);
        synchronize();
        slow.hold(foreign, WHILE);
        foreign.memcpy_dtod(&sevens, &mut array).unwrap();
        drop(array);
        let next = full(home, 2);
        synchronize();
        wrong(&next.to_vec().unwrap(), 2)
    });
    by_service(&mut tally, "a foreign read, then a write at home", || {
        let mut array = full(home, 1);
        synchronize();
        slow.hold(foreign, WHILE);
        foreign.memcpy_dtod(&array, &mut sink).unwrap();
        home.stream().memset_zeros(&mut array).unwrap();
        synchronize();
        wrong(&foreign.clone_dtoh(&sink).unwrap(), 1)
    });
    by_service(&mut tally, "a slow write at home, then a foreign read", || {
        let mut array = full(home, 1);
        synchronize();
        slow.hold(home.stream(), WHILE);
        home.stream().memset_zeros(&mut array).unwrap();
        foreign.memcpy_dtod(&array, &mut sink).unwrap();
        synchronize();
        wrong(&foreign.clone_dtoh(&sink).unwrap(), 0)
    });
    by_service(&mut tally, "a slow write at home, then a foreign write", || {
        let mut array = full(home, 1);
        synchronize();
        slow.hold(home.stream(), WHILE);
        home.stream().memset_zeros(&mut array).unwrap();
        foreign.memcpy_dtod(&sevens, &mut array).unwrap();
        synchronize();
        wrong(&array.to_vec().unwrap(), 7)
    });
    tally.finish();
}

#[test]
fn uses_by_a_second_context_object_are_waited_for() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let Some(slow) = gpu.kernels() else { return };
        let foreign = CudaContext::new(0).unwrap().new_stream().unwrap();
        foreign_uses(&slow, &gpu.cuda, &foreign);
    });
}

#[test]
fn uses_on_a_borrowed_stream_are_waited_for() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let Some(slow) = gpu.kernels() else { return };
        let context = gpu.cuda.stream().context();
        context.bind_to_thread().unwrap();
        let raw = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        // SAFETY: the stream is one of this context, which is current. It is never destroyed.
        let foreign = unsafe { context.wrap_borrowed_stream(raw) };
        foreign_uses(&slow, &gpu.cuda, &foreign);
    });
}

/// If pages went under the work of a stream, the context would be lost.
#[test]
fn pages_are_not_given_back_under_a_second_context_object() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let Some(slow) = gpu.kernels() else { return };
        let foreign = CudaContext::new(0).unwrap().new_stream().unwrap();
        let mut sink = foreign.alloc_zeros::<u32>(64 * LEN).unwrap();
        for service in Service::SCOPES {
            let name = format!("given back, {service:?}");
            let array = service.enter(&name, || Array::full(&gpu.cuda, 64 * LEN, 1u32).unwrap());
            gpu.cuda.synchronize().unwrap();
            foreign.synchronize().unwrap();
            slow.hold(&foreign, 30_000);
            foreign.memcpy_dtod(&array, &mut sink).unwrap();
            drop(array);
            let _ = invalidate(&name);
            gpu.cuda.trim();
            foreign.synchronize().unwrap_or_else(|error| panic!("{service:?}: the other stream says {error}"));
            assert!(!wrong(&foreign.clone_dtoh(&sink).unwrap(), 1), "{service:?}: what was read");
        }
    });
}
