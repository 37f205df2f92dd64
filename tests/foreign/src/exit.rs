//! `exit`: slices that are alive when the process ends, in statics, in thread-locals, and on a thread inside a scope.

use std::cell::RefCell;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::{CudaContext, CudaSlice, CudaStream};

use crate::report::{Outcome, Report};
use crate::slices::{check, patterned};
use crate::{driver, front_end};

const LENGTH: usize = 5000;

static SLICES: Mutex<Vec<CudaSlice<u32>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: RefCell<Vec<CudaSlice<u32>>> = const { RefCell::new(Vec::new()) };
}

/// Keeps slices in both, of a stream with work.
fn keep(stream: &Arc<CudaStream>) -> Outcome<()> {
    // Made before the first scope of its thread, so that it ends after the memory of the scopes.
    let outside = patterned(stream, 1, LENGTH)?;
    OWN.with_borrow_mut(|own| own.push(outside));
    front_end::scoped(|| {
        let inside = patterned(stream, 2, LENGTH)?;
        check(stream, &inside, 2)?;
        driver::delay(stream, 20)?;
        OWN.with_borrow_mut(|own| own.push(inside));
        SLICES.lock().unwrap_or_else(PoisonError::into_inner).push(patterned(stream, 3, LENGTH)?);
        drop(patterned(stream, 4, LENGTH)?);
        Ok(())
    })
}

pub(crate) fn run() -> Outcome {
    let context = CudaContext::new(0)?;
    keep(&context.per_thread_stream())?;
    let other = context.clone();
    std::thread::spawn(move || keep(&other.per_thread_stream())).join().map_err(|_| "a thread panicked")??;
    let (ready, is_ready) = channel();
    let stream = context.new_stream()?;
    std::thread::spawn(move || {
        front_end::scoped(|| {
            let slice = patterned(&stream, 5, LENGTH);
            let _ = ready.send(slice.is_ok());
            // Until the process ends.
            loop {
                std::thread::park();
            }
        })
    });
    is_ready.recv()?.then_some(()).ok_or("a slice on the thread that stays")?;
    keep(&context.new_stream()?)?;
    front_end::add_to(Report::default())
}
