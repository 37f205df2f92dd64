//! Memory use of a device from NVML. The driver's `cuMemGetInfo` does not work here: gpucache makes it count idle memory as free.

use nvml_wrapper::Nvml;

/// Bytes of the device that are in use, by any process.
pub(crate) fn used_bytes(device: usize) -> Option<u64> {
    // This library comes with the driver; the one without a version number comes with a toolkit.
    let nvml = Nvml::builder().lib_path("libnvidia-ml.so.1".as_ref()).init().ok()?;
    let device = nvml.device_by_index(u32::try_from(device).ok()?).ok()?;
    Some(device.memory_info().ok()?.used)
}
