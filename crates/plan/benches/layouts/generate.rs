//! Deterministic problems of any size.

use gpucache_plan::Buffer;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A lognormal number, rounded up to a multiple of 256.
    fn lognormal(&mut self) -> u64 {
        let normal = (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        256 * ((10.0 + 2.0 * normal).exp() / 256.0).ceil() as u64
    }
}

/// Resembles training. Activations are made going forward and dropped in the opposite order going backward, with up to three
/// short temporaries at each step. Several forward and backward stretches of up to `stretch` activations follow each other.
pub(crate) fn training(count: usize, stretch: u64, seed: u64) -> Vec<Buffer> {
    let mut random = Random(seed);
    let (mut out, mut kept, mut time) = (Vec::new(), Vec::new(), 0u32);
    while out.len() + kept.len() < count {
        for _ in 0..=random.below(stretch.min((count - out.len() - kept.len()) as u64 / 4 + 1)) {
            kept.push((time, random.lognormal()));
            temporaries(&mut random, &mut out, &mut time);
        }
        let room = out.len() + kept.len() < count;
        for _ in 0..if room { random.below(stretch) as usize } else { kept.len() } {
            let Some((lower, size)) = kept.pop() else { break };
            temporaries(&mut random, &mut out, &mut time);
            out.push(Buffer { lower, upper: time, size });
        }
    }
    out.extend(kept.into_iter().map(|(lower, size)| Buffer { lower, upper: time + 1, size }));
    out
}

fn temporaries(random: &mut Random, out: &mut Vec<Buffer>, time: &mut u32) {
    *time += 1;
    for _ in 0..random.below(4) {
        let upper = *time + 1 + random.below(4) as u32;
        out.push(Buffer { lower: *time, upper, size: random.lognormal() });
        *time += 1;
    }
}

/// No structure: starts uniform below `span`, durations uniform up to `duration`, sizes uniform up to 2^20.
pub(crate) fn uniform(count: usize, span: u64, duration: u64, seed: u64) -> Vec<Buffer> {
    let mut random = Random(seed);
    let mut buffer = || {
        let lower = random.below(span) as u32;
        Buffer { lower, upper: lower + 1 + random.below(duration) as u32, size: 1 + random.below(1 << 20) }
    };
    (0..count).map(|_| buffer()).collect()
}
