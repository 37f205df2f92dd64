//! A home stream, a foreign stream of some kind, and all possible uses of an array there.

use std::error::Error;
use std::sync::Arc;

use cudarc::cublas::sys::cublasOperation_t::CUBLAS_OP_N;
use cudarc::cublas::{CudaBlas, Gemm, GemmConfig};
use cudarc::driver::{
    CudaContext, CudaSlice, CudaStream, DevicePtr, LaunchConfig, PinnedHostSlice, PushKernelArg, result,
};
use gpucache::prelude::*;
use gpucache_tests::gpu::{Gpu, Kernels, library_is_there};

use crate::bare::copy_at;

/// The side of a square matrix.
const SIDE: usize = 64;
pub(crate) const LEN: usize = SIDE * SIDE;
const BYTES: usize = 4 * LEN;
/// Longer than the host takes to go on, in microseconds.
const WHILE: u64 = 1500;

pub(crate) type Outcome<R> = Result<R, Box<dyn Error>>;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Use {
    CopyFrom,
    CopyTo,
    CopyToHost,
    Memset,
    Clone,
    Gemm,
    ReadByCudarcsBuilder,
    ReadOfViewByCudarcsBuilder,
    WriteByCudarcsBuilder,
    ReadByTheHandlesBuilder,
    WriteByTheHandlesBuilder,
    ReadByView,
    WriteByView,
    ReadByDeref,
    ReadAtAddress,
    WriteAtAddress,
}

pub(crate) const USES: [Use; 16] = [
    Use::CopyFrom,
    Use::CopyTo,
    Use::CopyToHost,
    Use::Memset,
    Use::Clone,
    Use::Gemm,
    Use::ReadByCudarcsBuilder,
    Use::ReadOfViewByCudarcsBuilder,
    Use::WriteByCudarcsBuilder,
    Use::ReadByTheHandlesBuilder,
    Use::WriteByTheHandlesBuilder,
    Use::ReadByView,
    Use::WriteByView,
    Use::ReadByDeref,
    Use::ReadAtAddress,
    Use::WriteAtAddress,
];

impl Use {
    /// The contents of the array after the use, if the use writes.
    pub(crate) fn written(self) -> Option<f32> {
        match self {
            Use::Memset => Some(0.0),
            Use::CopyTo | Use::WriteByCudarcsBuilder | Use::WriteByTheHandlesBuilder => Some(7.0),
            Use::WriteByView | Use::WriteAtAddress => Some(7.0),
            _ => None,
        }
    }
}

/// The kind of the foreign stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Foreign {
    /// A second stream of the home stream's context object.
    OwnContext,
    /// A stream of another object for the same context. The home stream is the default stream, and the only one of its object.
    SecondContext,
    /// As `SecondContext`, but the home stream's object has several streams.
    SecondContextOfSeveral,
    /// A stream that other code made, wrapped by the home stream's context object.
    Borrowed,
    /// The legacy default stream through another object for the same context.
    LegacyDefault,
    /// A second stream of a context object that tracks no events. Its users have to synchronize.
    Untracked,
}

/// A home stream, a foreign stream, and the values that the uses need.
pub(crate) struct Place {
    kind: Foreign,
    pub(crate) home: Cuda,
    pub(crate) foreign: Arc<CudaStream>,
    /// This crate's handle of the foreign stream.
    handle: Cuda,
    slow: Kernels,
    blas: Option<CudaBlas>,
    pub(crate) threes: CudaSlice<f32>,
    pub(crate) seen_at_home: CudaSlice<f32>,
    sevens: CudaSlice<f32>,
    ones: CudaSlice<f32>,
    seen: CudaSlice<f32>,
    cloned: Option<CudaSlice<f32>>,
    pinned: PinnedHostSlice<f32>,
    /// How many times memory began its next life, and below, how many times that was at the same address.
    pub(crate) next_lives: u32,
    pub(crate) recycled: u32,
    // Dropped last, since other tests of the process wait for it.
    _gpu: Gpu,
}

fn streams(kind: Foreign, own: &Arc<CudaContext>) -> (Arc<CudaStream>, Arc<CudaStream>) {
    let second = || CudaContext::new(0).unwrap();
    match kind {
        Foreign::OwnContext => (own.new_stream().unwrap(), own.new_stream().unwrap()),
        Foreign::SecondContext => (own.default_stream(), second().new_stream().unwrap()),
        Foreign::SecondContextOfSeveral => (own.new_stream().unwrap(), second().new_stream().unwrap()),
        Foreign::Borrowed => {
            own.bind_to_thread().unwrap();
            let raw = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
            // SAFETY: the stream is one of this context, which is current. It is never destroyed.
            (own.default_stream(), unsafe { own.wrap_borrowed_stream(raw) })
        }
        Foreign::LegacyDefault => (own.new_stream().unwrap(), second().default_stream()),
        Foreign::Untracked => {
            let context = second();
            // SAFETY: `Place::hand_over` synchronizes the streams by hand.
            unsafe { context.disable_event_tracking() };
            (context.new_stream().unwrap(), context.new_stream().unwrap())
        }
    }
}

impl Place {
    pub(crate) fn new(kind: Foreign) -> Option<Place> {
        let gpu = Gpu::get()?;
        let slow = gpu.kernels()?;
        let (home, foreign) = streams(kind, gpu.cuda.stream().context());
        let blas = library_is_there("cuBLAS").then(|| CudaBlas::new(foreign.clone()).unwrap());
        let place = Place {
            kind,
            home: Cuda::with_stream(home.clone()).unwrap(),
            handle: Cuda::with_stream(foreign.clone()).unwrap(),
            slow,
            blas,
            threes: home.clone_htod(&vec![3.0; LEN]).unwrap(),
            seen_at_home: home.alloc_zeros(LEN).unwrap(),
            sevens: foreign.clone_htod(&vec![7.0; LEN]).unwrap(),
            ones: foreign.clone_htod(&vec![1.0; SIDE]).unwrap(),
            seen: foreign.alloc_zeros(LEN).unwrap(),
            cloned: None,
            // SAFETY: `forget` writes the memory before it is read.
            pinned: unsafe { foreign.context().alloc_pinned_with_flags(LEN, 0).unwrap() },
            foreign,
            next_lives: 0,
            recycled: 0,
            _gpu: gpu,
        };
        // A kernel's first launch may wait for others.
        place.slow.hold(&place.foreign, 1);
        place.slow.hold(place.home.stream(), 1);
        place.synchronize().unwrap();
        Some(place)
    }

    pub(crate) fn synchronize(&self) -> Outcome<()> {
        self.foreign.synchronize()?;
        self.home.stream().synchronize()?;
        Ok(())
    }

    /// The caller's duty between streams for which cudarc tracks nothing.
    pub(crate) fn hand_over(&self) -> Outcome<()> {
        if self.kind == Foreign::Untracked { self.synchronize() } else { Ok(()) }
    }

    /// Forgets the earlier observations.
    pub(crate) fn forget(&mut self) -> Outcome<()> {
        self.synchronize()?;
        self.cloned = None;
        self.pinned.as_mut_slice()?.fill(0.0);
        self.foreign.memset_zeros(&mut self.seen)?;
        self.home.stream().memset_zeros(&mut self.seen_at_home)?;
        self.synchronize()
    }

    /// Puts the use on the foreign stream.
    pub(crate) fn put(&mut self, how: Use, array: &mut Array<f32, Cuda>) -> Outcome<()> {
        let (len, all) = (LEN as u32, LaunchConfig::for_num_elems(LEN as u32));
        let (zero, seven, at_once) = (0u32, 7.0f32.to_bits(), 0u64);
        let Place { foreign, handle, slow, sevens, ones, seen, .. } = self;
        match how {
            Use::CopyFrom => foreign.memcpy_dtod(array, seen)?,
            Use::CopyTo => foreign.memcpy_dtod(sevens, array)?,
            Use::CopyToHost => foreign.memcpy_dtoh(array, &mut self.pinned)?,
            Use::Memset => foreign.memset_zeros(array)?,
            Use::Clone => self.cloned = Some(foreign.clone_dtod(array)?),
            Use::Gemm => {
                let (side, alpha, beta) = (SIDE as i32, 1.0, 0.0);
                let (transa, transb, m, n, k) = (CUBLAS_OP_N, CUBLAS_OP_N, side, 1, side);
                let config = GemmConfig { transa, transb, m, n, k, alpha, lda: side, ldb: side, beta, ldc: side };
                let Some(blas) = &self.blas else { return Ok(()) };
                // SAFETY: a square matrix times a column of as many rows, into a column of as many rows.
                unsafe { blas.gemm(config, array, ones, seen) }?;
            }
            Use::ReadByCudarcsBuilder => {
                let mut launch = foreign.launch_builder(&slow.add);
                launch.arg(seen).arg(&*array).arg(&zero).arg(&len).arg(&at_once);
                // SAFETY: the arguments match the kernel's, and both places have `LEN` elements.
                unsafe { launch.launch(all) }?;
            }
            Use::ReadOfViewByCudarcsBuilder => {
                let view = array.as_view();
                let mut launch = foreign.launch_builder(&slow.add);
                launch.arg(seen).arg(&view).arg(&zero).arg(&len).arg(&at_once);
                // SAFETY: as above.
                unsafe { launch.launch(all) }?;
            }
            Use::WriteByCudarcsBuilder => {
                let mut launch = foreign.launch_builder(&slow.fill);
                launch.arg(array).arg(&seven).arg(&len).arg(&at_once);
                // SAFETY: as above.
                unsafe { launch.launch(all) }?;
            }
            Use::ReadByTheHandlesBuilder => {
                let mut launch = handle.launch_builder(&slow.add);
                launch.cudarc_arg(seen).arg(array).arg(&zero).arg(&len).arg(&at_once);
                // SAFETY: as above.
                unsafe { launch.launch(all) }?;
            }
            Use::WriteByTheHandlesBuilder => {
                let mut launch = handle.launch_builder(&slow.fill);
                launch.arg(array).arg(&seven).arg(&len).arg(&at_once);
                // SAFETY: as above.
                unsafe { launch.launch(all) }?;
            }
            Use::ReadByView => foreign.memcpy_dtod(&array.as_view(), seen)?,
            Use::WriteByView => foreign.memcpy_dtod(sevens, &mut array.as_view_mut())?,
            Use::ReadByDeref => foreign.memcpy_dtod::<f32, CudaSlice<f32>, _>(array, seen)?,
            Use::ReadAtAddress => {
                array.announce_read(handle)?;
                let to = seen.device_ptr(foreign).0;
                // SAFETY: both have `LEN` elements, and the array was announced to the stream.
                unsafe { copy_at(foreign, to, array.address(), BYTES) };
            }
            Use::WriteAtAddress => {
                array.announce_write(handle)?;
                let from = sevens.device_ptr(foreign).0;
                // SAFETY: as above.
                unsafe { copy_at(foreign, array.address(), from, BYTES) };
            }
        }
        Ok(())
    }

    /// Whether the use saw `value` everywhere, if it reads.
    pub(crate) fn saw(&self, how: Use, value: f32) -> Outcome<bool> {
        let seen = match how {
            _ if how.written().is_some() => return Ok(true),
            Use::Gemm if self.blas.is_none() => return Ok(true),
            Use::Gemm => {
                let sums = self.foreign.clone_dtoh(&self.seen)?;
                return Ok(sums[..SIDE].iter().all(|sum| *sum == value * SIDE as f32));
            }
            Use::CopyToHost => self.pinned.as_slice()?.to_vec(),
            Use::Clone => self.cloned.as_ref().map_or(Ok(Vec::new()), |slice| self.foreign.clone_dtoh(slice))?,
            _ => self.foreign.clone_dtoh(&self.seen)?,
        };
        Ok(seen == [value; LEN])
    }

    pub(crate) fn hold(&self, stream: &CudaStream, is_slow: bool) {
        if is_slow {
            self.slow.hold(stream, WHILE);
        }
    }
}
