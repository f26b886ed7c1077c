//! The chains of a core, for each kind of vectors that it may have.

use crate::gallery::peaks::{Map, start};

/// Interleaved chains of a core. A result is available after four or five cycles and two operations begin per cycle, so at
/// least ten chains are needed; 12, factor and summand fit the 16 registers that a vector instruction can name.
pub(super) const CHAINS: usize = 12;

/// Maximum numbers per vector.
pub(super) const LANES: usize = 16;

/// Chains of vectors, each of `lanes` numbers.
#[derive(Clone, Copy)]
pub(super) struct Chains {
    /// Numbers per vector.
    pub lanes: usize,
    /// Applies the map the given number of times to every chain, and returns the sum of the chains for each lane.
    pub run: fn(Map, usize) -> [f32; LANES],
}

/// The kinds of vectors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Vectors {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    /// Four numbers: the compiler's code for an array.
    Array,
}

impl Vectors {
    /// The kinds that this machine has, widest first.
    pub(super) fn all() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                all.push(Self::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                all.push(Self::Avx2);
            }
        }
        all.push(Self::Array);
        all
    }

    pub(super) fn widest() -> Self {
        Self::all()[0]
    }

    /// Chains of these vectors, which the machine must have.
    pub(super) fn chains(self) -> Chains {
        match self {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of this kind is only created if the machine has it.
            Self::Avx512 => Chains { lanes: 16, run: |map, times| unsafe { x86::avx512(map, times) } },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a value of this kind is only created if the machine has it.
            Self::Avx2 => Chains { lanes: 8, run: |map, times| unsafe { x86::avx2(map, times) } },
            Self::Array => Chains { lanes: 4, run: array::<4> },
        }
    }
}

/// Chains of one number each.
pub(super) fn scalar() -> Chains {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("fma") {
        // SAFETY: the machine has it, as just detected.
        return Chains { lanes: 1, run: |map, times| unsafe { x86::scalar(map, times) } };
    }
    Chains { lanes: 1, run: array::<1> }
}

/// The initial numbers of chain `k`.
fn starts(k: usize) -> [f32; LANES] {
    std::array::from_fn(|lane| start(lane, k))
}

fn array<const N: usize>(Map { factor, summand }: Map, times: usize) -> [f32; LANES] {
    let mut x: [[f32; N]; CHAINS] = std::array::from_fn(|k| std::array::from_fn(|lane| starts(k)[lane]));
    for _ in 0..times {
        for lanes in &mut x {
            *lanes = lanes.map(|x| x.mul_add(factor, summand));
        }
    }
    let mut sums = [0.0; LANES];
    for lanes in x {
        lanes.into_iter().zip(&mut sums).for_each(|(x, sum)| *sum += x);
    }
    sums
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::mem::transmute;

    use super::{CHAINS, LANES, Map, starts};

    macro_rules! vectors {
        ($($(#[$doc:meta])* $name:ident: $feature:literal, $vector:ty, $set1:ident, $fmadd:ident, $add:ident;)*) => {$(
            $(#[$doc])*
            #[target_feature(enable = $feature)]
            pub(super) fn $name(Map { factor, summand }: Map, times: usize) -> [f32; LANES] {
                const N: usize = size_of::<$vector>() / 4;
                let (factor, summand) = ($set1(factor), $set1(summand));
                let mut x: [$vector; CHAINS] = std::array::from_fn(|k| {
                    let first: [f32; N] = std::array::from_fn(|lane| starts(k)[lane]);
                    // SAFETY: a vector has as many numbers as the array.
                    unsafe { transmute::<[f32; N], $vector>(first) }
                });
                for _ in 0..times {
                    for x in &mut x {
                        *x = $fmadd(*x, factor, summand);
                    }
                }
                let mut sum = x[0];
                for &x in &x[1..] {
                    sum = $add(sum, x);
                }
                let mut sums = [0.0; LANES];
                // SAFETY: a vector has as many numbers as the array.
                sums[..N].copy_from_slice(&unsafe { transmute::<$vector, [f32; N]>(sum) });
                sums
            }
        )*};
    }

    vectors! {
        /// 16 numbers per instruction.
        avx512: "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps;
        /// 8 numbers per instruction.
        avx2: "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps;
    }

    /// Uses only the first lane of a vector, like compiled scalar code.
    #[target_feature(enable = "fma")]
    pub(super) fn scalar(Map { factor, summand }: Map, times: usize) -> [f32; LANES] {
        let (factor, summand) = (_mm_set_ss(factor), _mm_set_ss(summand));
        let mut x: [__m128; CHAINS] = std::array::from_fn(|k| _mm_set_ss(starts(k)[0]));
        for _ in 0..times {
            for x in &mut x {
                *x = _mm_fmadd_ss(*x, factor, summand);
            }
        }
        let mut sums = [0.0; LANES];
        sums[0] = x.into_iter().map(|x| _mm_cvtss_f32(x)).sum();
        sums
    }
}
