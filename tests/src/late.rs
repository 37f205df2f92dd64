//! Work that runs late, on streams of the host and of a GPU: an old life of memory still works when the next life begins.

use gpucache::prelude::{Array, Device, Host};
use std::time::{Duration, Instant};

/// A machine whose streams do their work later.
pub trait Late {
    /// The handle of a stream.
    type Device: Device;

    /// A stream of its own.
    fn new_stream(&self) -> Self::Device;

    /// Writes `value` to all elements, by work on `stream`, after a while if it is `slow`.
    fn fill(&self, stream: &Self::Device, array: &mut Array<u32, Self::Device>, value: u32, slow: bool);

    /// Copies `input` to `out`, by work on `stream`, after a while if it is `slow`.
    fn copy(
        &self,
        stream: &Self::Device,
        out: &mut Array<u32, Self::Device>,
        input: &Array<u32, Self::Device>,
        slow: bool,
    );

    /// The address of the array. Waits for nothing.
    fn address(&self, array: &Array<u32, Self::Device>) -> u64;
}

/// Streams of the host, with work on bare addresses. Only announced uses order it.
pub struct LateHost;

/// Longer than a test needs for its other work meanwhile.
const WHILE: Duration = Duration::from_micros(400);

/// A bare address, and the elements there.
#[derive(Clone, Copy)]
struct Bare(usize, usize);

impl Bare {
    fn of(array: &Array<u32, Host>) -> Bare {
        Bare(LateHost.address(array) as usize, array.len())
    }

    /// Does not use slices: if work overlapped wrongly, slices would alias, and the test looks for something else.
    #[allow(unsafe_code)]
    fn write(self, value: impl Fn(usize) -> u32) {
        // SAFETY: elements of an array that was announced to the stream that does this work.
        (0..self.1).for_each(|i| unsafe { self.element(i).write_volatile(value(i)) });
    }

    #[allow(unsafe_code)]
    fn read(self, i: usize) -> u32 {
        // SAFETY: as above.
        unsafe { self.element(i).read_volatile() }
    }

    #[allow(unsafe_code)]
    unsafe fn element(self, i: usize) -> *mut u32 {
        // SAFETY: the caller's `i` lies within the array.
        unsafe { std::ptr::with_exposed_provenance_mut::<u32>(self.0).add(i) }
    }
}

fn wait_if(slow: bool) {
    let start = Instant::now();
    while slow && start.elapsed() < WHILE {
        std::hint::spin_loop();
    }
}

impl Late for LateHost {
    type Device = Host;

    fn new_stream(&self) -> Host {
        Host::new_stream().expect("a thread")
    }

    fn fill(&self, stream: &Host, array: &mut Array<u32, Host>, value: u32, slow: bool) {
        array.announce_write(stream).expect("ordered");
        let place = Bare::of(array);
        let work = move |()| {
            wait_if(slow);
            place.write(|_| value);
        };
        stream.launch((), work).expect("queued");
    }

    fn copy(&self, stream: &Host, out: &mut Array<u32, Host>, input: &Array<u32, Host>, slow: bool) {
        out.announce_write(stream).expect("ordered");
        input.announce_read(stream).expect("ordered");
        let (to, from) = (Bare::of(out), Bare::of(input));
        let work = move |()| {
            wait_if(slow);
            to.write(|i| from.read(i));
        };
        stream.launch((), work).expect("queued");
    }

    fn address(&self, array: &Array<u32, Host>) -> u64 {
        array.address()
    }
}

/// Streams of a GPU, with kernels that wait first. This crate's builder launches them, or cudarc's.
#[cfg(feature = "cuda")]
pub struct LateGpu {
    gpu: crate::gpu::Gpu,
    kernels: crate::gpu::Kernels,
    by_cudarc: bool,
}

#[cfg(feature = "cuda")]
impl LateGpu {
    const NANOSECONDS: u64 = 200_000;

    /// GPU 0, if there is one.
    pub fn get(by_cudarc: bool) -> Option<LateGpu> {
        let gpu = crate::gpu::Gpu::get()?;
        let kernels = gpu.kernels()?;
        Some(LateGpu { gpu, kernels, by_cudarc })
    }
}

#[cfg(feature = "cuda")]
impl Late for LateGpu {
    type Device = gpucache::prelude::Cuda;

    fn new_stream(&self) -> Self::Device {
        self.gpu.new_stream()
    }

    fn fill(&self, stream: &Self::Device, array: &mut Array<u32, Self::Device>, value: u32, slow: bool) {
        let nanoseconds = if slow { LateGpu::NANOSECONDS } else { 0 };
        match self.by_cudarc {
            true => self.kernels.fill(stream.stream(), array, value, nanoseconds),
            false => self.kernels.fill_on(stream, array, value, nanoseconds),
        }
    }

    fn copy(
        &self,
        stream: &Self::Device,
        out: &mut Array<u32, Self::Device>,
        input: &Array<u32, Self::Device>,
        slow: bool,
    ) {
        let nanoseconds = if slow { LateGpu::NANOSECONDS } else { 0 };
        match self.by_cudarc {
            true => self.kernels.add(stream.stream(), out, input, 0, nanoseconds),
            false => self.kernels.add_on(stream, out, input, 0, nanoseconds),
        }
    }

    fn address(&self, array: &Array<u32, Self::Device>) -> u64 {
        array.address()
    }
}
