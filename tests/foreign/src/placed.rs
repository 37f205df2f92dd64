//! `placed`: more arrays than the device may hold, offloaded in turn. Their contents stay. `MADEUP_PINNED` says whether the driver
//! pins host memory.

use gpucache::{Array, device::Device, offload::Placed, prelude::Cuda};

use crate::report::{Outcome, Report, ensure};

const LEN: usize = 1 << 18;
const ARRAYS: u32 = 12;
const ROUNDS: u32 = 6;

pub(crate) fn run() -> Outcome {
    let gpu = Cuda::new(0)?;
    // The limit is a third of the arrays' bytes.
    gpu.set_limit(4 << 20).unwrap();
    let make = |value| Placed::new(Array::full(&gpu, LEN, value)?);
    let mut arrays = Vec::new();
    for value in 0..ARRAYS {
        arrays.push(make(value)?);
    }
    for round in 0..ROUNDS {
        for (place, array) in arrays.iter_mut().enumerate() {
            let value = ARRAYS * round + place as u32;
            let values = array.to_vec()?;
            ensure(values.iter().all(|&found| found == value), || format!("round {round}, array {place}: {values:?}"))?;
            array.fetch_mut()?.copy_from_slice(&vec![value + ARRAYS; LEN])?;
        }
    }
    let stats = gpu.stats().offload;
    let is_pinned = std::env::var("MADEUP_PINNED").map_or(true, |text| text != "0");
    ensure(stats.evictions > 20, || format!("{stats}"))?;
    ensure(stats.pageable_bytes == if is_pinned { 0 } else { stats.host_bytes }, || format!("{stats}"))?;
    // Nothing else runs beside the copies.
    let is_timed = !stats.copying.is_zero() && !stats.waited.is_zero();
    ensure(is_timed, || format!("waited {:?} for {:?}", stats.waited, stats.copying))?;
    drop(arrays);
    let left = gpu.stats().offload;
    ensure(left.host_bytes > 0 && left.pageable_bytes == if is_pinned { 0 } else { left.host_bytes }, || {
        format!("{left}")
    })?;
    gpu.trim();
    ensure(gpu.stats().offload.host_bytes == 0, || format!("{}", gpu.stats().offload))?;
    Ok(Report::default().number("evictions", stats.evictions).number("pageable_bytes", stats.pageable_bytes))
}
