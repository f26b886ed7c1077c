//! Each program against plain Rust.

use crate::common::{assert_close, numbers, on_all};
use compat_kernels::*;
use cuda_std::glam::{UVec2, Vec3};
use cuda_std::launch::{LaunchConfig, Launcher};

const SIZES: [usize; 7] = [1, 31, 32, 33, 127, 256, 1000];

on_all! {
    matrices_multiply
    softmax_of_rows
    sums_meet_in_one_number
    bytes_are_counted
    pictures_are_the_hosts
    white_under_a_white_sky_is_white
    a_gray_ball_gives_back_what_it_reflects
}

fn matrices_multiply(on: &dyn Launcher) {
    for [m, n, k] in [[1, 1, 1], [17, 5, 33], [32, 48, 16], [3, 50, 0]] {
        let (a, b, before) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
        let mut c = before.clone();
        let config =
            LaunchConfig::new((n.div_ceil(TILE) as u32, m.div_ceil(TILE) as u32), (TILE as u32, TILE as u32));
        // SAFETY: the matrices hold m x k, k x n and m x n elements, and the grid covers the result.
        unsafe { gemm_tiled::launch(on, config, &a, &b, &mut c, m, n, k, 1.5, -0.5) }.unwrap();
        let expected: Vec<f64> = (0..m * n)
            .map(|i| {
                let products = (0..k).map(|j| f64::from(a[i / n * k + j]) * f64::from(b[j * n + i % n]));
                1.5 * products.sum::<f64>() - 0.5 * f64::from(before[i])
            })
            .collect();
        assert_close(&c, &expected, 1e-5, &format!("{m} x {n} x {k}"));
    }
}

fn softmax_of_rows(on: &dyn Launcher) {
    for cols in SIZES {
        let rows = 5;
        let mut inp: Vec<f32> = numbers(rows * cols, 8).into_iter().map(|x| x * 5.0).collect();
        // An outlier, without which the subtraction of the maximum would not matter.
        inp[0] = 200.0;
        let mut out = vec![0.0; rows * cols];
        // SAFETY: both matrices are rows x cols, one warp a row.
        unsafe { softmax_rows::launch(on, LaunchConfig::new(rows as u32, 32), &inp, cols, &mut out) }
            .unwrap();
        let expected: Vec<f64> = inp
            .chunks(cols)
            .flat_map(|row| {
                let max = row.iter().copied().fold(f32::MIN, f32::max);
                let exps: Vec<f64> = row.iter().map(|&x| (f64::from(x) - f64::from(max)).exp()).collect();
                let sum: f64 = exps.iter().sum();
                exps.into_iter().map(move |e| e / sum)
            })
            .collect();
        assert_close(&out, &expected, 1e-6, &format!("{cols} columns"));
    }
}

fn sums_meet_in_one_number(on: &dyn Launcher) {
    for n in SIZES {
        for threads in [32, 96, 1024] {
            let inp = numbers(n, 9);
            let mut total = [10.0];
            // SAFETY: one number to add to; whole warps.
            unsafe { sum::launch(on, LaunchConfig::cover(n, threads), &inp, &mut total) }.unwrap();
            let expected = 10.0 + inp.iter().map(|&x| f64::from(x)).sum::<f64>();
            assert_close(&total, &[expected], 1e-4, &format!("{n} numbers, {threads} threads"));
        }
    }
}

fn bytes_are_counted(on: &dyn Launcher) {
    for n in SIZES {
        let text: Vec<u8> = numbers(n, 10).into_iter().map(|x| (x * 100.0) as i8 as u8).collect();
        let mut counts = [0; 256];
        let config = LaunchConfig::new(3, 70).with_shared_bytes(256 * 4);
        // SAFETY: 256 bins in shared memory and in the result.
        unsafe { histogram::launch(on, config, &text, &mut counts) }.unwrap();
        let mut expected = [0; 256];
        text.iter().for_each(|&byte| expected[byte as usize] += 1);
        assert_eq!(counts, expected);
    }
}

const WHITE: [Vec3; 2] = [Vec3::ONE; 2];

fn view(samples: u32, sky: [Vec3; 2]) -> Scene {
    Scene { size: UVec2::new(37, 23), origin: Vec3::ZERO, height: 1.2, sky, samples, seed: 7 }
}

fn picture(on: &dyn Launcher, view: &Scene, balls: &[Ball]) -> Vec<Vec3> {
    let mut out = vec![Vec3::NAN; (view.size.x * view.size.y) as usize];
    let grid = (view.size.x.div_ceil(8), view.size.y.div_ceil(8));
    // SAFETY: the picture has as many pixels, and the grid covers them.
    unsafe { render::launch(on, LaunchConfig::new(grid, (8, 8)), &[*view], balls, &mut out) }.unwrap();
    out
}

fn balls() -> [Ball; 5] {
    let ball = |x, y, z, radius, material| Ball { center: Vec3::new(x, y, z), radius, material };
    [
        ball(0.0, -100.5, -1.5, 100.0, Material::Diffuse { albedo: Vec3::new(0.8, 0.8, 0.1) }),
        ball(0.0, 0.0, -1.5, 0.5, Material::Diffuse { albedo: Vec3::new(0.1, 0.2, 0.5) }),
        ball(-1.0, 0.0, -1.5, 0.5, Material::Glass { index: 1.5 }),
        ball(-1.0, 0.0, -1.5, -0.45, Material::Glass { index: 1.5 }),
        ball(1.0, 0.0, -1.5, 0.5, Material::Metal { albedo: Vec3::new(0.8, 0.6, 0.2), roughness: 0.3 }),
    ]
}

fn pictures_are_the_hosts(on: &dyn Launcher) {
    let view = view(4, [Vec3::new(0.5, 0.7, 1.0), Vec3::ONE]);
    let seen = picture(on, &view, &balls());
    let mut strays = 0;
    for (i, seen) in seen.iter().enumerate() {
        let at = UVec2::new(i as u32 % view.size.x, i as u32 / view.size.x);
        let expected = pixel(&view, &balls(), at);
        assert!(seen.is_finite() && seen.min_element() >= 0.0, "{at}: {seen}");
        // A last bit that differs can let a path miss an edge, and with it a pixel differ.
        strays += usize::from((*seen - expected).abs().max_element() > 1e-3);
    }
    assert!(strays <= seen.len() / 50, "{strays} of {} pixels differ", seen.len());
}

fn white_under_a_white_sky_is_white(on: &dyn Launcher) {
    let white = balls().map(|ball| match ball.material {
        Material::Diffuse { .. } => Ball { material: Material::Diffuse { albedo: Vec3::ONE }, ..ball },
        _ => Ball { material: Material::Glass { index: 1.5 }, ..ball },
    });
    let view = view(8, WHITE);
    // Nothing is absorbed, so only paths that are given up lose light.
    let seen = picture(on, &view, &white);
    let mean = seen.iter().sum::<Vec3>() / seen.len() as f32;
    assert!(seen.iter().all(|pixel| pixel.max_element() <= 1.001), "light from nowhere");
    assert!(mean.min_element() > 0.97, "{mean}");
}

fn a_gray_ball_gives_back_what_it_reflects(on: &dyn Launcher) {
    let albedo = Vec3::new(0.25, 0.5, 0.75);
    let ball =
        Ball { center: Vec3::new(0.0, 0.0, -3.0), radius: 1.0, material: Material::Diffuse { albedo } };
    let view = view(4, WHITE);
    let seen = picture(on, &view, &[ball]);
    // A path leaves a lone ball after one reflection.
    let middle = seen[(view.size.y / 2 * view.size.x + view.size.x / 2) as usize];
    assert!((middle - albedo).abs().max_element() < 1e-5, "{middle}");
    assert!((seen[0] - Vec3::ONE).abs().max_element() < 1e-6, "{}", seen[0]);
}
