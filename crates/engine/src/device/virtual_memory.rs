//! Virtual memory of a device: addresses are reserved first, and pages are mapped behind them later, in pieces.
#![allow(unsafe_code)]

use std::fmt;

use crate::base::error::{Error, Result};

/// Virtual memory of a device: addresses are reserved first, and pages are mapped behind them later.
///
/// All sizes and addresses are multiples of the granularity. Every stream of the device can use mapped memory at once.
///
/// A piece is the memory that one `map`, or one element of a `map_pieces`, mapped. A piece is unmapped as a whole. Pieces that lie side by
/// side may be unmapped together, even if different calls mapped them.
///
/// A device implements [`map`](VirtualMemory::map) and [`unmap`](VirtualMemory::unmap). If it has calls for several pieces at once, it
/// implements [`map_pieces`](VirtualMemory::map_pieces) and [`unmap_pieces`](VirtualMemory::unmap_pieces) instead. The default methods of
/// each pair call the other pair.
///
/// # Safety
/// The reserved addresses must be used for nothing else while the process lives. Pieces that `map` or `map_pieces` reports as mapped must
/// be readable and writable from its return until `unmap` or `unmap_pieces` is called for them. Pieces that an error reports as mapped must
/// be unchanged.
#[doc = "\n# Example\n```"]
#[doc = include_str!("../../docs/pages.rs")]
#[doc = "\nlet memory = gpucache::device::backend::Memory::with_pages(Pages::default());\n```"]
pub unsafe trait VirtualMemory: fmt::Debug + Send + Sync + 'static {
    /// The unit of mapping in bytes. It never changes and is a power of two of at least 256.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// assert!(Pages::default().granularity().is_power_of_two());
    /// ```
    fn granularity(&self) -> u64;

    /// The memory of the device in bytes, for this process and all others. If it is known, large blocks take few pieces; otherwise pieces
    /// are short.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// assert_eq!(Pages::default().capacity(), Some(1 << 20));
    /// ```
    fn capacity(&self) -> Option<u64> {
        None
    }

    /// The device's free memory in bytes, for this process and all others, if the device reports it. It is asked when an allocation found
    /// no memory, for the text of the error.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// assert_eq!(Pages::default().available(), None);
    /// ```
    fn available(&self) -> Option<u64> {
        None
    }

    /// Reserves addresses without memory. It is called once, and returns the first address and the number of bytes.
    ///
    /// # Errors
    /// An error of the device. Memory is then taken from its streams in chunks.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// let (address, bytes) = Pages::default().reserve()?;
    /// assert_eq!((address, bytes), (1 << 40, 1 << 40));
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn reserve(&self) -> Result<(u64, u64)>;

    /// Maps memory behind `bytes` reserved addresses that have none.
    ///
    /// # Errors
    /// [`Error::out_of_memory`](crate::Error::out_of_memory) if no memory is left. Nothing is mapped then.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// let pages = Pages::default();
    /// let (address, _) = pages.reserve()?;
    /// pages.map(address, 8192)?;
    /// assert_eq!(pages.mapped(), 8192);
    /// assert!(pages.map(address + 8192, 1 << 20).unwrap_err().is_out_of_memory());
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn map(&self, address: u64, bytes: u64) -> Result<()> {
        self.map_pieces(address, &[bytes]).map_err(|unfinished| unfinished.error)
    }

    /// Unmaps the memory of one piece.
    ///
    /// # Errors
    /// An error of the device. The memory is then still mapped.
    ///
    /// # Safety
    /// This piece is mapped, and no work uses the memory any more.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// let pages = Pages::default();
    /// let (address, _) = pages.reserve()?;
    /// pages.map(address, 8192)?;
    /// // SAFETY: the piece was mapped just now, and nothing uses it.
    /// unsafe { pages.unmap(address, 8192)? };
    /// assert_eq!(pages.mapped(), 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
        // SAFETY: `unmap_pieces` requires of each piece that it is mapped and that no work uses it. The caller promises both of this piece.
        unsafe { self.unmap_pieces(address, &[bytes]) }.map_err(|unfinished| unfinished.error)
    }

    /// Maps memory behind reserved addresses that have none: pieces of these sizes, the first at `address` and each other one right behind
    /// the one before it. Either all of them are mapped or none.
    ///
    /// By default it maps one piece at a time with [`map`](VirtualMemory::map). A device may do the same with fewer calls.
    ///
    /// # Errors
    /// As for `map`. Nothing is mapped then, unless the device refused to unmap a piece again: the first pieces, up to that one, stay
    /// mapped.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// let pages = Pages::default();
    /// let (address, _) = pages.reserve()?;
    /// assert!(pages.map_pieces(address, &[4096, 8192]).is_ok());
    /// let unfinished = pages.map_pieces(address + 12288, &[4096, 1 << 20]).unwrap_err();
    /// assert_eq!((unfinished.mapped, pages.mapped()), (0, 12288)); // all or none
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let mut end = address;
        for (done, &bytes) in pieces.iter().enumerate() {
            if let Err(error) = self.map(end, bytes) {
                // SAFETY: `map` mapped each of these pieces just now. Nobody else knows of them yet, so no work uses them.
                let undone = unsafe { self.unmap_pieces(address, &pieces[..done]) };
                return Err(Unfinished { mapped: undone.err().map_or(0, |left| left.mapped), error });
            }
            end += bytes;
        }
        Ok(())
    }

    /// Notes that work of other devices uses this memory, and work of this device theirs. Returns whether other devices were noted before.
    #[doc(hidden)]
    fn share(&self) -> bool {
        false
    }

    /// Lets the devices that share memory by now use what is mapped at `address`.
    ///
    /// # Errors
    /// A failure of the device.
    #[doc(hidden)]
    fn renew_access(&self, _address: u64, _bytes: u64) -> Result<()> {
        Ok(())
    }

    /// Unmaps the memory of pieces that lie side by side, the first at `address`.
    ///
    /// By default it unmaps one piece at a time with [`unmap`](VirtualMemory::unmap), the last piece first. A device may do the same with
    /// fewer calls.
    ///
    /// # Errors
    /// An error of the device. The first pieces, up to the one that the device refused to unmap, are then still mapped.
    ///
    /// # Safety
    /// Each of these pieces is mapped, and no work uses the memory of any of them any more.
    ///
    /// ```
    /// # mod pages { include!(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/pages.rs")); }
    /// use {gpucache::device::backend::VirtualMemory, pages::Pages}; // as in the example of the trait
    ///
    /// let pages = Pages::default();
    /// let (address, _) = pages.reserve()?;
    /// assert!(pages.map_pieces(address, &[4096, 8192]).is_ok());
    /// // SAFETY: the pieces were mapped just now, and nothing uses them.
    /// let unmapped = unsafe { pages.unmap_pieces(address, &[4096, 8192]) };
    /// assert!(unmapped.is_ok() && pages.mapped() == 0);
    /// # Ok::<(), gpucache::Error>(())
    /// ```
    unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        let mut at = address + pieces.iter().sum::<u64>();
        for (before, &bytes) in pieces.iter().enumerate().rev() {
            at -= bytes;
            // SAFETY: this is one of the caller's pieces. The caller promises that they are mapped and that no work uses them, and the loop
            // unmaps each once.
            unsafe { self.unmap(at, bytes) }.map_err(|error| Unfinished { mapped: before + 1, error })?;
        }
        Ok(())
    }
}

/// The reason why a call for several pieces of memory ended early, and how many pieces are mapped now.
///
/// ```
/// use gpucache::device::backend::Unfinished;
///
/// let error = gpucache::Error::device_failure("pages", "mapping", "the second of three was refused");
/// let unfinished = Unfinished::new(1, error);
/// assert!(unfinished.error.is_device_failure());
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Unfinished<E = Error> {
    /// The first `mapped` of the pieces have memory behind them, the others have none.
    pub mapped: usize,
    /// An error of the device.
    pub error: E,
}

impl<E> Unfinished<E> {
    /// For an implementation of [`VirtualMemory`]: the call failed with `error`, and the first `mapped` pieces have memory.
    ///
    /// ```
    /// use gpucache::device::backend::Unfinished;
    ///
    /// let error = gpucache::Error::out_of_memory("pages", 4096, "two of three are mapped");
    /// assert_eq!(Unfinished::new(2, error).mapped, 2);
    /// ```
    pub fn new(mapped: usize, error: E) -> Unfinished<E> {
        Unfinished { mapped, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::sync::Mutex;

    /// Pages that have calls for one piece only. The fields are the mapped pieces in order, the number of calls so far, and the calls that
    /// fail.
    #[derive(Debug)]
    struct Single(Mutex<(Vec<(u64, u64)>, usize)>, std::ops::Range<usize>);

    impl Single {
        fn failing(calls: std::ops::Range<usize>) -> Single {
            Single(Mutex::new((Vec::new(), 0)), calls)
        }

        fn call(&self, change: impl FnOnce(&mut Vec<(u64, u64)>)) -> Result<()> {
            let (mapped, calls) = &mut *self.0.lock().unwrap();
            *calls += 1;
            if self.1.contains(&(*calls - 1)) {
                return Err(Error::device_failure("single", "a call", "it was to fail"));
            }
            change(mapped);
            Ok(())
        }

        fn mapped(&self) -> Vec<(u64, u64)> {
            self.0.lock().unwrap().0.clone()
        }
    }

    // SAFETY: nobody dereferences the addresses.
    unsafe impl VirtualMemory for Single {
        fn granularity(&self) -> u64 {
            256
        }

        fn reserve(&self) -> Result<(u64, u64)> {
            Ok((256, 1 << 20))
        }

        fn map(&self, address: u64, bytes: u64) -> Result<()> {
            self.call(|mapped| mapped.push((address, bytes)))
        }

        unsafe fn unmap(&self, address: u64, bytes: u64) -> Result<()> {
            self.call(|mapped| mapped.retain(|&piece| piece != (address, bytes)))
        }
    }

    /// Pages that have calls for several pieces only.
    #[derive(Debug)]
    struct Stretches(Single);

    // SAFETY: nobody dereferences the addresses of the inner pages.
    unsafe impl VirtualMemory for Stretches {
        fn granularity(&self) -> u64 {
            self.0.granularity()
        }

        fn reserve(&self) -> Result<(u64, u64)> {
            self.0.reserve()
        }

        fn map_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
            self.0.map_pieces(address, pieces)
        }

        unsafe fn unmap_pieces(&self, address: u64, pieces: &[u64]) -> Result<(), Unfinished> {
            // SAFETY: the caller promises the same.
            unsafe { self.0.unmap_pieces(address, pieces) }
        }
    }

    const PIECES: [u64; 3] = [256, 512, 256];

    #[test]
    fn without_calls_for_one_piece_it_is_a_stretch_of_one() {
        let pages = Stretches(Single::failing(1..3));
        pages.map(1024, 256).unwrap();
        assert_eq!(pages.0.mapped(), [(1024, 256)]);
        assert!(pages.map(1280, 256).is_err());
        // SAFETY: this piece was mapped, and nothing uses it.
        let unmap = || unsafe { pages.unmap(1024, 256) };
        assert!(unmap().is_err());
        unmap().unwrap();
        assert_eq!(pages.0.mapped(), []);
    }

    #[test]
    fn without_calls_for_several_each_piece_is_mapped_and_unmapped() {
        let pages = Single::failing(0..0);
        pages.map_pieces(1024, &PIECES).unwrap();
        assert_eq!(pages.mapped(), [(1024, 256), (1280, 512), (1792, 256)]);
        // SAFETY: these pieces were mapped, and nothing uses them.
        unsafe { pages.unmap_pieces(1280, &PIECES[1..]) }.unwrap();
        assert_eq!(pages.mapped(), [(1024, 256)]);
    }

    #[test]
    fn what_fails_half_way_is_undone_as_far_as_the_device_lets() {
        let pages = Single::failing(2..3);
        assert_eq!(pages.map_pieces(1024, &PIECES).unwrap_err().mapped, 0);
        assert_eq!(pages.mapped(), []);
        // The third piece is not mapped, and the second cannot be unmapped.
        let pages = Single::failing(2..4);
        assert_eq!(pages.map_pieces(1024, &PIECES).unwrap_err().mapped, 2);
        assert_eq!(pages.mapped(), [(1024, 256), (1280, 512)]);
        // The last piece is unmapped, and the one before it cannot be.
        let pages = Single::failing(4..5);
        pages.map_pieces(1024, &PIECES).unwrap();
        // SAFETY: all three pieces were mapped just above, and nothing uses them.
        assert_eq!(unsafe { pages.unmap_pieces(1024, &PIECES) }.unwrap_err().mapped, 2);
        assert_eq!(pages.mapped(), [(1024, 256), (1280, 512)]);
    }
}
