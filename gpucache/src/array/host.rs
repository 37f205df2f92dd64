//! Arrays in the machine's own memory are slices.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::ptr::with_exposed_provenance_mut;
use std::slice::{from_raw_parts, from_raw_parts_mut};

use super::{Array, Element};
use crate::device::Host;

impl<T: Element> Array<T, Host> {
    #[inline]
    fn pointer(&self) -> *mut T {
        match self.block.address() {
            // No bytes, no memory: any aligned pointer will do.
            0 => std::ptr::dangling_mut(),
            address => with_exposed_provenance_mut(address as usize),
        }
    }
}

impl<T: Element> Deref for Array<T, Host> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the block is memory of the process, aligned to 256 bytes (`Element`s align to less), with room for
        // `len` elements that were written (the contract of `uninit`) and are shared for as long as `self` is.
        unsafe { from_raw_parts(self.pointer(), self.len()) }
    }
}

impl<T: Element> DerefMut for Array<T, Host> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; `self` is borrowed exclusively, and so is its block.
        unsafe { from_raw_parts_mut(self.pointer(), self.len()) }
    }
}
