//! A failure that cudarc kept belongs to the call that caused it. It is neither swallowed nor reported as the cause of something
//! else.

use cudarc::driver::sys::CUresult::CUDA_ERROR_INVALID_HANDLE;
use cudarc::driver::{CudaContext, CudaSlice, DriverError};
use gpucache::Result;
use gpucache::prelude::*;
use gpucache_tests::alone::alone;
use gpucache_tests::gpu::{Gpu, is_made_up};
use gpucache_tests::madeup::fail;

use crate::capture::free_bytes;
use crate::{Service, Tally};

const LEN: usize = 1 << 20;

type Call = (&'static str, fn(&Cuda, &mut Array<u8, Cuda>) -> Result<()>);

fn uninit(stream: &Cuda) -> Result<Array<u8, Cuda>> {
    // SAFETY: nobody reads the array.
    unsafe { Array::uninit(stream, LEN) }
}

const CALLS: [Call; 8] = [
    ("an allocation", |stream, _| uninit(stream).map(drop)),
    ("zeros", |stream, _| Array::<u8, _>::zeros(stream, LEN).map(drop)),
    ("from_slice", |stream, _| Array::from_slice(stream, LEN, &vec![1u8; LEN]).map(drop)),
    ("a copy to the host", |_, kept| kept.to_vec().map(drop)),
    ("a clone", |_, kept| kept.try_clone().map(drop)),
    ("a copy to the device", |_, kept| kept.copy_from_slice(&vec![2; LEN])),
    ("a synchronization", |stream, _| stream.synchronize()),
    ("a trim", |stream, _| {
        stream.trim();
        stream.synchronize()
    }),
];

/// A call either succeeds and leaves the failure for a later call, or it says that it returns an earlier failure. Then it can be
/// made again.
#[test]
fn what_cudarc_kept_is_told_as_what_it_is() {
    alone(60, || {
        let Some(_gpu) = Gpu::get() else { return };
        let context = CudaContext::new(0).unwrap();
        let stream = Cuda::with_stream(context.new_stream().unwrap()).unwrap();
        let mut tally = Tally::default();
        for service in Service::ALL {
            for (what, call) in CALLS {
                let name = format!("{what}, {service:?}");
                tally.count(&name, 3, || {
                    let mut kept = service.enter(&name, || Array::<u8, _>::zeros(&stream, LEN)).unwrap();
                    context.check_err().unwrap();
                    context.record_err::<()>(Err(DriverError(CUDA_ERROR_INVALID_HANDLE)));
                    let answer = service.enter(&name, || call(&stream, &mut kept));
                    let is_known = context.check_err() == Err(DriverError(CUDA_ERROR_INVALID_HANDLE));
                    let is_right = match &answer {
                        Ok(()) => is_known,
                        Err(error) => {
                            let again = service.enter(&name, || call(&stream, &mut kept));
                            !is_known && error.is_deferred() && again.is_ok()
                        }
                    };
                    if !is_right {
                        let error = answer.err().map(|error| error.to_string());
                        println!("{name}: the call says {error:?}, and the failure is still known: {is_known}");
                    }
                    !is_right
                });
                let _ = invalidate(&name);
            }
        }
        tally.finish();
    });
}

/// A failure that another context object kept does not concern this one.
#[test]
fn what_another_context_object_kept_stays_there() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let other = CudaContext::new(0).unwrap();
        let foreign = Cuda::with_stream(other.new_stream().unwrap()).unwrap();
        let name = "beside a failure";
        for service in Service::ALL {
            // The foreign stream has used memory here, so a miss may have to ask for its events.
            service.enter(name, || drop(uninit(&foreign).unwrap()));
            other.record_err::<()>(Err(DriverError(CUDA_ERROR_INVALID_HANDLE)));
            for part in 1..8 {
                // SAFETY: nobody reads the array.
                let array = service.enter(name, || unsafe { Array::<u8, _>::uninit(&gpu.cuda, LEN / part) });
                drop(array.unwrap_or_else(|error| panic!("{service:?}: {error}")));
            }
            assert!(other.check_err().is_err(), "{service:?}: the failure was swallowed");
            let _ = invalidate(name);
        }
    });
}

/// cudarc panics if a slice's events cannot be made, also for a failure that its context object keeps.
#[test]
fn a_slice_is_made_whatever_call_for_its_events_fails() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        if !is_made_up() {
            return;
        }
        for (name, after, times) in [c"cuEventDestroy_v2", c"cuEventCreate"]
            .into_iter()
            .flat_map(|name| [(name, 0, 1), (name, 1, 1), (name, 2, 1), (name, 0, u64::MAX), (name, 1, u64::MAX)])
        {
            let stream = gpu.new_stream();
            let array = Array::full(&stream, LEN, 5u8).unwrap();
            fail(name, after, times, CUDA_ERROR_INVALID_HANDLE as u32);
            let copied = stream.stream().clone_dtoh::<u8, CudaSlice<u8>>(&array);
            fail(name, 0, 0, 0);
            // A failure is told, as an earlier one.
            assert!(copied.is_ok_and(|copied| copied == [5; LEN]), "{name:?} after {after}");
            drop(array);
            let _ = stream.synchronize();
            stream.synchronize().unwrap();
        }
    });
}

/// Calls that go through cudarc's own take no earlier failure for theirs, and do not lose it.
#[test]
fn what_cudarc_kept_is_no_failure_of_a_launch_or_a_copy() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        let stream = gpu.new_stream();
        let context = stream.stream().context();
        let input = uninit(&stream).unwrap();
        let (graph, _copy) = stream.capture(|| input.try_clone()).unwrap();
        // Memory of the range, which a slice cannot have.
        let array = gpucache::cache_scope!("kept: a copy", { uninit(&stream).unwrap() });
        context.check_err().unwrap();
        let mut array = Some(array);
        let mut calls: [(&str, &mut dyn FnMut() -> Result<()>); 2] = [
            ("a launch of a graph", &mut || graph.launch()),
            ("a copy for a slice", &mut || CudaSlice::try_from(array.take().unwrap()).map(drop)),
        ];
        for (what, call) in &mut calls {
            context.record_err::<()>(Err(DriverError(CUDA_ERROR_INVALID_HANDLE)));
            let told = call().err().or_else(|| stream.synchronize().err());
            assert!(told.as_ref().is_some_and(gpucache::Error::is_deferred), "{what}: {told:?}");
            stream.synchronize().unwrap();
        }
    });
}

/// If a slice cannot take the memory over, the memory is freed, since no array has it any more.
#[test]
fn a_conversion_that_fails_leaks_nothing() {
    alone(60, || {
        let Some(gpu) = Gpu::get() else { return };
        if !is_made_up() {
            return;
        }
        let (stream, mut failed) = (gpu.new_stream(), 0);
        for (after, is_lent) in (0..4).flat_map(|after| [(after, false), (after, true)]) {
            let before = free_bytes(&stream);
            let array = uninit(&stream).unwrap();
            if is_lent {
                let _: &CudaSlice<u8> = &array;
            }
            fail(c"cuEventRecord", after, 1, CUDA_ERROR_INVALID_HANDLE as u32);
            failed += u32::from(CudaSlice::try_from(array).is_err());
            fail(c"cuEventRecord", 0, 0, 0);
            assert_eq!(free_bytes(&stream), before, "a failure after {after} records, lent: {is_lent}");
            // The failure may be told once more.
            let _ = stream.synchronize();
        }
        assert!(failed > 0, "no conversion has failed");
    });
}
