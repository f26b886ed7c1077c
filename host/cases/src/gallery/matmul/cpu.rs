//! The same product on the cores of a CPU, in plain Rust.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Context as _;
use rayon::prelude::*;

use super::super::prelude::*;
use crate::compare::compare;

/// Computes `c = a b`; all are square, with an extent that is a multiple of the tile's.
type Product = fn(&[f32], &[f32], &mut [f32], usize);

/// The rows and columns of a tile of sums that stays in registers.
const TILE: [usize; 2] = [4, 32];

/// The rungs of a CPU: name, idea, and product.
const RUNGS: [(&str, &str, Product); 3] = [
    ("core_naive", "one core, three loops", naive),
    ("core_tiles", "one core, 4 x 32 sums in registers", tiles),
    ("cores_simd", "all cores, the same with their widest vectors", on_all_cores),
];

/// The rungs on squares; one core takes too long for those above `most`.
pub(super) fn trials(sizes: &[usize], most: usize) -> Vec<Trial> {
    let fits = |name: &str, size: usize| name.starts_with("cores") || size <= most;
    let all = RUNGS.iter().flat_map(|rung| sizes.iter().map(move |&size| (rung, size)));
    all.filter(|((name, ..), size)| fits(name, *size)).map(|(rung, size)| trial(rung, size)).collect()
}

fn trial(&(name, idea, product): &'static (&str, &str, Product), size: usize) -> Trial {
    let work = Work::of_bytes(12 * size * size).with_flop(2 * size * size * size);
    let words = format!("{size} x {size} x {size}");
    Trial::of_host((name, idea), size, words, work, move |_, samples| {
        let [a, b] = [1, 2].map(|seed| numbers(size * size, seed));
        let mut c = vec![0.0; size * size];
        // One pass takes long enough to be exact.
        let samples = if size > 512 { 2 } else { samples };
        let times = (0..samples).map(|_| {
            let begin = Instant::now();
            product(&a, &b, black_box(&mut c), size);
            begin.elapsed()
        });
        let times = times.collect();
        let diagonal = || (0..size).map(|i| i * size + (7 * i + 3) % size);
        let got: Vec<f64> = diagonal().map(|i| c[i].into()).collect();
        let dot = |i: usize| {
            let term = |k: usize| f64::from(a[i / size * size + k]) * f64::from(b[k * size + i % size]);
            (0..size).map(term).fold(Sum::default(), Sum::and).within(super::ROUNDINGS)
        };
        compare("c", &got, &diagonal().map(dot).collect::<Vec<_>>()).context("an element per row")?;
        Ok(Timed::Samples(times))
    })
}

fn naive(a: &[f32], b: &[f32], c: &mut [f32], size: usize) {
    for (i, c) in c.iter_mut().enumerate() {
        let (row, col) = (i / size, i % size);
        *c = (0..size).map(|k| a[row * size + k] * b[k * size + col]).sum();
    }
}

fn tiles(a: &[f32], b: &[f32], c: &mut [f32], size: usize) {
    for (a, c) in a.chunks(TILE[0] * size).zip(c.chunks_mut(TILE[0] * size)) {
        rows(a, b, c, size, |a, b, sum| a * b + sum);
    }
}

fn on_all_cores(a: &[f32], b: &[f32], c: &mut [f32], size: usize) {
    let tiles = a.par_chunks(TILE[0] * size).zip(c.par_chunks_mut(TILE[0] * size));
    let is_wide = is_wide();
    tiles.for_each(|(a, c)| match is_wide {
        true => wide_rows(a, b, c, size),
        false => rows(a, b, c, size, |a, b, sum| a * b + sum),
    });
}

/// Whether the CPU has vectors of eight numbers and fused multiply-adds.
fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// [`rows`] with them. Called only if [`is_wide`].
fn wide_rows(a: &[f32], b: &[f32], c: &mut [f32], size: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide(a: &[f32], b: &[f32], c: &mut [f32], size: usize) {
            rows(a, b, c, size, f32::mul_add);
        }
        // SAFETY: the CPU has these features.
        unsafe { wide(a, b, c, size) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    rows(a, b, c, size, f32::mul_add);
}

/// Computes the rows of a tile. `step` returns `a * b + sum`.
#[inline(always)]
fn rows(a: &[f32], b: &[f32], c: &mut [f32], size: usize, step: impl Fn(f32, f32, f32) -> f32) {
    for col in (0..size).step_by(TILE[1]) {
        let mut sums = [[0.0; TILE[1]]; TILE[0]];
        for k in 0..size {
            let b = &b[k * size + col..][..TILE[1]];
            for (i, sums) in sums.iter_mut().enumerate() {
                let a = a[i * size + k];
                sums.iter_mut().zip(b).for_each(|(sum, &b)| *sum = step(a, b, *sum));
            }
        }
        for (i, sums) in sums.iter().enumerate() {
            c[i * size + col..][..TILE[1]].copy_from_slice(sums);
        }
    }
}
