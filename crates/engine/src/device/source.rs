//! A device's memory in pieces, as a range requests it: pages behind reserved addresses, or chunks from a stream's backend.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::backend::Backend;
use super::meter::Meter;
use super::stream::{Stream, capture::relaxed};
use super::virtual_memory::{Unfinished, VirtualMemory};
use crate::base::error::{Error, Result};

/// The unit of chunks. CUDA's large pages have this size, and CUDA's pools take memory from the device in such pages, so a chunk wastes no
/// part of a page.
const CHUNK_GRANULARITY: u64 = 2 << 20;

/// A device's memory in pieces.
///
/// If the device reserves a span of addresses, pieces are mapped within the span. Otherwise the device is asked for chunks. A device gets
/// calls of `map` or of `chunk`, never of both.
pub(crate) trait Pages {
    /// The reason why a call failed.
    type Error;

    /// The unit of mapping in bytes. Sizes and offsets of all calls are multiples of it. It never changes, is a multiple of 256, and is not
    /// 0.
    fn granularity(&self) -> u64;

    /// The memory of the whole device in bytes; 0 if unknown.
    fn capacity(&self) -> u64;

    /// The device's limit in bytes.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    /// The most bytes that can still be reserved, as far as known. Other programs may have taken them already.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Takes a chunk of `bytes`, which is one piece, at an address that the device chooses. Returns the address, which must be a multiple
    /// of 256.
    ///
    /// # Errors
    ///
    /// The error of the device. The call must then have taken nothing.
    fn chunk(&mut self, bytes: u64) -> Result<u64, Self::Error>;

    /// Maps memory at this offset of the reserved span: pieces of these sizes, one behind the other.
    ///
    /// # Errors
    ///
    /// The error of the device. It says how many of the first pieces are mapped; the others are not.
    fn map(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Self::Error>>;

    /// Returns pieces that lie side by side, the first at `offset`, or returns one chunk. No work uses them any more.
    ///
    /// # Errors
    ///
    /// The error of the device. It says how many of the first pieces are still mapped; the others are not.
    fn unmap(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Self::Error>>;
}

/// The memory of one device in pieces. It updates the counters of the device.
#[derive(Debug)]
pub(crate) struct Source {
    meter: Arc<Meter>,
    provider: Provider,
    /// The first failure of a call that could not return it.
    pub(crate) failure: Option<Error>,
}

/// The provider of the pieces.
#[derive(Debug)]
enum Provider {
    Span {
        pages: Arc<dyn VirtualMemory>,
        base: u64,
        bytes: u64,
    },
    /// Chunks come from the stream that last asked for memory.
    Chunks {
        stream: Arc<dyn Backend>,
    },
}

impl Source {
    /// The memory of the device of `stream`. It is a span if the device has pages and reserves addresses for them.
    pub(crate) fn of(stream: &Stream) -> Source {
        let memory = stream.memory();
        let span = memory.pages().and_then(|pages| Some((pages.clone(), pages.reserve().ok()?)));
        let provider = match span {
            Some((pages, (base, bytes))) => Provider::Span { pages, base, bytes },
            None => Provider::Chunks { stream: stream.shared_backend().clone() },
        };
        Source { meter: memory.meter().clone(), provider, failure: None }
    }

    /// Lets the devices that share memory by now use mapped pages of this one.
    pub(crate) fn renew_access(&self, offset: u64, bytes: u64) -> Result<()> {
        match &self.provider {
            Provider::Span { pages, base, .. } => pages.renew_access(base + offset, bytes),
            Provider::Chunks { .. } => Ok(()),
        }
    }

    /// The counters of the device.
    pub(crate) fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Takes chunks from the stream `with` from now on. Returns the previous backend if it was another one.
    pub(crate) fn serve(&mut self, with: &Stream) -> Option<Arc<dyn Backend>> {
        let backend = with.shared_backend();
        match &mut self.provider {
            Provider::Chunks { stream } if !Arc::ptr_eq(stream, backend) => {
                Some(std::mem::replace(stream, backend.clone()))
            }
            Provider::Chunks { .. } | Provider::Span { .. } => None,
        }
    }

    /// The length of the reserved addresses in bytes; `None` for chunks.
    pub(crate) fn span(&self) -> Option<u64> {
        match self.provider {
            Provider::Span { bytes, .. } => Some(bytes),
            Provider::Chunks { .. } => None,
        }
    }

    /// The address of an offset in the range.
    #[inline]
    pub(crate) fn address(&self, offset: u64) -> u64 {
        match self.provider {
            Provider::Span { base, .. } => base + offset,
            Provider::Chunks { .. } => offset,
        }
    }
}

impl Pages for Source {
    type Error = Error;

    fn granularity(&self) -> u64 {
        match &self.provider {
            Provider::Span { pages, .. } => pages.granularity(),
            Provider::Chunks { .. } => CHUNK_GRANULARITY,
        }
    }

    fn capacity(&self) -> u64 {
        match &self.provider {
            Provider::Span { pages, .. } => pages.capacity().unwrap_or(0),
            Provider::Chunks { .. } => 0,
        }
    }

    fn limit(&self) -> u64 {
        self.meter.limit()
    }

    fn room(&self) -> u64 {
        let all = Some(self.capacity()).filter(|&bytes| bytes > 0).unwrap_or(u64::MAX);
        let room = self.meter.room().min(all.saturating_sub(self.meter.held()));
        // Only whole pages can be reserved.
        room / self.granularity() * self.granularity()
    }

    fn chunk(&mut self, bytes: u64) -> Result<u64> {
        match &self.provider {
            Provider::Chunks { stream } => self.meter.allocate(bytes, || stream.allocate_for_all(bytes as usize)),
            Provider::Span { .. } => Err(Error::device_failure("the range", "a chunk", "a span has none")),
        }
    }

    fn map(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        self.meter.map(pieces, || match &self.provider {
            Provider::Span { pages, base, .. } => pages.map_pieces(base + offset, pieces),
            Provider::Chunks { .. } => {
                let error = Error::device_failure("the range", "mapping pages", "chunks lie where the device likes");
                Err(Unfinished { mapped: 0, error })
            }
        })
    }

    fn unmap(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished> {
        // SAFETY: only the device's range uses this source. The range returns the same pieces that `map` or `chunk` provided, each once,
        // and a chunk as one piece. It does so only if no block lies in them and their tags say that no work uses them any more.
        // `unmap_pieces` and `free` require exactly this, on whatever queue of the same memory.
        let done = unsafe {
            match &self.provider {
                Provider::Span { pages, base, .. } => pages.unmap_pieces(base + offset, pieces),
                Provider::Chunks { stream } => {
                    let bytes = pieces.iter().sum::<u64>() as usize;
                    let freed = match stream.beside_capture() {
                        Ok(None) => stream.free(offset, bytes),
                        // A captured stream frees no chunk. All work on the chunk is done, so another queue needs to wait for nothing.
                        Ok(Some(beside)) => relaxed(|| beside.free(offset, bytes)),
                        Err(error) => Err(error),
                    };
                    // The memory counts as returned even if the call failed.
                    freed.unwrap_or_else(|error| _ = self.failure.get_or_insert(error));
                    Ok(())
                }
            }
        };
        let left = done.as_ref().err().map_or(0, |left| left.mapped);
        let gone = pieces.iter().skip(left);
        match self.provider {
            Provider::Span { .. } => gone.for_each(|&bytes| self.meter.unmapped(bytes)),
            Provider::Chunks { .. } => gone.for_each(|&bytes| self.meter.freed(bytes)),
        }
        done
    }
}
