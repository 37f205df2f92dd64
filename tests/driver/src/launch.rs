//! The launch of a kernel as a value: the kernel, its shape, and the bytes of its arguments. Running, capturing and patching launches
//! all use it.

use std::ffi::{c_uint, c_void};
use std::sync::Arc;
use std::time::Duration;

use crate::answer::{Answer, Status};
use crate::kernels::Kernel;
use crate::raw;
use crate::uses::Use;

/// The extent of a launch. The kernels here do not look at it. The order of its parts is CUDA's.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared: c_uint,
}

/// The bytes of arguments, laid out as in C, and the address of each argument in them. Neither changes, so programs may be given
/// these addresses while the value lives.
struct Arguments {
    bytes: Box<[u64]>,
    places: Box<[usize]>,
}

#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: Kernel,
    pub(crate) shape: Shape,
    arguments: Arc<Arguments>,
}

impl Launch {
    /// # Safety
    /// `places` is null, or has the places of the kernel's arguments, each valid for a read of that argument.
    pub(crate) unsafe fn read(kernel: Kernel, shape: Shape, places: *const *const c_void) -> Answer<Launch> {
        let is_empty = shape.grid.iter().chain(&shape.block).any(|extent| *extent == 0);
        if places.is_null() || is_empty {
            return Err(Status::INVALID_VALUE);
        }
        let layout = kernel.layout();
        let length = layout.last().map_or(0, |(offset, size)| offset + size);
        let mut bytes = vec![0u64; length.div_ceil(8)].into_boxed_slice();
        let start = bytes.as_mut_ptr().cast::<u8>();
        for (number, &(offset, size)) in layout.iter().enumerate() {
            // SAFETY: by this function's contract there is such a place, and it is valid for a read of `size` bytes. The new box has
            // room for each argument of the layout.
            unsafe { start.add(offset).copy_from_nonoverlapping((*places.add(number)).cast::<u8>(), size) };
        }
        let places = layout.iter().map(|(offset, _)| start as usize + offset).collect();
        Ok(Launch { kernel, shape, arguments: Arc::new(Arguments { bytes, places }) })
    }

    /// The addresses of the arguments, which belong to this value.
    pub(crate) fn places(&self) -> *const usize {
        self.arguments.places.as_ptr()
    }

    /// An argument of 64 or of 32 bits.
    fn get(&self, which: usize) -> u64 {
        let (offset, size) = self.kernel.layout()[which];
        let word = self.arguments.bytes[offset / 8].to_ne_bytes();
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(&word[offset % 8..offset % 8 + size]);
        u64::from_le_bytes(bytes)
    }

    /// The address that the kernel writes, the address that it reads (if any), the value, and the number of elements.
    fn of_elements(&self) -> Option<(u64, Option<u64>, u32, usize)> {
        match self.kernel {
            Kernel::Hold => None,
            Kernel::Fill => Some((self.get(0), None, self.get(1) as u32, self.get(2) as usize)),
            Kernel::Add => Some((self.get(0), Some(self.get(1)), self.get(2) as u32, self.get(3) as usize)),
        }
    }

    pub(crate) fn uses(&self) -> Vec<Use> {
        let Some((to, from, _, len)) = self.of_elements() else { return Vec::new() };
        from.into_iter().chain([to]).map(|address| Use::of(address, 4 * len)).collect()
    }

    /// # Safety
    /// There is memory for the elements at the addresses in the arguments. It does not go meanwhile.
    pub(crate) unsafe fn run(&self) {
        let nanoseconds = self.get(self.kernel.layout().len() - 1);
        if nanoseconds > 0 {
            std::thread::sleep(Duration::from_nanos(nanoseconds));
        }
        match self.of_elements() {
            None => {}
            // SAFETY: there is memory for the elements by this function's contract.
            Some((to, None, value, len)) => unsafe { raw::fill(to, &value.to_ne_bytes(), 4 * len) },
            // SAFETY: there is memory for the elements at both addresses by this function's contract.
            Some((to, Some(from), value, len)) => unsafe { raw::add(from, to, value, len) },
        }
    }
}
