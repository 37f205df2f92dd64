//! What NVML says about a device. The driver's `cuMemGetInfo` would not do: gpucache counts there as free what it would give back.

use nvml_wrapper::Nvml;

/// Bytes of the device that are in use, by any process.
pub(crate) fn used_bytes(device: usize) -> Option<u64> {
    // The name that comes with the driver; the one without a number comes with a toolkit.
    let nvml = Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().ok()?;
    let device = nvml.device_by_index(u32::try_from(device).ok()?).ok()?;
    Some(device.memory_info().ok()?.used)
}
