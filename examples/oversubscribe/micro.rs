//! What calls of the driver cost on this machine.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaStream, result, sys};
use serde_json::json;

use crate::common::Result;
use crate::kernels::Kernels;

struct Timer(sys::CUevent, sys::CUevent);

impl Timer {
    fn new() -> Result<Timer> {
        let event = || result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT);
        Ok(Timer(event()?, event()?))
    }

    /// GPU microseconds of what `act` puts on a stream, and host microseconds of `act`.
    fn time(&self, stream: sys::CUstream, act: impl FnOnce() -> Result<()>) -> Result<(f64, f64)> {
        unsafe {
            result::event::record(self.0, stream)?;
            let begun = Instant::now();
            act()?;
            let host = begun.elapsed().as_secs_f64() * 1e6;
            result::event::record(self.1, stream)?;
            result::event::synchronize(self.1)?;
            Ok((f64::from(result::event::elapsed(self.0, self.1)?) * 1e3, host))
        }
    }
}

pub(crate) fn measure(stream: &CudaStream, _kernels: &Kernels) -> Result<()> {
    let context: &Arc<_> = stream.context();
    context.bind_to_thread()?;
    let (lane, lane2) = (context.new_stream()?, context.new_stream()?);
    let (main, side, side2) = (stream.cu_stream(), lane.cu_stream(), lane2.cu_stream());
    let timer = Timer::new()?;
    let bytes = 64usize << 20;
    unsafe {
        let device = result::malloc_sync(bytes)?;
        let device2 = result::malloc_sync(bytes)?;
        let mut host = std::ptr::null_mut();
        sys::cuMemHostAlloc(&mut host, bytes, sys::CU_MEMHOSTALLOC_PORTABLE).result()?;
        let mut host2 = std::ptr::null_mut();
        sys::cuMemHostAlloc(&mut host2, bytes, sys::CU_MEMHOSTALLOC_PORTABLE).result()?;
        let copy = |to: u64, from: u64, bytes: usize, stream| Ok(sys::cuMemcpyAsync(to, from, bytes, stream).result()?);
        let (h, h2) = (host as u64, host2 as u64);
        for _ in 0..2 {
            copy(device, h, bytes, side)?;
            copy(h2, device2, bytes, side2)?;
            result::memset_d8_async(device, 0, bytes, main)?;
            sys::cuCtxSynchronize().result()?;
        }
        for size in [2048usize, 65536, 1 << 20, 4 << 20, 8 << 20, 32 << 20] {
            let n = 20;
            let many = |to: u64, from: u64, stream| (0..n).try_for_each(|_| copy(to, from, size, stream));
            let inward = timer.time(side, || many(device, h, side))?;
            let outward = timer.time(side2, || many(h2, device2, side2))?;
            let memset = timer.time(main, || (0..n).try_for_each(|_| Ok(result::memset_d8_async(device, 0, size, main)?)))?;
            // Both ways at once.
            let event = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
            let begun = Instant::now();
            let both = timer.time(side, || {
                many(h2, device2, side2)?;
                result::event::record(event, side2)?;
                many(device, h, side)
            })?;
            result::event::synchronize(event)?;
            let both_wall = begun.elapsed().as_secs_f64() * 1e6 / f64::from(n);
            let each = |(gpu, host): (f64, f64)| [gpu / f64::from(n), host / f64::from(n)];
            println!("{}", json!({"micro": "copy", "bytes": size, "in_gpu_host_us": each(inward), "out_gpu_host_us": each(outward), "memset_gpu_host_us": each(memset), "in_while_out_us": each(both), "both_wall_us": both_wall}));
        }
        let n = 500;
        let plain = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
        let timed = result::event::create(sys::CUevent_flags::CU_EVENT_DEFAULT)?;
        let repeat = |act: &dyn Fn() -> Result<()>| timer.time(main, || (0..n).try_for_each(|_| act()));
        let tiny = || Ok(result::memset_d8_async(device, 0, 4096, main)?);
        let cases: [(&str, &dyn Fn() -> Result<()>); 9] = [
            ("tiny memset", &|| tiny()),
            ("record", &|| Ok(result::event::record(plain, main)?)),
            ("record timed", &|| Ok(result::event::record(timed, main)?)),
            ("tiny + record", &|| tiny().and_then(|()| Ok(result::event::record(plain, main)?))),
            ("tiny + record timed", &|| tiny().and_then(|()| Ok(result::event::record(timed, main)?))),
            ("tiny + record on side + wait", &|| {
                tiny()?;
                result::event::record(plain, side)?;
                Ok(result::stream::wait_event(main, plain, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)?)
            }),
            ("tiny + tiny copy on side + record + wait", &|| {
                tiny()?;
                copy(device2, h, 2048, side)?;
                result::event::record(plain, side)?;
                Ok(result::stream::wait_event(main, plain, sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT)?)
            }),
            ("query", &|| {
                let _ = result::event::query(plain);
                Ok(())
            }),
            ("create + destroy", &|| {
                let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING)?;
                Ok(result::event::destroy(event)?)
            }),
        ];
        for (name, case) in cases {
            repeat(case)?;
            sys::cuCtxSynchronize().result()?;
            let (gpu, host) = repeat(case)?;
            sys::cuCtxSynchronize().result()?;
            println!("{}", json!({"micro": name, "gpu_us": gpu / f64::from(n), "host_us": host / f64::from(n)}));
        }
        result::free_sync(device)?;
        result::free_sync(device2)?;
        sys::cuMemFreeHost(host).result()?;
        sys::cuMemFreeHost(host2).result()?;
    }
    Ok(())
}
