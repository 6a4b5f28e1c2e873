//! Random numbers that follow from a seed, the same on every machine.

/// A small generator (splitmix64): one multiplication chain per number, good enough to choose faults.
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Variable: the seed with which a failed run is repeated.
pub const SEED: &str = "TUTTI_TEST_SEED";

/// The seed of this run: `TUTTI_TEST_SEED`, or a new one below 2^30. It is printed, so that a failure can be
/// repeated.
///
/// # Panics
/// When the clock is before 1970.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock after 1970");
    let seed = given.unwrap_or_else(|| u64::from(now.subsec_nanos()));
    println!("{SEED}={seed}");
    seed
}

/// A number that looks random and follows from `value`: every bit of it depends on every bit of `value`.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

impl Random {
    /// The sequence of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 to `end`, without `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.number()) * u128::from(end)) >> 64) as u64
    }

    /// A number of the range, both ends included.
    pub fn between(&mut self, (low, high): (u64, u64)) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in `permille` of a thousand cases.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    /// Element of the list; None if it is empty.
    pub fn pick<T: Copy>(&mut self, list: &[T]) -> Option<T> {
        list.get(self.below(list.len() as u64) as usize).copied()
    }

    /// Fills memory.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&self.number().to_le_bytes()[..part.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_follow_from_the_seed() {
        // The first numbers of the reference implementation of SplitMix64 for seed 1234567.
        let mut random = Random::new(1_234_567);
        assert_eq!([0; 2].map(|_| random.number()), [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
        assert!((0..1000).all(|_| (3..=9).contains(&random.between((3, 9)))));
        assert_eq!((random.below(0), random.chance(0), random.chance(1000)), (0, false, true));
    }
}
