//! Devices as the player uses them, with arrays that know their contents.

use gpucache::device::{Device, Host, Virtual};
use gpucache::{Array, Result};

use crate::Faulty;
use crate::alike::are_all;
use crate::paged::Paged;

/// A device whose arrays can be marked, if it has contents.
pub trait Checked: Device {
    /// Whether [`Device::memory`] counts only this handle's device.
    const TELLS_ALL: bool;

    /// Whether an allocation may succeed although filling it fails.
    const FAILS: bool = false;

    /// An array of `bytes` bytes, all with the value `mark`.
    ///
    /// # Errors
    /// As for [`Array::full`].
    fn make(&self, bytes: usize, mark: u8) -> Result<Array<u8, Self>> {
        Array::full(self, bytes, mark)
    }

    /// # Panics
    /// If the array contains anything but its mark.
    fn check(array: &Array<u8, Self>, mark: u8);

    /// The address and the end of the array, if they are known.
    fn place(array: &Array<u8, Self>) -> Option<(u64, u64)>;
}

/// Compares as fast as a debug build can.
fn assert_all(bytes: &[u8], mark: u8) {
    assert!(are_all(bytes, mark), "an array of {} bytes with the mark {mark} contains something else", bytes.len());
}

impl Checked for Host {
    const TELLS_ALL: bool = false;

    fn check(array: &Array<u8, Host>, mark: u8) {
        assert_all(array, mark);
    }

    fn place(array: &Array<u8, Host>) -> Option<(u64, u64)> {
        let address = array.as_ptr().addr() as u64;
        Some((address, address + array.len() as u64))
    }
}

impl Checked for Virtual {
    const TELLS_ALL: bool = true;

    fn check(_: &Array<u8, Virtual>, _: u8) {}

    fn place(_: &Array<u8, Virtual>) -> Option<(u64, u64)> {
        None
    }
}

impl Checked for Faulty {
    const TELLS_ALL: bool = true;
    const FAILS: bool = true;

    fn check(array: &Array<u8, Faulty>, mark: u8) {
        // A read may be made to fail, like any call.
        if let Ok(bytes) = array.to_vec() {
            assert_all(&bytes, mark);
        }
    }

    fn place(_: &Array<u8, Faulty>) -> Option<(u64, u64)> {
        None
    }
}

impl Checked for Paged {
    const TELLS_ALL: bool = true;

    fn check(array: &Array<u8, Paged>, mark: u8) {
        assert_all(&array.to_vec().expect("a paged device copies"), mark);
    }

    fn place(_: &Array<u8, Paged>) -> Option<(u64, u64)> {
        None
    }
}
