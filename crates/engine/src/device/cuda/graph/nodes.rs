//! The nodes of a captured graph, and the addresses in their parameters.
//!
//! Invariant: a [`GraphNode`] has the handle and the parameters of a node of a graph that is alive.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

use cudarc::driver::{DriverError, sys};

use super::calls::{Calls, FillParams, KernelParams, answer};
use crate::base::error::{Error, Result};
use crate::device::stream::capture::{Word, uncapturable};

/// The kinds of nodes, as the driver numbers them.
const KERNEL: u32 = 0;
const COPY: u32 = 1;
const FILL: u32 = 2;
const EMPTY: u32 = 5;
const ALLOCATION: u32 = 10;
const FREE: u32 = 11;
/// A function of the host. It may own data that it frees, so it must not run twice.
const HOST: u32 = 3;

pub(super) struct GraphNode {
    pub(super) handle: sys::CUgraphNode,
    pub(super) work: NodeWork,
}

pub(super) enum NodeWork {
    Kernel(Kernel),
    Copy(Box<sys::CUDA_MEMCPY3D>),
    Fill(FillParams),
    /// A node without parameters.
    Empty,
    /// A node of another kind, with parameters that are unknown here.
    Opaque,
}

/// A kernel's parameters, with the arguments in memory of this value.
pub(super) struct Kernel {
    params: KernelParams,
    /// The bytes of all arguments, as the kernel lays them out.
    bytes: Box<[u64]>,
    /// The offset and the size of each argument in bytes.
    places: Box<[(usize, usize)]>,
}

/// Whether a copy has an address of the device, or one that the driver looks up itself. Others are pointers of the host, which may be
/// gone at a later launch.
fn is_on_device(kind: sys::CUmemorytype) -> bool {
    matches!(kind, sys::CUmemorytype::CU_MEMORYTYPE_DEVICE | sys::CUmemorytype::CU_MEMORYTYPE_UNIFIED)
}

/// All nodes of a graph, in the order in which they were captured. `fail` makes the error for an answer of the driver.
///
/// # Safety
/// The graph is alive, and its context is current.
pub(super) unsafe fn read(
    calls: &Calls,
    graph: sys::CUgraph,
    fail: &dyn Fn(DriverError) -> Error,
) -> Result<Vec<GraphNode>> {
    let (mut count, mut handles) = (0, Vec::new());
    // SAFETY: the graph is alive, and `count` is writable. Without a place for nodes, the driver returns their number. Then `handles` has
    // room for as many.
    unsafe {
        answer((calls.nodes)(graph, null_mut(), &raw mut count)).map_err(fail)?;
        handles.resize(count, null_mut());
        answer((calls.nodes)(graph, handles.as_mut_ptr(), &raw mut count)).map_err(fail)?;
    }
    handles.truncate(count);
    // SAFETY: these are nodes of a graph that is alive.
    handles.into_iter().map(|handle| unsafe { GraphNode::of(calls, handle, fail) }).collect()
}

impl GraphNode {
    /// # Safety
    /// The node is one of a graph that is alive.
    unsafe fn of(calls: &Calls, handle: sys::CUgraphNode, fail: &dyn Fn(DriverError) -> Error) -> Result<GraphNode> {
        let mut kind = 0;
        // SAFETY: the node is alive, and `kind` is writable.
        answer(unsafe { (calls.node_type)(handle, &raw mut kind) }).map_err(fail)?;
        let work = match kind {
            // SAFETY: the node is a kernel's.
            KERNEL => unsafe { Kernel::of(calls, handle, fail) }?.map_or(NodeWork::Opaque, NodeWork::Kernel),
            COPY => {
                let mut params = Box::<sys::CUDA_MEMCPY3D>::new_uninit();
                // SAFETY: the node is a copy's, and `params` is writable.
                answer(unsafe { (calls.copy)(handle, params.as_mut_ptr()) }).map_err(fail)?;
                // SAFETY: the driver has written all parameters of the copy.
                let params = unsafe { params.assume_init() };
                if !is_on_device(params.srcMemoryType) || !is_on_device(params.dstMemoryType) {
                    return Err(uncapturable("the work copies from or to memory of the host"));
                }
                NodeWork::Copy(params)
            }
            FILL => {
                let mut params = FillParams::default();
                // SAFETY: the node is a fill's, and `params` is writable.
                answer(unsafe { (calls.fill)(handle, &raw mut params) }).map_err(fail)?;
                NodeWork::Fill(params)
            }
            EMPTY => NodeWork::Empty,
            ALLOCATION | FREE => return Err(uncapturable("the work allocates from the driver")),
            HOST => return Err(uncapturable("the work calls a function of the host")),
            _ => NodeWork::Opaque,
        };
        Ok(GraphNode { handle, work })
    }

    /// The values that are addresses, or may be.
    pub(super) fn words(&self) -> Vec<Word> {
        // How much a copy or fill uses is not looked at: arrays that the block drops keep their memory until the capture ends.
        let address = |value, is_written| Word::address(value, 0, is_written);
        match &self.work {
            NodeWork::Kernel(kernel) => kernel.words().collect(),
            NodeWork::Copy(copy) => vec![address(copy.srcDevice, false), address(copy.dstDevice, true)],
            NodeWork::Fill(fill) => vec![address(fill.to, true)],
            NodeWork::Empty | NodeWork::Opaque => Vec::new(),
        }
    }

    /// Says what has the word with this number among [`words`](GraphNode::words), for a message.
    pub(super) fn word_name(&self, calls: &Calls, number: usize) -> String {
        match (&self.work, number) {
            (NodeWork::Kernel(kernel), _) => kernel.word_name(calls, number),
            (NodeWork::Copy(_), 0) => String::from("the source of a copy"),
            (NodeWork::Copy(_), _) => String::from("the destination of a copy"),
            (NodeWork::Fill(_) | NodeWork::Empty | NodeWork::Opaque, _) => String::from("the destination of a fill"),
        }
    }

    /// Replaces the word with this number among [`words`](GraphNode::words).
    pub(super) fn set_word(&mut self, number: usize, value: u64) {
        match (&mut self.work, number) {
            (NodeWork::Kernel(kernel), _) => kernel.set_word(number, value),
            (NodeWork::Copy(copy), 0) => copy.srcDevice = value,
            (NodeWork::Copy(copy), _) => copy.dstDevice = value,
            (NodeWork::Fill(fill), _) => fill.to = value,
            (NodeWork::Empty | NodeWork::Opaque, _) => {}
        }
    }

    /// Whether the two nodes have the same kind, and as many words.
    pub(super) fn is_like(&self, other: &GraphNode) -> bool {
        std::mem::discriminant(&self.work) == std::mem::discriminant(&other.work)
            && self.words().len() == other.words().len()
    }

    /// Gives the node of an executable the parameters of this one.
    ///
    /// # Safety
    /// The executable was made of this node's graph, and the context is that of both.
    pub(super) unsafe fn apply(
        &mut self,
        calls: &Calls,
        executable: sys::CUgraphExec,
        context: sys::CUcontext,
    ) -> Result<(), DriverError> {
        let node = self.handle;
        // SAFETY: the executable and the node belong together. The parameters are those that the driver returned for this node, with
        // other addresses.
        answer(unsafe {
            match &mut self.work {
                NodeWork::Kernel(kernel) => return kernel.apply(calls, executable, node),
                NodeWork::Copy(copy) => (calls.set_copy)(executable, node, &raw const **copy, context),
                NodeWork::Fill(fill) => (calls.set_fill)(executable, node, &raw const *fill, context),
                NodeWork::Empty | NodeWork::Opaque => return Ok(()),
            }
        })
    }
}

impl Kernel {
    /// `None` if the kernel's arguments cannot be read.
    ///
    /// # Safety
    /// The node is a kernel's, in a graph that is alive.
    unsafe fn of(
        calls: &Calls,
        handle: sys::CUgraphNode,
        fail: &dyn Fn(DriverError) -> Error,
    ) -> Result<Option<Kernel>> {
        let mut params = MaybeUninit::<KernelParams>::zeroed();
        // SAFETY: the node is a kernel's, and `params` is writable. Zeros are valid wherever the driver writes nothing.
        let params = unsafe {
            answer((calls.kernel)(handle, params.as_mut_ptr())).map_err(fail)?;
            params.assume_init()
        };
        if params.function.is_null() || !params.extra.is_null() {
            return Ok(None);
        }
        let mut places = Vec::new();
        loop {
            let (mut offset, mut size) = (0, 0);
            // SAFETY: the function is a kernel's, and both places are writable.
            let found = unsafe { (calls.argument)(params.function, places.len(), &raw mut offset, &raw mut size) };
            if answer(found).is_err() {
                break;
            }
            places.push((offset, size));
        }
        let end = places.iter().map(|(offset, size)| offset + size).max().unwrap_or(0);
        if end > 0 && params.arguments.is_null() {
            return Ok(None);
        }
        let mut bytes = vec![0u64; end.div_ceil(8)].into_boxed_slice();
        for (number, &(offset, size)) in places.iter().enumerate() {
            // SAFETY: the driver's array has the place of each argument, and there the argument's bytes, as long as the graph lives. In
            // `bytes` there is room for them, since `end` is the end of the last argument.
            unsafe {
                let from = (*params.arguments.add(number)).cast::<u8>();
                from.copy_to_nonoverlapping(bytes.as_mut_ptr().cast::<u8>().add(offset), size);
            }
        }
        Ok(Some(Kernel { params, bytes, places: places.into() }))
    }

    /// The places of whole aligned words within the arguments, as numbers of words.
    fn word_places(&self) -> impl Iterator<Item = usize> {
        self.places.iter().flat_map(|&(offset, size)| offset.div_ceil(8)..(offset + size) / 8)
    }

    fn words(&self) -> impl Iterator<Item = Word> {
        self.word_places().map(|place| Word { is_address: false, ..Word::address(self.bytes[place], 0, false) })
    }

    /// The number of the argument that has this word, from 1, and the kernel's name.
    fn word_name(&self, calls: &Calls, number: usize) -> String {
        let offset = self.word_places().nth(number).unwrap_or(0) * 8;
        let argument = self.places.iter().filter(|(start, _)| *start <= offset).count();
        let mut name = null();
        // SAFETY: the function is a kernel's, since its arguments were read, and `name` is writable. The driver's text ends with a zero, and
        // lives as long as the kernel's module, which the graph keeps.
        let name = unsafe {
            let is_named = answer((calls.name)(&raw mut name, self.params.function)).is_ok() && !name.is_null();
            is_named.then(|| CStr::from_ptr(name))
        };
        match name {
            Some(name) => format!("argument {argument} of the kernel `{}`", name.to_string_lossy()),
            None => format!("argument {argument} of a kernel"),
        }
    }

    fn set_word(&mut self, number: usize, value: u64) {
        let place = self.word_places().nth(number);
        if let Some(place) = place {
            self.bytes[place] = value;
        }
    }

    /// # Safety
    /// As for [`GraphNode::apply`].
    unsafe fn apply(
        &mut self,
        calls: &Calls,
        executable: sys::CUgraphExec,
        node: sys::CUgraphNode,
    ) -> Result<(), DriverError> {
        let start = self.bytes.as_mut_ptr().cast::<u8>();
        // Kernels have few arguments, so most lists need no memory of the heap.
        let mut arguments: smallvec::SmallVec<[*mut c_void; 16]> =
            self.places.iter().map(|&(offset, _)| start.wrapping_add(offset).cast()).collect();
        let params = KernelParams { arguments: arguments.as_mut_ptr(), ..self.params };
        // SAFETY: the executable and the node belong together by the caller's promise. Each argument lies in `bytes`, which outlives the
        // call. The driver copies the arguments before it returns.
        answer(unsafe { (calls.set_kernel)(executable, node, &raw const params) })
    }
}
