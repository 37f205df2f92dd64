//! A device's memory by the piece, as a range asks for it: pages behind reserved addresses, or chunks from a stream's
//! backend.
#![allow(unsafe_code)]

use std::sync::Arc;

use super::backend::Backend;
use super::memory::VirtualMemory;
use super::meter::Meter;
use super::stream::Stream;
use crate::base::error::{Error, Result};

/// The unit of chunks: what CUDA's pools and large pages come in.
const CHUNK_GRANULARITY: u64 = 2 << 20;

/// Where mapped memory shall appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At this offset of the reserved span, a multiple of the granularity.
    At(u64),
    /// Wherever the device puts it: a chunk.
    Anywhere,
}

/// A device's memory by the piece.
///
/// A device that reserves a span of addresses is asked for [`Place::At`] only (see
/// [`Range::span`](super::Range::span)), one that hands out chunks for [`Place::Anywhere`] only (see
/// [`Range::chunks`](super::Range::chunks)).
pub(crate) trait Pages {
    /// Why a call failed.
    type Error;

    /// The unit of mapping in bytes: sizes and places of all calls are multiples of it. Always the same, a multiple of 256, not 0.
    fn granularity(&self) -> u64;

    /// Puts `bytes` of memory at `place` and returns where: the offset asked for, or the address of the chunk, which
    /// must be a multiple of 256.
    ///
    /// # Errors
    ///
    /// Whatever the device says. Nothing may then be mapped.
    fn map(&mut self, place: Place, bytes: u64) -> Result<u64, Self::Error>;

    /// Gives back what one call of [`map`](Self::map) put at `offset`, all `bytes` of it, which no work uses any more.
    ///
    /// # Errors
    ///
    /// Whatever the device says. The memory is then taken to be still mapped.
    fn unmap(&mut self, offset: u64, bytes: u64) -> Result<(), Self::Error>;
}

/// Memory of one device by the piece, with the counters of the device kept.
#[derive(Debug)]
pub(crate) struct Source {
    meter: Arc<Meter>,
    kind: Kind,
    failure: Option<Error>,
}

#[derive(Debug)]
enum Kind {
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
        let kind = match span {
            Some((pages, (base, bytes))) => Kind::Span { pages, base, bytes },
            None => Kind::Chunks { stream: stream.shared_backend().clone() },
        };
        Source { meter: memory.meter().clone(), kind, failure: None }
    }

    /// What giving a chunk back met.
    pub(crate) fn take_failure(&mut self) -> Option<Error> {
        self.failure.take()
    }

    /// Takes chunks from `stream` from now on.
    pub(crate) fn serve(&mut self, with: &Stream) {
        if let Kind::Chunks { stream } = &mut self.kind {
            stream.clone_from(with.shared_backend());
        }
    }

    /// How many bytes of addresses there are; `None` for chunks.
    pub(crate) fn span(&self) -> Option<u64> {
        match self.kind {
            Kind::Span { bytes, .. } => Some(bytes),
            Kind::Chunks { .. } => None,
        }
    }

    /// The address of an offset in the range.
    #[inline]
    pub(crate) fn address(&self, offset: u64) -> u64 {
        match self.kind {
            Kind::Span { base, .. } => base + offset,
            Kind::Chunks { .. } => offset,
        }
    }
}

impl Pages for Source {
    type Error = Error;

    fn granularity(&self) -> u64 {
        match &self.kind {
            Kind::Span { pages, .. } => pages.granularity(),
            Kind::Chunks { .. } => CHUNK_GRANULARITY,
        }
    }

    fn map(&mut self, place: Place, bytes: u64) -> Result<u64> {
        let offset = match (&self.kind, place) {
            (Kind::Chunks { stream }, _) => stream.allocate(bytes as usize)?,
            (Kind::Span { pages, base, .. }, Place::At(offset)) => {
                pages.map(base + offset, bytes)?;
                offset
            }
            (Kind::Span { .. }, Place::Anywhere) => {
                return Err(Error::device_failure("the range", "a chunk", "a span has none"));
            }
        };
        self.meter.allocated(bytes);
        Ok(offset)
    }

    fn unmap(&mut self, offset: u64, bytes: u64) -> Result<()> {
        match &self.kind {
            // SAFETY: the range gives back what `map` gave it, as one piece and once, when no work uses it any more.
            Kind::Span { pages, base, .. } => unsafe { pages.unmap(base + offset, bytes)? },
            Kind::Chunks { stream } => {
                // SAFETY: as above.
                let freed = unsafe { stream.free(offset, bytes as usize) };
                // It counts as gone either way.
                self.failure = self.failure.take().or(freed.err());
            }
        }
        self.meter.freed(bytes);
        Ok(())
    }
}
