//! The free bytes at each point of an entry.
//!
//! Gaps of long entries cover thousands of points. So the points are in blocks, and bytes of a whole block are noted once.

use std::ops::Range;

/// The number of points in a block.
const BLOCK: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct FreeBytes {
    /// For each point: free bytes, without those that are taken from its whole block.
    points: Vec<u64>,
    blocks: Vec<Block>,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    /// The least free bytes of its points.
    least: u64,
    /// Bytes that are taken from all of its points at once.
    taken: u64,
}

impl FreeBytes {
    pub(super) fn new(room: &[u64]) -> FreeBytes {
        let least = |points: &[u64]| points.iter().copied().min().unwrap_or(u64::MAX);
        let blocks = room.chunks(BLOCK).map(|points| Block { least: least(points), taken: 0 });
        FreeBytes { points: room.to_vec(), blocks: blocks.collect() }
    }

    /// Whether as many bytes are free at each of these points.
    pub(super) fn has(&self, points: Range<usize>, bytes: u64) -> bool {
        self.parts(points).all(|(block, part)| self.least(block, part) >= bytes)
    }

    /// Takes bytes at these points, which are free there.
    pub(super) fn take(&mut self, points: Range<usize>, bytes: u64) {
        self.change(
            points,
            |point| *point -= bytes,
            |block| {
                block.taken += bytes;
                block.least -= bytes;
            },
        );
    }

    /// Gives bytes back that were taken at exactly these points.
    pub(super) fn release(&mut self, points: Range<usize>, bytes: u64) {
        self.change(
            points,
            |point| *point += bytes,
            |block| {
                block.taken -= bytes;
                block.least += bytes;
            },
        );
    }

    fn change(&mut self, points: Range<usize>, each: impl Fn(&mut u64), whole: impl Fn(&mut Block)) {
        for block in blocks(&points) {
            let all = self.points_of(block);
            let part = all.start.max(points.start)..all.end.min(points.end);
            if part == all {
                whole(&mut self.blocks[block]);
                continue;
            }
            self.points[part].iter_mut().for_each(&each);
            let least = self.points[all].iter().copied().min();
            let block = &mut self.blocks[block];
            block.least = least.map_or(u64::MAX, |least| least - block.taken);
        }
    }

    fn least(&self, block: usize, part: Range<usize>) -> u64 {
        let Block { least, taken } = self.blocks[block];
        if part == self.points_of(block) {
            return least;
        }
        self.points[part].iter().copied().min().map_or(u64::MAX, |least| least - taken)
    }

    fn points_of(&self, block: usize) -> Range<usize> {
        block * BLOCK..((block + 1) * BLOCK).min(self.points.len())
    }

    /// The blocks of these points, and the points in each.
    fn parts(&self, points: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
        blocks(&points).map(move |block| {
            let all = self.points_of(block);
            (block, all.start.max(points.start)..all.end.min(points.end))
        })
    }
}

fn blocks(points: &Range<usize>) -> Range<usize> {
    if points.is_empty() { 0..0 } else { points.start / BLOCK..points.end.div_ceil(BLOCK) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as with plain lists of points.
    #[test]
    fn blocks_count_as_points_do() {
        let mut rng = fastrand::Rng::with_seed(1);
        for length in [1, 63, 64, 65, 200, 1000] {
            let mut plain: Vec<u64> = (0..length).map(|_| rng.u64(50..100)).collect();
            let mut room = FreeBytes::new(&plain);
            let mut taken = Vec::new();
            for _ in 0..500 {
                let (a, b) = (rng.usize(..=length), rng.usize(..=length));
                let (points, bytes) = (a.min(b)..a.max(b), rng.u64(1..20));
                let fits = points.clone().all(|point| plain[point] >= bytes);
                assert_eq!(room.has(points.clone(), bytes), fits);
                if fits {
                    room.take(points.clone(), bytes);
                    plain[points.clone()].iter_mut().for_each(|left| *left -= bytes);
                    taken.push((points, bytes));
                } else if !taken.is_empty() {
                    let (points, bytes) = taken.swap_remove(rng.usize(..taken.len()));
                    room.release(points.clone(), bytes);
                    plain[points].iter_mut().for_each(|left| *left += bytes);
                }
            }
        }
    }
}
