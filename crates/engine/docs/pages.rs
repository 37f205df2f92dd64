// Pages of a device that has a capacity and no memory: nobody follows its addresses.
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use gpucache::device::backend::VirtualMemory;
use gpucache::{Error, Result};

/// The pieces that are mapped: their addresses and bytes.
#[derive(Debug, Default)]
pub struct Pages(Mutex<BTreeMap<u64, u64>>);

const CAPACITY: u64 = 1 << 20;

impl Pages {
    pub fn mapped(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().sum()
    }
}

// SAFETY: the addresses are numbers that nobody follows, so that no memory need be behind them.
unsafe impl VirtualMemory for Pages {
    fn granularity(&self) -> u64 {
        4096
    }

    fn capacity(&self) -> Option<u64> {
        Some(CAPACITY)
    }

    fn reserve(&self) -> Result<(u64, u64)> {
        Ok((1 << 40, 1 << 40)) // where they begin, and how many there are
    }

    fn map(&self, address: u64, bytes: u64) -> Result<()> {
        let mapped = self.mapped();
        if mapped + bytes > CAPACITY {
            return Err(Error::out_of_memory("pages", bytes as usize, format_args!("{mapped} bytes are mapped")));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(address, bytes);
        Ok(())
    }

    unsafe fn unmap(&self, address: u64, _bytes: u64) -> Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
        Ok(())
    }
}
