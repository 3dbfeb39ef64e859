//! A small seeded generator, so that every random order can be repeated from its recorded seed.
//!
//! xoshiro256** (Blackman and Vigna, 2018), its state filled by splitmix64 as its authors advise.
//! Not for secrets. The sequence of a seed is part of the saved form: changing it would make
//! recorded orders unrepeatable.

/// The generator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// A generator for `seed`; any seed will do, 0 included.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut mix = seed;
        let state = std::array::from_fn(|_| {
            mix = mix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = mix;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Uniform in `[0, 1)`, with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in `0..bound` (0 when `bound` is 0), without the bias of a remainder.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            return 0;
        }
        let zone = u64::MAX - u64::MAX % bound;
        loop {
            let draw = self.next_u64();
            if draw < zone {
                return draw % bound;
            }
        }
    }

    /// Standard normal (Box and Muller, the cosine half).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Exponential of mean 1: skewed to the right, as run times are.
    pub fn exponential(&mut self) -> f64 {
        -(1.0 - self.uniform()).ln()
    }

    /// Of mean 0 and deviation 1, one value in ten from a normal with three times the deviation of
    /// the others: run times with strays.
    pub fn heavy_tailed(&mut self) -> f64 {
        const STRAY_SHARE: f64 = 0.1;
        const STRAY_WIDTH: f64 = 3.0;
        let variance = 1.0 - STRAY_SHARE + STRAY_SHARE * STRAY_WIDTH * STRAY_WIDTH;
        let width = if self.uniform() < STRAY_SHARE { STRAY_WIDTH } else { 1.0 };
        width * self.normal() / variance.sqrt()
    }

    /// Puts `items` in random order, every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last as u64 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn state_follows_the_published_splitmix_sequence() {
        // First outputs of splitmix64 for seed 1234567, from its reference implementation.
        let expected = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        assert_eq!(Rng::new(1_234_567).state[..2], expected);
    }

    #[test]
    fn output_follows_the_published_xoshiro_sequence() {
        // State 1, 2, 3, 4: first outputs of the reference implementation.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let drawn: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(drawn, [11520, 0, 1_509_978_240, 1_215_971_899_390_074_240]);
    }

    #[test]
    fn all_orders_are_about_equally_likely() {
        let mut rng = Rng::new(7);
        let mut seen = HashMap::new();
        for _ in 0..24_000 {
            let mut order = [0, 1, 2, 3];
            rng.shuffle(&mut order);
            *seen.entry(order).or_insert(0) += 1;
        }
        assert_eq!(seen.len(), 24);
        assert!(seen.values().all(|n| (850..1150).contains(n)), "{seen:?}");
    }

    #[test]
    fn noises_have_their_moments() {
        type Draw = fn(&mut Rng) -> f64;
        let draws: [(f64, Draw); 3] =
            [(0.0, Rng::normal), (0.0, Rng::heavy_tailed), (1.0, Rng::exponential)];
        for (centre, draw) in draws {
            let mut rng = Rng::new(3);
            let draws: Vec<f64> = (0..50_000).map(|_| draw(&mut rng) - centre).collect();
            let mean = draws.iter().sum::<f64>() / 5e4;
            let variance = draws.iter().map(|v| v * v).sum::<f64>() / 5e4;
            assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        }
    }
}
