//! Every kernel against plain Rust, at odd sizes: on the CPU executor, and as PTX on the emulator.

use crate::common::{self, assert_close, numbers, on_all};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::simt::Executor;

const SIZES: [usize; 7] = [1, 31, 32, 33, 127, 256, 1000];

on_all! {
    vectors_add
    matrices_turn_over
    mathematics
    statistics_of_windows
    positives_are_counted_by_barriers
    positives_are_kept
    spheres_are_hit
    records_are_hashed
    lines_are_parsed
}

fn vectors_add(on: &dyn Launcher) {
    for n in SIZES {
        let (a, b, mut c) = (numbers(n, 1), numbers(n, 2), vec![0.0; n]);
        // SAFETY: `c` is as long as `a` and `b`, and the grid covers it.
        unsafe { vecadd::launch(on, LaunchConfig::cover(n, 64), &a, &b, &mut c) }.unwrap();
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        assert_eq!(c, expected);
    }
}

fn matrices_turn_over(on: &dyn Launcher) {
    for (rows, cols) in [(1, 1), (1, 33), (31, 17), (48, 16), (100, 65)] {
        let inp: Vec<u32> = (0..(rows * cols) as u32).collect();
        let mut out = vec![u32::MAX; rows * cols];
        let config = LaunchConfig::new(
            (cols.div_ceil(TILE) as u32, rows.div_ceil(TILE) as u32),
            (TILE as u32, TILE as u32),
        );
        // SAFETY: both matrices hold rows x cols elements, and the grid covers them.
        unsafe { transpose::launch(on, config, &inp, &mut out, rows as u32, cols as u32) }.unwrap();
        let expected: Vec<u32> =
            (0..cols).flat_map(|col| (0..rows).map(move |row| (row * cols + col) as u32)).collect();
        assert_eq!(out, expected, "{rows} x {cols}");
    }
}

fn mathematics(on: &dyn Launcher) {
    for n in SIZES {
        let inp: Vec<f32> = numbers(n, 6).into_iter().map(|x| x * 20.0).collect();
        let wide: Vec<f64> = inp.iter().map(|&x| f64::from(x)).collect();
        let config = LaunchConfig::cover(n, 96);
        let (mut swung, mut swung_wide, mut curved) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        // SAFETY: every output is as long as the input, and the grid covers it.
        unsafe {
            damped_sine::launch(on, config, &inp, &mut swung).unwrap();
            damped_sine_f64::launch(on, config, &wide, &mut swung_wide).unwrap();
            gelu::launch(on, config, &inp, &mut curved).unwrap();
        }
        let expected: Vec<f64> = wide.iter().map(|x| x.sin() * (-x.abs()).exp()).collect();
        assert_close(&swung, &expected, 1e-6, "damped_sine");
        for (i, (seen, expected)) in swung_wide.iter().zip(&expected).enumerate() {
            // The host's sine and libdevice's differ in the last places.
            let error: f64 = seen - expected;
            assert!(error.abs() <= 4.0 * f64::EPSILON * expected.abs(), "element {i}: {seen}, {expected}");
        }
        let expected: Vec<f64> = wide
            .iter()
            .map(|x| 0.5 * x * (1.0 + (0.797_884_6 * (x + 0.044_715 * x * x * x)).tanh()))
            .collect();
        assert_close(&curved, &expected, 1e-5, "gelu");
    }
}

fn statistics_of_windows(on: &dyn Launcher) {
    for n in SIZES {
        for radius in [0, 1, 7, 40] {
            let inp = numbers(n, 7);
            let mut out = vec![0.0; 2 * n];
            // A grid smaller than the input, so that threads take several elements.
            // SAFETY: `out` has two elements for each of `inp`.
            unsafe { moving_statistics::launch(on, LaunchConfig::new(2, 32), &inp, radius, &mut out) }
                .unwrap();
            let expected: Vec<f64> = (0..n)
                .flat_map(|i| {
                    let values: Vec<f64> = inp[i.saturating_sub(radius)..(i + radius + 1).min(n)]
                        .iter()
                        .map(|&x| f64::from(x))
                        .collect();
                    let mean = values.iter().sum::<f64>() / values.len() as f64;
                    let variance =
                        values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64;
                    [mean, variance.sqrt()]
                })
                .collect();
            assert_close(&out, &expected, 1e-5, &format!("n {n}, radius {radius}"));
        }
    }
}

fn positives_are_counted_by_barriers(on: &dyn Launcher) {
    let mut inp = numbers(200, 12);
    inp[128..].fill(1.0);
    inp[64..128].fill(-1.0);
    let mut counts = [9; 4];
    // SAFETY: a count for each of the four blocks.
    unsafe { count_positives::launch(on, LaunchConfig::new(4, 64), &inp, &mut counts) }.unwrap();
    assert_eq!(counts, [inp[..64].iter().filter(|x| **x > 0.0).count() as u32, 0, 0, 8]);
}

/// Barriers of one number in two places are one to a device; the executor names the place, since it is seldom meant.
#[test]
fn barriers_in_two_branches_meet_on_a_device() {
    let inp = numbers(64, 13);
    let mut out = vec![0.0; 64];
    // SAFETY: one block of 64 threads, with as many elements.
    unsafe { reverse_apart::launch(&common::emulator(), LaunchConfig::new(1, 64), &inp, &mut out) }.unwrap();
    for (i, (seen, inp)) in out.iter().zip(inp.iter().rev()).enumerate() {
        assert_eq!(*seen, inp + if i < 16 { 0.0 } else { 1.0 });
    }
    // SAFETY: as above.
    let result = unsafe { reverse_apart::launch(&Executor::new(), LaunchConfig::new(1, 64), &inp, &mut out) };
    let error = result.unwrap_err().to_string();
    assert!(error.contains("thread::sync_threads is not reached by"), "{error}");
}

fn positives_are_kept(on: &dyn Launcher) {
    for n in SIZES {
        let inp: Vec<i32> = numbers(n, 11).into_iter().map(|x| (x * 1000.0) as i32).collect();
        let (mut out, mut len) = (vec![0; n], [0]);
        // SAFETY: `out` is as long as `inp`; whole warps.
        unsafe { compact::launch(on, LaunchConfig::cover(n, 64), &inp, &mut out, &mut len) }.unwrap();
        let mut expected: Vec<i32> = inp.into_iter().filter(|&x| x > 0).collect();
        out.truncate(len[0] as usize);
        // The order of the warps is not defined, the elements are.
        out.sort_unstable();
        expected.sort_unstable();
        assert_eq!(out, expected);
    }
}

fn spheres_are_hit(on: &dyn Launcher) {
    let camera = Camera { origin: [0.0, 0.1, 3.0], width: 33, height: 17 };
    let spheres = [
        Sphere { center: [0.0, 0.0, 0.0], radius: 1.0 },
        Sphere { center: [1.0, 0.5, -2.0], radius: 0.75 },
        Sphere { center: [0.0, 0.0, 50.0], radius: 5.0 },
    ];
    let mut out = vec![0.0; 33 * 17];
    // SAFETY: one float a pixel, and the grid covers the picture.
    unsafe { trace::launch(on, LaunchConfig::new((5, 3), (8, 8)), camera, &spheres, &mut out) }.unwrap();
    let mut hits = 0;
    for (i, &seen) in out.iter().enumerate() {
        let x = ((i % 33) as f64 + 0.5) / 33.0 - 0.5;
        let y = ((i / 33) as f64 + 0.5) / 17.0 - 0.5;
        let length = (x * x + y * y + 1.0).sqrt();
        let direction = [x / length, y / length, -1.0 / length];
        let mut nearest = f64::INFINITY;
        let mut on_the_edge = false;
        for sphere in &spheres {
            let from: Vec<f64> = (0..3).map(|a| f64::from(camera.origin[a] - sphere.center[a])).collect();
            let half_b: f64 = (0..3).map(|a| from[a] * direction[a]).sum();
            let square: f64 = from.iter().map(|x| x * x).sum();
            let discriminant = half_b * half_b - (square - f64::from(sphere.radius).powi(2));
            on_the_edge |= discriminant.abs() < 1e-3;
            let distance = -half_b - discriminant.max(0.0).sqrt();
            if discriminant >= 0.0 && distance > 0.0 {
                nearest = nearest.min(distance);
            }
        }
        hits += usize::from(nearest.is_finite());
        // At a grazing ray the rounding decides between hit and miss.
        if !on_the_edge {
            assert_eq!(f64::from(seen).is_finite(), nearest.is_finite(), "pixel {i}");
            assert!(
                seen.is_infinite() || (f64::from(seen) - nearest).abs() < 1e-3,
                "pixel {i}: {seen}, {nearest}"
            );
        }
    }
    assert!(hits > 50, "the picture shows something: {hits} pixels");
}

/// SipHash-1-3 as its paper gives it (Aumasson and Bernstein, "SipHash: a fast short-input PRF").
fn siphash_1_3(key: [u64; 2], message: &[u8]) -> u64 {
    fn round([mut v0, mut v1, mut v2, mut v3]: [u64; 4]) -> [u64; 4] {
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v2 = v2.rotate_left(32);
        [v0, v1, v2, v3]
    }
    let mut v = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    // The message, zeros up to a whole word less one byte, and the length.
    let mut padded = message.to_vec();
    padded.resize(message.len() / 8 * 8 + 7, 0);
    padded.push(message.len() as u8);
    for word in padded.chunks_exact(8) {
        let word = u64::from_le_bytes(word.try_into().unwrap());
        v[3] ^= word;
        v = round(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    v = round(round(round(v)));
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

fn records_are_hashed(on: &dyn Launcher) {
    for width in [1, 7, 8, 9, 33] {
        let n = 77;
        let records: Vec<u8> = (0..n * width).map(|i| (i * i / 3) as u8).collect();
        let mut hashes = vec![0; n];
        // SAFETY: one hash a record.
        unsafe { hash_records::launch(on, LaunchConfig::cover(n, 32), &records, width, &mut hashes) }
            .unwrap();
        for (i, record) in records.chunks(width).enumerate() {
            let expected = siphash_1_3([i as u64, 0x0123_4567_89ab_cdef], record);
            assert_eq!(hashes[i], expected, "record {i} of {width} bytes");
        }
    }
}

fn lines_are_parsed(on: &dyn Launcher) {
    let lines = [
        ("x: 12", (b'x', 12)),
        ("y :-2147483648", (b'y', i32::MIN)),
        ("x  :  +7", (b'x', 7)),
        ("none", (0, 0)),
        ("z: 1", (255, 0)),
        ("x: 2147483648", (255, 0)),
        ("y: 3 4", (255, 0)),
        ("", (255, 0)),
        ("x:", (255, 0)),
    ];
    let text: String = lines.iter().map(|(line, _)| format!("{line:<16}")).collect();
    let (mut names, mut values) = (vec![1; lines.len()], vec![1; lines.len()]);
    // SAFETY: one name and one value a line.
    unsafe {
        parse_lines::launch(on, LaunchConfig::new(1, 32), text.as_bytes(), 16, &mut names, &mut values)
    }
    .unwrap();
    for (i, (line, expected)) in lines.iter().enumerate() {
        assert_eq!((names[i], values[i]), *expected, "{line:?}");
    }
}
