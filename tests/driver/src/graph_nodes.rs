//! The parameters of nodes: read from a graph, and set in an executable.

use std::ffi::{c_uint, c_void};

use crate::answer::{Answer, Out, Status, answer};
use crate::context::CONTEXT;
use crate::kernels::Kernel;
use crate::launch::{Launch, Shape};
use crate::work::{Copying, Fill, Memory, Work};
use crate::{executable, graph, pointers};

/// `CUDA_KERNEL_NODE_PARAMS_v2`.
#[repr(C)]
pub(crate) struct KernelParameters {
    pub(crate) function: usize,
    pub(crate) shape: Shape,
    pub(crate) arguments: *const *const c_void,
    pub(crate) extra: *const *const c_void,
    pub(crate) kernel: usize,
    pub(crate) context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FillParameters {
    pub(crate) address: u64,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element: c_uint,
    pub(crate) width: usize,
    pub(crate) rows: usize,
}

/// One side of a copy.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Side {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) memory: c_uint,
    pub(crate) host: u64,
    pub(crate) device: u64,
    pub(crate) array: usize,
    pub(crate) reserved: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct CopyParameters {
    pub(crate) from: Side,
    pub(crate) to: Side,
    pub(crate) bytes: usize,
    pub(crate) rows: usize,
    pub(crate) layers: usize,
}

impl Side {
    fn of(address: u64, memory: Memory) -> Side {
        let side = Side { memory: memory as c_uint, ..Side::default() };
        match memory {
            Memory::Host => Side { host: address, ..side },
            Memory::Device | Memory::Unified => Side { device: address, ..side },
        }
    }

    /// The address, and which memory is there. Refuses memory of another kind.
    fn place(&self) -> Answer<(u64, Memory)> {
        let offset = self.x as u64;
        let (address, memory) = match self.memory {
            1 => (self.host + offset, Memory::Host),
            2 => (self.device + offset, Memory::Device),
            4 => (self.device + offset, Memory::Unified),
            _ => return Err(Status::INVALID_VALUE),
        };
        let is_there = memory == Memory::Host || pointers::is_late(address);
        if is_there { Ok((address, memory)) } else { Err(Status::INVALID_VALUE) }
    }
}

/// The parameters that a caller gives.
///
/// # Safety
/// `parameters` is null, or valid for a read.
unsafe fn given<'a, T>(parameters: *const T) -> Answer<&'a T> {
    // SAFETY: by this function's contract it is null or may be read.
    unsafe { parameters.as_ref() }.ok_or(Status::INVALID_VALUE)
}

/// Sets the work of a node that `executable` has from its graph.
fn set(executable: usize, node: usize, work: Work) -> Answer {
    let (executable, (graph, number)) = (executable::find(executable)?, graph::node(node)?);
    if executable.graph != graph.handle {
        return Err(Status::INVALID_VALUE);
    }
    executable.set(number, work)
}

/// The arguments stay valid while the graph lives.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphKernelNodeGetParams_v2(node: usize, parameters: Out<KernelParameters>) -> Status {
    answer("cuGraphKernelNodeGetParams_v2", || {
        let (graph, number) = graph::node(node)?;
        let Work::Kernel(launch) = &graph.nodes[number].work else { return Err(Status::INVALID_VALUE) };
        parameters.put(KernelParameters {
            function: launch.kernel.handle(),
            shape: launch.shape,
            arguments: launch.places().cast(),
            extra: std::ptr::null(),
            kernel: 0,
            context: CONTEXT,
        })
    })
}

/// # Safety
/// `parameters` is null or valid, with the places of the kernel's arguments.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphExecKernelNodeSetParams_v2(
    executable: usize,
    node: usize,
    parameters: *const KernelParameters,
) -> Status {
    answer("cuGraphExecKernelNodeSetParams_v2", || {
        // SAFETY: the caller promises that they are null or valid.
        let given = unsafe { given(parameters) }?;
        // SAFETY: the caller promises that these are the places of the kernel's arguments.
        let launch = unsafe { Launch::read(Kernel::find(given.function)?, given.shape, given.arguments) }?;
        set(executable, node, Work::Kernel(launch))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphMemsetNodeGetParams(node: usize, parameters: Out<FillParameters>) -> Status {
    answer("cuGraphMemsetNodeGetParams", || {
        let (graph, number) = graph::node(node)?;
        let Work::Fill(fill) = graph.nodes[number].work else { return Err(Status::INVALID_VALUE) };
        let Fill { address, pitch, value, element, width, rows } = fill;
        parameters.put(FillParameters { address, pitch, value, element, width, rows })
    })
}

/// # Safety
/// `parameters` is null or valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphExecMemsetNodeSetParams(
    executable: usize,
    node: usize,
    parameters: *const FillParameters,
    _context: usize,
) -> Status {
    answer("cuGraphExecMemsetNodeSetParams", || {
        // SAFETY: the caller promises that they are null or may be read.
        let FillParameters { address, pitch, value, element, width, rows } = *unsafe { given(parameters) }?;
        let fill = Fill { address, pitch, value, element, width, rows };
        if !matches!(element, 1 | 2 | 4) || fill.bytes() == 0 || !pointers::is_late(address) {
            return Err(Status::INVALID_VALUE);
        }
        set(executable, node, Work::Fill(fill))
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGraphMemcpyNodeGetParams(node: usize, parameters: Out<CopyParameters>) -> Status {
    answer("cuGraphMemcpyNodeGetParams", || {
        let (graph, number) = graph::node(node)?;
        let Work::Copy(Copying { to, from, bytes, kinds }) = graph.nodes[number].work else {
            return Err(Status::INVALID_VALUE);
        };
        let (from, to) = (Side::of(from, kinds.0), Side::of(to, kinds.1));
        parameters.put(CopyParameters { from, to, bytes, rows: 1, layers: 1 })
    })
}

/// # Safety
/// `parameters` is null or valid.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn cuGraphExecMemcpyNodeSetParams(
    executable: usize,
    node: usize,
    parameters: *const CopyParameters,
    _context: usize,
) -> Status {
    answer("cuGraphExecMemcpyNodeSetParams", || {
        // SAFETY: the caller promises that they are null or can be read.
        let given = unsafe { given(parameters) }?;
        if given.bytes == 0 || given.rows != 1 || given.layers != 1 {
            return Err(Status::INVALID_VALUE);
        }
        let ((from, of_from), (to, of_to)) = (given.from.place()?, given.to.place()?);
        set(executable, node, Work::Copy(Copying { to, from, bytes: given.bytes, kinds: (of_from, of_to) }))
    })
}
