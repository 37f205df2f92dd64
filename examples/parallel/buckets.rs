//! Buckets of gradients that travel together, in the order in which the backward pass fills them, and each rank's part of a bucket.

use std::ops::Range;

use crate::gpt::compute::Part;

/// Parts of a bucket begin at multiples of this many numbers, which are 256 bytes.
const ALIGNMENT: usize = 64;

/// All buckets of a network.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    pub(crate) all: Vec<Bucket>,
    /// Bucket and start of each parameter.
    places: Vec<(usize, usize)>,
}

/// One array of gradients.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// The numbers of its members, and padding if all ranks have a part of it.
    pub(crate) len: usize,
    /// The numbers whose parameters this rank updates.
    pub(crate) own: Range<usize>,
    pub(crate) members: Vec<Member>,
}

/// The gradient of one parameter in its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) parameter: usize,
    pub(crate) start: usize,
    pub(crate) count: usize,
}

impl Buckets {
    /// Buckets for parameters with these counts of numbers, in the order of their indices.
    ///
    /// A bucket is full if one more gradient would make it longer than `most` numbers. A longer gradient has a bucket of its own. Each bucket
    /// has `parts` equal parts, of which this rank updates part `own`.
    pub(crate) fn new(counts: &[usize], most: usize, (parts, own): (usize, usize)) -> Self {
        let mut found = Self { all: Vec::new(), places: vec![(0, 0); counts.len()] };
        // The backward pass reaches the last parameter first.
        for (parameter, &count) in counts.iter().enumerate().rev() {
            let has_room = |bucket: &&mut Bucket| bucket.len.saturating_add(count) <= most;
            if found.all.last_mut().filter(has_room).is_none() {
                found.all.push(Bucket { len: 0, own: 0..0, members: Vec::new() });
            }
            let which = found.all.len() - 1;
            let bucket = &mut found.all[which];
            found.places[parameter] = (which, bucket.len);
            bucket.members.push(Member { parameter, start: bucket.len, count });
            bucket.len += count;
        }
        found.all.iter_mut().for_each(|bucket| bucket.divide(parts, own));
        found
    }

    /// The bucket of a parameter, and where its gradient begins.
    pub(crate) fn place(&self, parameter: usize) -> Option<(usize, usize)> {
        self.places.get(parameter).copied()
    }
}

impl Bucket {
    fn divide(&mut self, parts: usize, own: usize) {
        if parts > 1 {
            self.len = self.len.next_multiple_of(parts * ALIGNMENT);
        }
        let part = self.len / parts;
        self.own = own * part..(own + 1) * part;
    }

    /// Whether the bucket has numbers of no parameter.
    pub(crate) fn is_padded(&self) -> bool {
        self.members.last().is_none_or(|last| last.start + last.count < self.len)
    }

    /// The members of this rank's part, with where they lie in the bucket, in their parameter and in the moments of the part.
    pub(crate) fn updates(&self) -> impl Iterator<Item = (Member, Part)> + '_ {
        self.members.iter().filter_map(|member| {
            let start = member.start.max(self.own.start);
            let count =
                (member.start + member.count).min(self.own.end).checked_sub(start).filter(|&count| count > 0)?;
            let (value, moments) = (start - member.start, start - self.own.start);
            Some((*member, Part { gradient: start, value, moments, count }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_filled_from_the_last_parameter_on() {
        let buckets = Buckets::new(&[30, 500, 10, 60], 100, (1, 0));
        let members: Vec<Vec<usize>> =
            buckets.all.iter().map(|b| b.members.iter().map(|m| m.parameter).collect()).collect();
        assert_eq!(members, [vec![3, 2], vec![1], vec![0]]);
        assert_eq!((buckets.all[0].len, buckets.all[0].own.clone()), (70, 0..70));
        assert_eq!((buckets.place(2), buckets.place(1), buckets.place(4)), (Some((0, 60)), Some((1, 0)), None));
        assert!(!buckets.all[0].is_padded());
    }

    /// Each number of each parameter is updated by one rank, at one place of that rank's moments.
    #[test]
    fn ranks_share_all_numbers() {
        let (counts, ranks) = ([300, 7, 1, 129, 64], 3);
        let mut owners = counts.map(|count| vec![0; count]);
        let mut moments = 0;
        for rank in 0..ranks {
            for bucket in Buckets::new(&counts, 200, (ranks, rank)).all {
                assert!(bucket.own.len().is_multiple_of(ALIGNMENT) && bucket.own.len() * ranks == bucket.len);
                moments += bucket.own.len();
                for (member, part) in bucket.updates() {
                    assert_eq!(part.gradient - bucket.own.start, part.moments);
                    assert!(part.moments + part.count <= bucket.own.len());
                    owners[member.parameter][part.value..][..part.count].iter_mut().for_each(|owner| *owner += 1);
                }
            }
        }
        assert!(owners.iter().flatten().all(|&owner| owner == 1));
        assert!(
            moments < 501 + 3 * ranks * ALIGNMENT,
            "rounding adds less than a part of 64 numbers to each rank and bucket"
        );
    }
}
