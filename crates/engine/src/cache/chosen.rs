//! Blocks of no scope at chosen places of the range: at an address, or anywhere but in a place that is being cleared. Their owners computed
//! where their memory lies.

use std::ops::Range;

use super::block::Block;
use super::traced;
use crate::base::error::Result;
use crate::device::Stream;
use crate::range::{Carved, DeviceRange};
use crate::record::{Origin, Record, Request};

impl Block {
    /// Memory of no scope that lies outside the addresses of `place`, which is being cleared; `None` if the range has none.
    pub fn outside(stream: &Stream, request: &Request<'_>, place: &Range<u64>) -> Result<Option<Block>> {
        Block::chosen(stream, request, |range| range.reuse_outside(stream, request.bytes as u64, place))
    }

    /// Memory of no scope at this address; `None` if it is not free.
    pub fn at(stream: &Stream, request: &Request<'_>, address: u64) -> Result<Option<Block>> {
        Block::chosen(stream, request, |range| range.reuse_at(stream, request.bytes as u64, address))
    }

    /// The memory that `choose` finds in the device's range.
    fn chosen(
        stream: &Stream,
        request: &Request<'_>,
        choose: impl FnOnce(&DeviceRange) -> Result<Option<Carved>>,
    ) -> Result<Option<Block>> {
        stream.check()?;
        let Some(range) = DeviceRange::of(stream).filter(|_| request.bytes > 0) else { return Ok(None) };
        let Some(Carved { block, address, .. }) = choose(range)? else { return Ok(None) };
        let record = || Ok(Box::new(Record::new(stream, request, address, Origin::Range(block))));
        Ok(Some(Block::handed_out(stream, traced::told(stream, request, record)?)))
    }
}
