//! `empty`: arrays without elements, of several types in turn, in every operation. A scope keeps one record for all of them, so
//! each operation meets the leftovers of another type.

use std::any::type_name;
use std::sync::Arc;

use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, DevicePtrMut, DeviceRepr, ValidAsZeroBits, result,
};
use gpucache::{Array, Element, cache_scope, offload::Placed, prelude::*, uncached};

use crate::report::{Outcome, Report, ensure};

/// Shapes without elements.
const SHAPES: [&[usize]; 4] = [&[0], &[3, 0, 5], &[0, usize::MAX], &[0; 9]];
/// The rounds in which a scope learns an order and follows it.
const ROUNDS: usize = 6;

/// The streams on which arrays are used.
struct Streams {
    gpu: Cuda,
    /// Another stream of the same context object. gpucache has a handle of it.
    known: Cuda,
    /// A stream of the same context object, without a handle.
    passing: Arc<CudaStream>,
    /// A stream of another context object.
    apart: Arc<CudaStream>,
}

/// An element that cudarc's calls take.
trait Value: Element + DeviceRepr + ValidAsZeroBits + Default + PartialEq + std::fmt::Debug {}

impl<T: Element + DeviceRepr + ValidAsZeroBits + Default + PartialEq + std::fmt::Debug> Value for T {}

pub(crate) fn run() -> Outcome {
    let gpu = Cuda::new(0)?;
    // While the context has one stream, cudarc's builder gets plain pointers.
    in_all_scopes(|| arguments::<u8>(&gpu).and_then(|()| arguments::<f64>(&gpu)))?;
    let known = Cuda::with_stream(gpu.stream().context().new_stream()?)?;
    let passing = gpu.stream().context().new_stream()?;
    let streams = Streams { apart: CudaContext::new(0)?.new_stream()?, gpu, known, passing };
    in_all_scopes(|| {
        all::<u8>(&streams)?;
        all::<f64>(&streams)?;
        all::<u16>(&streams)?;
        all::<f32>(&streams)?;
        all::<i64>(&streams)
    })?;
    without_bytes()?;
    Ok(Report::default().number("rounds", ROUNDS as u64))
}

/// Does the work in scopes of every kind, and in none.
fn in_all_scopes(work: impl Fn() -> Outcome<()>) -> Outcome<()> {
    for _ in 0..ROUNDS {
        cache_scope!(planned, { work() })?;
        cache_scope!(keyed, recycle = "keyed", { work() })?;
        cache_scope!(ranged, recycle = "range", { work() })?;
        cache_scope!(off, recycle = "off", { work() })?;
        uncached!({ work() })?;
    }
    Ok(())
}

fn all<T: Value>(streams: &Streams) -> Outcome<()> {
    for dims in SHAPES {
        contents::<T>(streams, dims).map_err(|error| format!("{} {dims:?}: {error}", type_name::<T>()))?;
    }
    arguments::<T>(&streams.gpu)?;
    copies::<T>(streams)?;
    views::<T>(streams)?;
    slices::<T>(&streams.gpu)?;
    moved::<T>(streams)?;
    captured::<T>(&streams.known)?;
    allocated(&streams.passing)
}

fn contents<T: Value>(Streams { gpu, known, .. }: &Streams, dims: &[usize]) -> Outcome<()> {
    // SAFETY: the array has no elements.
    let mut array = unsafe { Array::<T, _>::uninit(gpu, dims)? };
    let zeros = Array::<T, _>::zeros(known, dims)?;
    let full = Array::full(gpu, dims, T::default())?;
    array.copy_from_slice(&[])?;
    ensure(zeros.is_empty() && full.is_empty(), || format!("{zeros:?}, {full:?}"))?;
    zeros.announce_read(gpu)?;
    array.announce_write(known)?;
    let clone = Array::from_slice(gpu, dims, &[] as &[T])?.try_clone()?;
    ensure(clone.shape() == dims && clone.to_vec()?.is_empty(), || format!("{clone:?}"))?;
    ensure(clone.reshape([0, 7])?.shape() == [0, 7], || "reshaped".into())
}

/// Without kernels: the arguments that a launch would get.
fn arguments<T: Value>(gpu: &Cuda) -> Outcome<()> {
    let (shared, mut unique) = (Array::<T, _>::zeros(gpu, 0)?, Array::<T, _>::zeros(gpu, [2, 0])?);
    ensure(unique.address() == shared.address(), || "an address of nothing".into())?;
    let _ = (shared.device_ptr(gpu.stream()).0, unique.device_ptr_mut(gpu.stream()).0);
    Ok(())
}

fn copies<T: Value>(streams: &Streams) -> Outcome<()> {
    let Streams { gpu, known, passing, apart } = streams;
    for stream in [gpu.stream(), known.stream(), passing, apart] {
        let (x, mut y) = (Array::<T, _>::zeros(gpu, 0)?, Array::<T, _>::zeros(gpu, 0)?);
        stream.memcpy_dtod(&x, &mut y)?;
        stream.memset_zeros(&mut y)?;
        stream.memcpy_htod(&[] as &[T], &mut y)?;
        stream.memcpy_dtoh(&x, &mut [] as &mut [T])?;
        stream.memcpy_dtod(&x.as_view(), &mut y)?;
    }
    Ok(())
}

fn views<T: Value>(Streams { gpu, passing, .. }: &Streams) -> Outcome<()> {
    let mut array = Array::<T, _>::zeros(gpu, 0)?;
    for part in [array.as_view(), array.slice(..), array.slice(0..0)] {
        ensure(part.is_empty(), || format!("{part:?}"))?;
        let _ = part.device_ptr(passing).0;
    }
    ensure(array.try_slice(1..).is_none(), || "a part of nothing".into())?;
    passing.memset_zeros(&mut array.as_view_mut())?;
    passing.memset_zeros(&mut array.slice_mut(0..))?;
    ensure(array.try_slice_mut(..1).is_none(), || "a part of nothing".into())?;
    let (mut low, high) = array.split_at_mut(0);
    passing.memcpy_dtod(&high, &mut low)?;
    Ok(())
}

fn slices<T: Value>(gpu: &Cuda) -> Outcome<()> {
    let array = Array::<T, _>::zeros(gpu, 0)?;
    ensure(gpu.stream().clone_dtoh(&*array)?.is_empty(), || "a slice of nothing".into())?;
    let slice = CudaSlice::try_from(array)?;
    let back = Array::try_from(slice)?;
    ensure(back.is_empty() && back.to_vec()?.is_empty(), || format!("{back:?}"))
}

fn moved<T: Value>(Streams { gpu, known, .. }: &Streams) -> Outcome<()> {
    let mut placed = Placed::new(Array::<T, _>::zeros(gpu, [0, 4])?)?;
    placed.fetch_mut()?.copy_from_slice(&[])?;
    placed.set_placement(gpucache::offload::Placement::Host)?;
    ensure(placed.fetch()?.is_empty() && placed.try_clone()?.to_vec()?.is_empty(), || format!("{placed:?}"))?;
    drop(Placed::<T, _>::zeros(known, 0)?);
    drop(placed.into_array()?);
    Ok(())
}

fn captured<T: Value>(gpu: &Cuda) -> Outcome<()> {
    let array = Array::<T, _>::zeros(gpu, [0, 2])?;
    // A driver may make no graph of no work.
    match gpu.capture(|| array.try_clone()) {
        Ok((graph, copy)) => {
            graph.launch()?;
            ensure(copy.is_empty(), || format!("{copy:?}"))
        }
        Err(error) => ensure(!error.to_string().is_empty(), || "an error without a word".into()),
    }
}

/// Requests of other crates to the driver. It refuses 0 bytes without a stream, with and without gpucache.
fn allocated(stream: &CudaStream) -> Outcome<()> {
    stream.context().bind_to_thread()?;
    // SAFETY: nobody uses the memory. If there is any, it is freed once.
    unsafe {
        if let Ok(address) = result::malloc_async(stream.cu_stream(), 0) {
            result::free_async(address, stream.cu_stream())?;
        }
        if let Ok(address) = result::malloc_sync(0) {
            result::free_sync(address)?;
        }
    }
    Ok(())
}

/// An element without bytes.
#[derive(Clone, Copy, Debug)]
struct Unit;

// SAFETY: it has no bytes, so none is uninitialised, and any bytes are a valid value.
unsafe impl Element for Unit {}

/// Elements without bytes: arrays that have a length. One record of a scope serves all lengths.
fn without_bytes() -> Outcome<()> {
    let gpu = Cuda::new(0)?;
    for len in [7, 3, 9, 0] {
        cache_scope!(planned, {
            let mut array = Array::full(&gpu, len, Unit)?;
            ensure(array.slice(..len).len() == len && array.slice_mut(..len).len() == len, || format!("{array:?}"))?;
            ensure(array.to_vec()?.len() == len && array.try_clone()?.len() == len, || format!("{array:?}"))
        })?;
    }
    Ok(())
}
