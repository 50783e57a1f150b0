//! Initial values, the same on every machine and for every cut of the model.
//!
//! A parameter draws from its own ChaCha stream, keyed by (seed, canonical index): whatever else a rank builds, and
//! in whatever order, its values are the same. Normals come from Marsaglia's polar method over the bits of the stream;
//! its one logarithm is libm's portable one, the rest of its arithmetic is exact or correctly rounded.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// How a parameter's values begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// All the same.
    Constant(f64),
    /// Normal around zero.
    Normal {
        /// Standard deviation.
        std: f64,
    },
}

impl Init {
    /// The first `len` values of stream `stream` of `seed`.
    ///
    /// Values are made in `f64`; whoever wants `f32` rounds them.
    pub fn values(self, seed: u64, stream: u64, len: usize) -> impl Iterator<Item = f64> {
        let mut normals = Normals::new(seed, stream);
        (0..len).map(move |_| match self {
            Self::Constant(value) => value,
            Self::Normal { std } => std * normals.draw(),
        })
    }
}

/// Standard normals of one stream.
struct Normals {
    rng: ChaCha8Rng,
    /// The second of a pair, not yet handed out.
    spare: Option<f64>,
}

impl Normals {
    fn new(seed: u64, stream: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        rng.set_stream(stream);
        Self { rng, spare: None }
    }

    fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (u, v) = (self.uniform(), self.uniform());
            let square = u * u + v * v;
            if square > 0.0 && square < 1.0 {
                let factor = (-2.0 * libm::log(square) / square).sqrt();
                self.spare = Some(v * factor);
                return u * factor;
            }
        }
    }

    /// Uniform in `[-1, 1)`, a multiple of 2^-52.
    fn uniform(&mut self) -> f64 {
        let bits = self.rng.next_u64() >> 11;
        bits as f64 * (1.0 / (1_u64 << 52) as f64) - 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_have_the_moments_of_normals() {
        let n = 200_000;
        let draws: Vec<f64> = Init::Normal { std: 2.0 }.values(7, 3, n).collect();
        let moment = |power: i32| draws.iter().map(|x| (x / 2.0).powi(power)).sum::<f64>() / n as f64;
        assert!(moment(1).abs() < 0.01, "mean {}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.02, "variance {}", moment(2));
        assert!(moment(3).abs() < 0.05, "skewness {}", moment(3));
        assert!((moment(4) - 3.0).abs() < 0.1, "kurtosis {}", moment(4));
    }

    #[test]
    fn streams_and_seeds_are_apart_and_repeat() {
        let first = |seed, stream| Init::Normal { std: 1.0 }.values(seed, stream, 5).collect::<Vec<_>>();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
        // A shorter draw is the beginning of a longer one.
        let longer: Vec<f64> = Init::Normal { std: 1.0 }.values(1, 2, 9).collect();
        assert_eq!(first(1, 2), longer[..5]);
    }

    /// Pinned bits: a change here changes every training run.
    #[test]
    fn the_values_of_a_seed_never_change() {
        let bits: Vec<u64> = Init::Normal { std: 1.0 }.values(1234, 0, 3).map(f64::to_bits).collect();
        assert_eq!(bits, PINNED, "got {bits:#x?}");
    }

    const PINNED: [u64; 3] = [0x3fe9_30c2_ce47_beaa, 0x3fdf_a7ce_f170_0223, 0x3fe4_0ce5_6e3a_de5b];
}
