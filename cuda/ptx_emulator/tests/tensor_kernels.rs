//! Tensor copies and `wgmma` on the executor and as PTX of both back ends, with the tensor maps of the executor.

use crate::common::kernels::{emulators, emulators_90a};
use cuda_std::half::bf16;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::simt::{Executor, Scheduler};
use cuda_std::tensor::{Swizzle, TensorMap, TensorMapSpec};
use ptx_emulator_kernels::tensor_cores::*;

fn executors() -> Vec<Executor> {
    vec![Executor::new(), Executor::new().with_scheduler(Scheduler::Threads), Executor::new().with_seed(5)]
}

/// Runs a check on the executor, and on the emulators.
fn on_all(check: impl Fn(&dyn Launcher), emulators: Vec<ptx_emulator::Emulator>) {
    executors().iter().for_each(|on| check(on));
    assert_eq!(emulators.len(), 4);
    emulators.iter().for_each(|on| check(on));
}

#[test]
fn a_tile_moves() {
    let check = |on: &dyn Launcher| {
        let inp: Vec<f32> = (0..20 * 40).map(|i| i as f32).collect();
        let mut out = vec![0.5f32; 40 * 24];
        let from = TensorMapSpec::new::<f32>([40, 20], [16, 8]).encode_for_cpu(&inp).unwrap();
        let to = TensorMapSpec::new::<f32>([24, 40], [16, 8]).encode_for_cpu_mut(&mut out).unwrap();
        // Over the lower edge of the one, and over the right edge of the other.
        // SAFETY: both matrices are alive, and 128 threads.
        unsafe { move_a_tile::launch(on, LaunchConfig::new(1, 128), from, to, 28, 16) }.unwrap();
        for (i, &number) in out.iter().enumerate() {
            let (row, column) = (i / 24, i % 24);
            let expected = match (row.checked_sub(28), column.checked_sub(16)) {
                (Some(y @ 0..8), Some(x)) => {
                    let inside = 16 + y < 20 && 28 + x < 40;
                    44.0 + if inside { inp[(16 + y) * 40 + 28 + x] } else { 0.0 }
                }
                _ => 0.5,
            };
            assert_eq!(number, expected, "row {row}, column {column}");
        }
    };
    on_all(check, emulators());
}

/// A matrix of small integers, and its map with tiles of 64 columns and `tile` rows.
fn matrix(rows: usize, columns: usize, seed: usize, tile: u32) -> (Vec<bf16>, TensorMap) {
    let number = |i: usize| ((i * 31 + seed + i / 13) % 9) as f32 - 4.0;
    let numbers: Vec<bf16> = (0..rows * columns).map(|i| bf16::from_f32(number(i))).collect();
    let spec = TensorMapSpec::new::<bf16>([columns as u64, rows as u64], [64, tile]);
    let map = spec.with_swizzle(Swizzle::Bytes128).encode_for_cpu(&numbers).unwrap();
    (numbers, map)
}

#[test]
fn two_products_in_a_row() {
    let check = |on: &dyn Launcher| {
        let ((a, map_a), (b, map_b), (c, map_c)) =
            (matrix(64, 64, 1, 64), matrix(32, 64, 2, 32), matrix(32, 128, 3, 32));
        let mut out = vec![f32::NAN; 64 * 128];
        // SAFETY: the shapes, and one warpgroup.
        unsafe { two_products::launch(on, LaunchConfig::new(1, 128), map_a, map_b, map_c, &mut out) }
            .unwrap();
        let first = |row: usize, column: usize| -> f64 {
            let sum: f64 = (0..64).map(|k| f64::from((a[64 * row + k] * b[64 * column + k]).to_f32())).sum();
            // It is rounded for the second product.
            f64::from(bf16::from_f32(sum.max(0.0) as f32).to_f32())
        };
        for row in 0..64 {
            let firsts: Vec<f64> = (0..32).map(|k| first(row, k)).collect();
            for column in 0..128 {
                let second =
                    firsts.iter().enumerate().map(|(k, x)| x * f64::from(c[128 * k + column].to_f32()));
                assert_eq!(
                    f64::from(out[128 * row + column]),
                    second.sum::<f64>(),
                    "row {row}, column {column}"
                );
            }
        }
    };
    on_all(check, emulators_90a());
}

#[test]
fn tiles_for_all_blocks() {
    let check = |on: &dyn Launcher| {
        let (numbers, map) = matrix(128, 64, 4, 64);
        let mut out = vec![f32::NAN; 2 * numbers.len()];
        let config = LaunchConfig::new(2, 128).with_cluster(2);
        // SAFETY: the shapes, and a cluster of two blocks.
        unsafe { share_tiles::launch(on, config, map, &mut out) }.unwrap();
        let expected = numbers.iter().cycle().map(|number| number.to_f32());
        assert!(out.iter().copied().zip(expected).all(|(got, expected)| got == expected));
    };
    on_all(check, emulators());
}
