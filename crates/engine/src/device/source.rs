//! A device's memory by the piece, as a range asks for it: pages behind reserved addresses, or chunks from a stream's
//! backend.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::backend::Backend;
use super::meter::Meter;
use super::stream::Stream;
use super::virtual_memory::{Unfinished, VirtualMemory};
use crate::base::error::{Error, Result};

/// The unit of chunks: that of CUDA's large pages, in which its pools take memory from the device too, so that a chunk
/// wastes no part of one.
const CHUNK_GRANULARITY: u64 = 2 << 20;

/// A device's memory by the piece.
///
/// A device that reserves a span of addresses is asked to map pieces in it, one that cannot is asked for chunks. Of
/// `map` and `chunk` only one is called.
pub(crate) trait Pages {
    /// Why a call failed.
    type Error;

    /// The unit of mapping in bytes: sizes and places of all calls are multiples of it. Always the same, a multiple of 256, not 0.
    fn granularity(&self) -> u64;

    /// How many bytes of memory the device has at all; 0 if that is not known.
    fn capacity(&self) -> u64;

    /// How many bytes may be held at most by the device's limit.
    fn limit(&self) -> u64 {
        u64::MAX
    }

    /// How many bytes more there can be at most, as far as that is known: others may have them already.
    fn room(&self) -> u64 {
        u64::MAX
    }

    /// Takes a chunk of `bytes` wherever the device puts it: a piece. Returns its address, which must be a multiple of
    /// 256.
    ///
    /// # Errors
    ///
    /// Whatever the device says. Nothing may then be taken.
    fn chunk(&mut self, bytes: u64) -> Result<u64, Self::Error>;

    /// Puts memory at this offset of the reserved span, all of it or none: pieces of so many bytes, one behind the other.
    ///
    /// # Errors
    ///
    /// Whatever the device says. Nothing is then mapped but the first pieces that it says are.
    fn map(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Self::Error>>;

    /// Gives back pieces that lie side by side, the first at `offset`, or one chunk; no work uses them any more.
    ///
    /// # Errors
    ///
    /// Whatever the device says. The first pieces that it says so of are then still mapped, and the others not.
    fn unmap(&mut self, offset: u64, pieces: &[u64]) -> Result<(), Unfinished<Self::Error>>;
}

/// Memory of one device by the piece, with the counters of the device kept.
#[derive(Debug)]
pub(crate) struct Source {
    meter: Arc<Meter>,
    provider: Provider,
    failure: Option<Error>,
}

/// Who gives the pieces.
#[derive(Debug)]
enum Provider {
    Span {
        pages: Arc<dyn VirtualMemory>,
        base: u64,
        bytes: u64,
    },
    /// From the stream of the last call that allocated.
    Chunks {
        stream: Arc<dyn Backend>,
    },
}

impl Source {
    /// The memory of the device that `stream` is of: a span if it has pages and gives addresses for them.
    pub(crate) fn of(stream: &Stream) -> Source {
        let memory = stream.memory();
        let span = memory.pages().and_then(|pages| Some((pages.clone(), pages.reserve().ok()?)));
        let provider = match span {
            Some((pages, (base, bytes))) => Provider::Span { pages, base, bytes },
            None => Provider::Chunks { stream: stream.shared_backend().clone() },
        };
        Source { meter: memory.meter().clone(), provider, failure: None }
    }

    /// What giving a chunk back met.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Takes chunks from `stream` from now on. Returns where they came from before, if that was another one.
    pub(crate) fn serve(&mut self, with: &Stream) -> Option<Arc<dyn Backend>> {
        let backend = with.shared_backend();
        match &mut self.provider {
            Provider::Chunks { stream } if !Arc::ptr_eq(stream, backend) => {
                Some(std::mem::replace(stream, backend.clone()))
            }
            Provider::Chunks { .. } | Provider::Span { .. } => None,
        }
    }

    /// How many bytes of addresses there are; `None` for chunks.
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
        self.meter.room().min(all.saturating_sub(self.meter.held()))
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
        // SAFETY: the device's range has this source to itself, and gives back what `map` or `chunk` gave it: the same
        // pieces, each once, and a chunk as the one piece that it is. It does so once no block lies in them and their
        // tags say that no work uses them any more, which is what either call asks for.
        let done = unsafe {
            match &self.provider {
                Provider::Span { pages, base, .. } => pages.unmap_pieces(base + offset, pieces),
                Provider::Chunks { stream } => {
                    let freed = stream.free(offset, pieces.iter().sum::<u64>() as usize);
                    // The memory counts as gone even if that failed.
                    self.failure = self.failure.take().or(freed.err());
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
