//! Bands of addresses, laid end to end without the gaps that no array ever used, so that arrays at distant addresses fit one picture.

use serde_json::{Value, json};

use crate::lives::Life;

/// The shortest gaps stay, since they show how arrays lie. Together they take at most this part of the used addresses.
const KEPT: u64 = 20;

/// A stretch of addresses that is shown whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Band {
    /// Its first address, and the one behind its last.
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Where it begins in the picture, in bytes.
    pub(super) offset: u64,
}

/// The bands of the addresses of one device, in their order.
#[derive(Debug, Default)]
pub(super) struct Bands(Vec<Band>);

impl Bands {
    /// The bands in which these arrays lie.
    pub(super) fn of<'l>(lives: impl Iterator<Item = &'l Life<'l>>) -> Bands {
        let used = union(lives.map(|life| (life.allocation.address, life.end_address())).collect());
        let longest = longest_kept(&used);
        let mut bands: Vec<Band> = Vec::new();
        for (begin, end) in used {
            match bands.last_mut() {
                Some(band) if begin - band.end <= longest => band.end = end,
                last => {
                    let offset = last.map_or(0, |band| band.offset + (band.end - band.begin));
                    bands.push(Band { begin, end, offset });
                }
            }
        }
        Bands(bands)
    }

    /// The number of the band that an address lies in, if it lies in one.
    pub(super) fn find(&self, address: u64) -> Option<usize> {
        let place = self.0.partition_point(|band| band.begin <= address).checked_sub(1)?;
        (address < self.0[place].end).then_some(place)
    }

    /// The place of an address in the picture; 0 for an address in no band.
    pub(super) fn offset(&self, address: u64) -> u64 {
        self.find(address).map_or(0, |place| self.0[place].offset + (address - self.0[place].begin))
    }

    /// The bands, with addresses as text, since they are too long for a number in JavaScript.
    pub(super) fn json(&self) -> Value {
        let band = |band: &Band| json!([format!("{:#x}", band.begin), band.offset, band.end - band.begin]);
        self.0.iter().map(band).collect()
    }
}

/// Stretches that overlap or touch as one, in their order.
fn union(mut stretches: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    stretches.sort_unstable();
    let mut union: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in stretches {
        match union.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => union.push((begin, end)),
        }
    }
    union
}

/// The length of the longest gap that stays.
fn longest_kept(used: &[(u64, u64)]) -> u64 {
    let mut gaps: Vec<u64> = used.windows(2).map(|two| two[1].0 - two[0].1).collect();
    gaps.sort_unstable();
    let mut left = used.iter().fold(0u64, |sum, (begin, end)| sum.saturating_add(end - begin)) / KEPT;
    let is_too_long = |gap: &&u64| {
        let is_too_long = **gap > left;
        left = left.saturating_sub(**gap);
        is_too_long
    };
    // Either all gaps of one length stay, or none.
    let shortest_out = gaps.iter().find(is_too_long).copied().unwrap_or(u64::MAX);
    gaps.into_iter().take_while(|gap| *gap < shortest_out).last().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lives::lives;
    use crate::run::tests::example;

    #[test]
    fn far_gaps_are_left_out_and_near_ones_stay() {
        let mut run = example();
        run.events[0].address = 0x0060_0000 + 1024; // 24 bytes behind the second array
        let lives = lives(&run);
        let bands = Bands::of(lives.iter());
        let first = Band { begin: 0x0060_0000, end: 0x0060_0000 + 1024 + 4096, offset: 0 };
        assert_eq!(bands.0, [first, Band { begin: 0x0070_0000, end: 0x0090_0000, offset: 5120 }]);
        assert_eq!([0x0060_0010, 0x0070_0001].map(|address| bands.offset(address)), [16, 5121]);
        assert_eq!((bands.find(first.end), bands.find(0), bands.find(0x008F_FFFF)), (None, None, Some(1)));
        assert_eq!(bands.json()[1], json!(["0x700000", 5120, 2_097_152]));
    }

    #[test]
    fn what_lies_at_the_end_of_the_addresses_has_a_place() {
        let mut run = example();
        run.events[2].address = u64::MAX - 999;
        run.events[4].address = u64::MAX;
        let lives = lives(&run);
        let bands = Bands::of(lives.iter());
        assert_eq!(bands.0.len(), 2);
        assert_eq!([u64::MAX - 999, u64::MAX - 1].map(|address| bands.offset(address)), [4096, 4096 + 998]);
        assert_eq!(bands.json()[1], json!(["0xfffffffffffffc18", 4096, 999]));
    }

    #[test]
    fn gaps_that_are_many_are_left_out_too() {
        let used: Vec<(u64, u64)> = (0..100).map(|place| (place * 20, place * 20 + 10)).collect();
        // A twentieth of a thousand bytes is five gaps of the 99.
        assert_eq!(longest_kept(&used), 0);
        assert_eq!(longest_kept(&[(0, 1000), (1010, 1100), (1120, 1130), (1200, 1210)]), 20);
        assert_eq!(longest_kept(&[(0, 10), (20, 30)]), 0);
        assert_eq!(union(vec![(5, 9), (0, 3), (3, 6)]), [(0, 9)]);
    }
}
