//! Products of matrices by tensor cores against sums in f64, and matrices moved between registers and shared memory.

use crate::common::{self, numbers, on_all_since_90};
use compat_kernels::*;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::mma::tf32;

on_all_since_90! {
    products_of_one_tile
    products_of_many_tiles
    products_by_way_of_shared_memory
    special_values
    numbers_become_tf32
    matrices_come_into_registers
    matrices_go_back
}

/// A type of elements, with its kernels.
macro_rules! for_each_type {
    ($f:ident, $on:expr) => {
        $f(
            $on,
            f16::from_f32,
            |x| f64::from(x.to_f32()),
            16,
            |on, config, a, b, d| unsafe { product_f16::launch(on, config, a, b, d) },
            |on, config, a, b, d, depth| unsafe { product_tiles_f16::launch(on, config, a, b, d, depth) },
        );
        $f(
            $on,
            bf16::from_f32,
            |x| f64::from(x.to_f32()),
            16,
            |on, config, a, b, d| unsafe { product_bf16::launch(on, config, a, b, d) },
            |on, config, a, b, d, depth| unsafe { product_tiles_bf16::launch(on, config, a, b, d, depth) },
        );
        $f(
            $on,
            tf32::from_f32,
            |x| f64::from(x.to_f32()),
            8,
            |on, config, a, b, d| unsafe { product_tf32::launch(on, config, a, b, d) },
            |on, config, a, b, d, depth| unsafe { product_tiles_tf32::launch(on, config, a, b, d, depth) },
        );
    };
}

type Result = core::result::Result<(), cuda_std::launch::LaunchError>;
type Product<T> = fn(&dyn Launcher, LaunchConfig, &[T], &[T], &mut [f32]) -> Result;
type Tiles<T> = fn(&dyn Launcher, LaunchConfig, &[T], &[T], &mut [f32], usize) -> Result;

/// `c[rows, columns]` + `a[rows, depth]` * `b[depth, columns]` in f64, and the sum of the magnitudes.
fn oracle(a: &[f64], b: &[f64], c: &[f32], [rows, depth, columns]: [usize; 3]) -> Vec<(f64, f64)> {
    let places = (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column)));
    let element = |(row, column): (usize, usize)| {
        let start = f64::from(c[row * columns + column]);
        let terms = (0..depth).map(|k| a[row * depth + k] * b[k * columns + column]);
        terms.fold((start, start.abs()), |(sum, all), term| (sum + term, all + term.abs()))
    };
    places.map(element).collect()
}

/// Each sum rounds by less than half a unit of what it can come to.
fn assert_sums(seen: &[f32], expected: &[(f64, f64)], terms: usize) {
    assert_eq!(seen.len(), expected.len());
    for (i, (&seen, &(sum, magnitude))) in seen.iter().zip(expected).enumerate() {
        let bound = magnitude * terms as f64 * f64::from(f32::EPSILON) / 2.0;
        assert!(
            (f64::from(seen) - sum).abs() <= bound,
            "element {i}: {seen} instead of {sum}, within {bound:e}"
        );
    }
}

fn products_of_one_tile(on: &dyn Launcher) {
    fn check<T: Copy>(
        on: &dyn Launcher,
        narrow: fn(f32) -> T,
        wide: fn(T) -> f64,
        k: usize,
        product: Product<T>,
        _tiles: Tiles<T>,
    ) {
        const WARPS: usize = 3;
        // Of numbers alike, so that a row in the wrong place is seen, and of very different ones.
        for scale in [0, 12] {
            let spread = |(i, x): (usize, f32)| narrow(x * 2f32.powi((i * 7 % (scale + 1)) as i32));
            let a: Vec<T> = numbers(WARPS * 16 * k, 1).into_iter().enumerate().map(spread).collect();
            let b: Vec<T> = numbers(WARPS * 8 * k, 2).into_iter().enumerate().map(spread).collect();
            let c = numbers(WARPS * 128, 3);
            let mut d = c.clone();
            product(on, LaunchConfig::new(1, 32 * WARPS as u32), &a, &b, &mut d).unwrap();
            let [a, b] = [a, b].map(|numbers| numbers.into_iter().map(wide).collect::<Vec<f64>>());
            for warp in 0..WARPS {
                let (a, b) = (&a[warp * 16 * k..][..16 * k], &b[warp * 8 * k..][..8 * k]);
                let expected = oracle(a, b, &c[warp * 128..], [16, k, 8]);
                assert_sums(&d[warp * 128..][..128], &expected, k);
            }
        }
    }
    // SAFETY: the shapes of the kernels.
    for_each_type!(check, on);
}

fn products_of_many_tiles(on: &dyn Launcher) {
    fn check<T: Copy>(
        on: &dyn Launcher,
        narrow: fn(f32) -> T,
        wide: fn(T) -> f64,
        k: usize,
        _product: Product<T>,
        tiles: Tiles<T>,
    ) {
        for depth in [k, 3 * k] {
            let a: Vec<T> = numbers(48 * depth, 4).into_iter().map(narrow).collect();
            let b: Vec<T> = numbers(16 * depth, 5).into_iter().map(narrow).collect();
            let mut d = vec![f32::NAN; 48 * 16];
            tiles(on, LaunchConfig::new(1, 32), &a, &b, &mut d, depth).unwrap();
            let [a, b] = [a, b].map(|numbers| numbers.into_iter().map(wide).collect::<Vec<f64>>());
            assert_sums(&d, &oracle(&a, &b, &[0.0; 48 * 16], [48, depth, 16]), depth);
        }
    }
    // SAFETY: the shapes of the kernels.
    for_each_type!(check, on);
}

fn products_by_way_of_shared_memory(on: &dyn Launcher) {
    let depth = 80;
    let [a, b] =
        [6, 7].map(|seed| -> Vec<f16> { numbers(16 * depth, seed).into_iter().map(f16::from_f32).collect() });
    let mut d = vec![f32::NAN; 256];
    // SAFETY: the shapes of the kernel.
    unsafe { product_of_shared::launch(on, LaunchConfig::new(1, 32), &a, &b, &mut d, depth) }.unwrap();
    let [a, b] = [a, b].map(|numbers| numbers.into_iter().map(f64::from).collect::<Vec<_>>());
    assert_sums(&d, &oracle(&a, &b, &[0.0; 256], [16, depth, 16]), depth);
}

/// Zeros, subnormal numbers, the largest, infinities and NaN, each in a row of its own.
fn special_values(on: &dyn Launcher) {
    let rows = [
        (0x0001, 2f64.powi(-24)),
        (0x83ff, -1023.0 * 2f64.powi(-24)),
        (0x0400, 2f64.powi(-14)),
        (0x7bff, 65504.0),
        (0xfbff, -65504.0),
        (0x7c00, f64::INFINITY),
        (0xfc00, f64::NEG_INFINITY),
        (0x7e00, f64::NAN),
        (0x7c01, f64::NAN),
        (0x8000, 0.0),
    ];
    let (mut a, mut b) = ([f16::ZERO; 256], [f16::ZERO; 128]);
    for (row, (bits, _)) in rows.iter().enumerate() {
        a[row * 16 + row] = f16::from_bits(*bits);
        b[row * 8..][..8]
            .copy_from_slice(&core::array::from_fn::<_, 8, _>(|i| f16::from_f32(i as f32 + 1.0)));
    }
    let mut d = [0.0; 128];
    // SAFETY: the shapes of the kernel.
    unsafe { product_f16::launch(on, LaunchConfig::new(1, 32), &a, &b, &mut d) }.unwrap();
    for (row, (_, value)) in rows.iter().enumerate() {
        for column in 0..8 {
            let (seen, expected) = (d[row * 8 + column], value * (column + 1) as f64);
            let same = f64::from(seen) == expected || (seen.is_nan() && expected.is_nan());
            assert!(same, "row {row}, column {column}: {seen} instead of {expected}");
        }
    }
}

fn numbers_become_tf32(on: &dyn Launcher) {
    let units =
        [0x3f80_0000_u32, 0x3f80_0fff, 0x3f80_1000, 0x3f80_1001, 0x3f80_3000, 0x3fff_f000, 0x7f7f_efff];
    let ends = [0, 1, 0xfff, 0x1000, 0x007f_f000, 0x7f7f_f000, 0x7f7f_ffff, 0x7f80_0000];
    let inp: Vec<f32> =
        units.iter().chain(&ends).flat_map(|&x| [x, x | 1 << 31]).map(f32::from_bits).collect();
    let mut out = vec![7; inp.len()];
    // SAFETY: one result a number.
    unsafe { to_tf32::launch(on, LaunchConfig::cover(inp.len(), 32), &inp, &mut out) }.unwrap();
    for (x, seen) in inp.iter().zip(out) {
        // The two neighbours, and the one that is nearer, or further from zero.
        let magnitude = x.to_bits() & 0x7fff_ffff;
        let (below, above) = (magnitude & !0x1fff, (magnitude & !0x1fff) + 0x2000);
        let is_up = magnitude - below >= above - magnitude;
        let expected = if is_up { above } else { below } | x.to_bits() & 1 << 31;
        assert_eq!(seen, expected, "{:#x} becomes {seen:#x}", x.to_bits());
    }
    let mut out = [0];
    // SAFETY: one result a number.
    unsafe { to_tf32::launch(on, LaunchConfig::new(1, 32), &[f32::NAN], &mut out) }.unwrap();
    assert!(f32::from_bits(out[0]).is_nan());
}

fn matrices_come_into_registers(on: &dyn Launcher) {
    let inp: Vec<u16> = (0..256).map(|i| (i * 257) as u16 ^ 0x5a5a).collect();
    let mut out = [[0; 15]; 32];
    // SAFETY: the shapes of the kernel.
    unsafe { registers_of_matrices::launch(on, LaunchConfig::new(1, 32), &inp, &mut out) }.unwrap();
    for (lane, seen) in out.iter().enumerate() {
        let (row, column) = (lane / 4, lane % 4 * 2);
        let number =
            |matrix: usize, row: usize, column: usize| u32::from(inp[64 * matrix + 8 * row + column]);
        let plain = |m| number(m, row, column) | number(m, row, column + 1) << 16;
        let turned = |m| number(m, column, row) | number(m, column + 1, row) << 16;
        let all = |of: &dyn Fn(usize) -> u32| [0, 0, 1, 0, 1, 2, 3].map(of);
        let expected: Vec<u32> =
            [all(&plain), all(&turned)].concat().into_iter().chain([turned(0)]).collect();
        assert_eq!(seen.as_slice(), expected, "lane {lane}");
    }
}

fn matrices_go_back(on: &dyn Launcher) {
    let inp: [[u32; 4]; 32] = core::array::from_fn(|lane| {
        core::array::from_fn(|i| ((lane * 4 + i) as u32 * 0x0102_0304) ^ 0xc3a5_5a3c)
    });
    for (matrices, transposes) in [1, 2, 4].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let mut out = vec![0; 64 * matrices as usize];
        // SAFETY: the shapes of the kernel.
        unsafe {
            stored_matrices::launch(on, LaunchConfig::new(1, 32), &inp, &mut out, matrices, transposes)
        }
        .unwrap();
        for (i, &seen) in out.iter().enumerate() {
            let (matrix, row, column) = (i / 64, i / 8 % 8, i % 8);
            let (row, column) = if transposes { (column, row) } else { (row, column) };
            let expected = (inp[row * 4 + column / 2][matrix] >> (16 * (column % 2))) as u16;
            assert_eq!(seen, expected, "number {i} of {matrices} matrices, transposed: {transposes}");
        }
    }
}
