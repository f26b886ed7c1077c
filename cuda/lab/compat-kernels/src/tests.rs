//! Kernels in modules of the same name. Only this crate can launch them by type: `pub use gemm_naive::gemm_naive` re-exports
//! only the function.

#[path = "../tests/common/mod.rs"]
mod common;

use common::{assert_close, numbers, on_all};
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher};

use crate::gemm_naive::gemm_naive_kernel;
use crate::{gemm_tiled, scale_kernel, TILE};

on_all! {
    matrices_multiply
    a_module_of_the_name_is_no_obstacle
}

/// A launch of a matrix multiplication `c[m, n]` = alpha * `a[m, k]` * `b[k, n]` + beta * c.
type Gemm<'a> = &'a dyn Fn(&[f32], &[f32], &mut [f32], [usize; 3], [f32; 2]) -> Result<(), LaunchError>;

fn matrices_multiply(on: &dyn Launcher) {
    let blocks = |[m, n, _]: [usize; 3]| [m, n].map(|len| len.div_ceil(TILE) as u32);
    let block = (TILE as u32, TILE as u32);
    let naive: Gemm<'_> = &|a, b, c, [m, n, k], [alpha, beta]| {
        let [rows, cols] = blocks([m, n, k]);
        let config = LaunchConfig::new((rows, cols), block);
        // SAFETY: the matrices have these shapes, and the grid covers the result.
        unsafe { gemm_naive_kernel::launch(on, config, a, b, c, m, n, k, alpha, beta) }
    };
    let tiled: Gemm<'_> = &|a, b, c, [m, n, k], [alpha, beta]| {
        let [rows, cols] = blocks([m, n, k]);
        let config = LaunchConfig::new((cols, rows), block);
        // SAFETY: as above.
        unsafe { gemm_tiled::launch(on, config, a, b, c, m, n, k, alpha, beta) }
    };
    for (m, n, k) in [(1, 1, 1), (17, 31, 33), (16, 16, 16), (5, 64, 100)] {
        let (a, b, c) = (numbers(m * k, 3), numbers(k * n, 4), numbers(m * n, 5));
        let expected: Vec<f64> = (0..m * n)
            .map(|i| {
                let (row, col) = (i / n, i % n);
                let dot: f64 = (0..k).map(|j| f64::from(a[row * k + j]) * f64::from(b[j * n + col])).sum();
                1.5 * dot - 0.5 * f64::from(c[i])
            })
            .collect();
        for gemm in [naive, tiled] {
            let mut out = c.clone();
            gemm(&a, &b, &mut out, [m, n, k], [1.5, -0.5]).unwrap();
            assert_close(&out, &expected, 1e-5, &format!("{m} x {k} x {n}"));
        }
    }
}

fn a_module_of_the_name_is_no_obstacle(on: &dyn Launcher) {
    let mut out = numbers(40, 1);
    // SAFETY: the slice is valid for all its elements.
    unsafe { scale_kernel::launch(on, LaunchConfig::new(2, 32), &mut out, 3.0) }.unwrap();
    let expected: Vec<f32> = numbers(40, 1).iter().map(|x| 3.0 * x).collect();
    assert_eq!(out, expected);
}
