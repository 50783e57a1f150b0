//! Run-time choice of vector width, and reductions whose rounding does not depend on it.
//!
//! Element-wise loops are written plainly and compiled once per instruction set; the compiler
//! vectorises them. It does not dare reorder a sum, so sums name their accumulators: element `i`
//! goes to accumulator `i % LANES`, and the accumulators are added as a tree, halves onto halves.
//! How many registers hold them is the machine's affair. Ends are padded with zeros and take the
//! same path.

use pulp::Simd;

/// Accumulators of a sum: with 16 lanes in a register enough of them to hide half the latency of an
/// addition.
pub(crate) const LANES: usize = 32;

/// Defines a function whose body is compiled for each instruction set and chosen at run time.
///
/// The name in brackets is the instruction set's token, which [`Lanes`] asks for. The body is
/// expanded inside a type's method rather than a closure, because only a function can be forced
/// inline into the one that carries the instruction set; a closure that the compiler declines to
/// inline would run at the baseline, silently slow.
macro_rules! vectorized {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident<'a, T: Real>[$simd:pat_param]($($argument:ident: $kind:ty),* $(,)?)
        $(-> $result:ty)? $body:block
    )+) => {$(
        $(#[$attribute])*
        fn $name<'a, T: Real>($($argument: $kind),*) $(-> $result)? {
            struct Call<'a, T: Real> {
                $($argument: $kind,)*
                slices: std::marker::PhantomData<&'a T>,
            }

            #[inline(always)]
            #[allow(clippy::too_many_arguments)] // the kernel's own signature
            fn body<'a, T: Real, S: pulp::Simd>($simd: S, $($argument: $kind),*) $(-> $result)? $body

            impl<'a, T: Real> pulp::WithSimd for Call<'a, T> {
                type Output = crate::simd::result_type!($($result)?);

                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, simd: S) -> Self::Output {
                    body(simd, $(self.$argument),*)
                }
            }

            pulp::Arch::new().dispatch(Call { $($argument,)* slices: std::marker::PhantomData })
        }
    )+};
}

/// The return type of a [`vectorized!`] function, `()` where it names none.
macro_rules! result_type {
    () => {
        ()
    };
    ($result:ty) => {
        $result
    };
}

pub(crate) use {result_type, vectorized};

/// Reductions over slices of one number type. Supertrait of `Real`, and out of reach outside this
/// crate.
pub trait Lanes: Sized {
    /// The sum of `a`.
    fn sum<S: Simd>(simd: S, a: &[Self]) -> Self;
    /// The sum of `a[i] * b[i]`, over the shorter length.
    fn dot<S: Simd>(simd: S, a: &[Self], b: &[Self]) -> Self;
    /// The largest of `a`; negative infinity where there is none, unspecified where one is NaN.
    fn largest<S: Simd>(simd: S, a: &[Self]) -> Self;
}

macro_rules! lanes {
    ($number:ident, $width:ident, $splat:ident, $load:ident, $as_simd:ident, $add:ident, $mul:ident, $max:ident, $sum:ident, $largest:ident) => {
        impl Lanes for $number {
            #[inline(always)]
            fn sum<S: Simd>(simd: S, a: &[Self]) -> Self {
                let zero = simd.$splat(0.0);
                let mut lanes = [zero; LANES];
                let mut registers = LANES / S::$width;

                let (blocks, end) = a.as_chunks::<LANES>();
                for block in blocks {
                    let block = S::$as_simd(block).0;
                    for r in 0..registers {
                        lanes[r] = simd.$add(lanes[r], block[r]);
                    }
                }
                for (lane, end) in lanes.iter_mut().zip(end.chunks(S::$width)) {
                    *lane = simd.$add(*lane, simd.$load(end));
                }

                while registers > 1 {
                    registers /= 2;
                    for r in 0..registers {
                        lanes[r] = simd.$add(lanes[r], lanes[r + registers]);
                    }
                }
                simd.$sum(lanes[0])
            }

            #[inline(always)]
            fn dot<S: Simd>(simd: S, a: &[Self], b: &[Self]) -> Self {
                let zero = simd.$splat(0.0);
                let mut lanes = [zero; LANES];
                let mut registers = LANES / S::$width;

                let (a_blocks, a_end) = a.as_chunks::<LANES>();
                let (b_blocks, b_end) = b.as_chunks::<LANES>();
                for (a, b) in a_blocks.iter().zip(b_blocks) {
                    let (a, b) = (S::$as_simd(a).0, S::$as_simd(b).0);
                    for r in 0..registers {
                        lanes[r] = simd.$add(lanes[r], simd.$mul(a[r], b[r]));
                    }
                }
                let ends = a_end.chunks(S::$width).zip(b_end.chunks(S::$width));
                for (lane, (a, b)) in lanes.iter_mut().zip(ends) {
                    *lane = simd.$add(*lane, simd.$mul(simd.$load(a), simd.$load(b)));
                }

                while registers > 1 {
                    registers /= 2;
                    for r in 0..registers {
                        lanes[r] = simd.$add(lanes[r], lanes[r + registers]);
                    }
                }
                simd.$sum(lanes[0])
            }

            #[inline(always)]
            fn largest<S: Simd>(simd: S, a: &[Self]) -> Self {
                let (whole, end) = S::$as_simd(a);
                if whole.is_empty() {
                    return end.iter().fold(Self::NEG_INFINITY, |top, &x| if x > top { x } else { top });
                }
                // The last register's worth overlaps what came before; a maximum does not mind.
                let mut tops = [simd.$load(&a[a.len() - S::$width..]); 4];
                let (fours, rest) = whole.as_chunks::<4>();
                for four in fours {
                    for (top, &x) in tops.iter_mut().zip(four) {
                        *top = simd.$max(*top, x);
                    }
                }
                for &x in rest {
                    tops[0] = simd.$max(tops[0], x);
                }
                let (left, right) = (simd.$max(tops[0], tops[1]), simd.$max(tops[2], tops[3]));
                simd.$largest(simd.$max(left, right))
            }
        }
    };
}

lanes!(
    f32,
    F32_LANES,
    splat_f32s,
    partial_load_f32s,
    as_simd_f32s,
    add_f32s,
    mul_f32s,
    max_f32s,
    reduce_sum_f32s,
    reduce_max_f32s
);
lanes!(
    f64,
    F64_LANES,
    splat_f64s,
    partial_load_f64s,
    as_simd_f64s,
    add_f64s,
    mul_f64s,
    max_f64s,
    reduce_sum_f64s,
    reduce_max_f64s
);

#[cfg(test)]
mod tests {
    use super::*;

    struct Reductions<'a, T>(&'a [T], &'a [T]);

    impl<T: Lanes> pulp::WithSimd for Reductions<'_, T> {
        type Output = [T; 3];

        #[inline(always)]
        fn with_simd<S: Simd>(self, simd: S) -> [T; 3] {
            let Self(a, b) = self;
            [T::sum(simd, a), T::dot(simd, a, b), T::largest(simd, a)]
        }
    }

    /// The results of every instruction set that this machine has.
    fn on_all<T: Lanes>(a: &[T], b: &[T]) -> Vec<[T; 3]> {
        let mut results = vec![pulp::Scalar.vectorize(Reductions(a, b))];
        #[cfg(target_arch = "x86_64")]
        {
            results.extend(pulp::x86::V3::try_new().map(|v3| Simd::vectorize(v3, Reductions(a, b))));
            results.extend(pulp::x86::V4::try_new().map(|v4| Simd::vectorize(v4, Reductions(a, b))));
        }
        results.push(pulp::Arch::new().dispatch(Reductions(a, b)));
        results
    }

    #[test]
    fn reductions_are_right_and_the_same_on_every_instruction_set() {
        for len in 0..=5 * LANES {
            // Negative throughout: a padded zero would win a maximum.
            let a: Vec<f64> = (0..len).map(|i| -1.0 - ((i * 37 % 101) as f64).sqrt()).collect();
            let b: Vec<f64> = (0..len).map(|i| ((i * 53 % 89) as f64).sqrt()).collect();
            let sum: f64 = a.iter().sum();
            let dot: f64 = a.iter().zip(&b).map(|(a, b)| a * b).sum();
            let top = a.iter().copied().fold(f64::NEG_INFINITY, f64::max);

            let wide = on_all(&a, &b);
            assert!((wide[0][0] - sum).abs() < 1e-9 && (wide[0][1] - dot).abs() < 1e-9, "{wide:?}");
            assert!(wide.iter().all(|r| r[2] == top), "largest of {len}: {wide:?}, not {top}");
            assert!(wide.iter().all(|r| *r == wide[0]), "f64 at {len}: {wide:?}");

            let a: Vec<f32> = a.iter().map(|&x| x as f32).collect();
            let b: Vec<f32> = b.iter().map(|&x| x as f32).collect();
            let narrow = on_all(&a, &b);
            assert!(narrow.iter().all(|r| *r == narrow[0]), "f32 at {len}: {narrow:?}");
        }
    }
}
