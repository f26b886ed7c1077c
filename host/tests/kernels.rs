//! Every kernel of the network against its f64 oracle, at sizes that fit no tile: on the CPU executor, and as the
//! PTX that a GPU gets, on the emulator.

use cuda_std::launch::{LaunchConfig, Launcher};
use ferrowarp_cases::emulated;
use ferrowarp_cases::reference::{self, LayerShape, Sum};
use gpu_kernels::mlp::{activation, batch, fused_backward, fused_forward, fused_update, linear, loss, sgd};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// Odd ones, ones below and above every tile, and the network's own.
const SHAPES: [(usize, usize, usize); 10] = [
    (1, 1, 1),
    (1, 31, 33),
    (31, 33, 1),
    (33, 1, 31),
    (2, 784, 10),
    (33, 31, 65),
    (64, 64, 64),
    (65, 100, 33),
    (63, 129, 67),
    (64, 300, 100),
];

/// Makes a test of each check on each launcher.
macro_rules! on_both {
    ($($check:ident)*) => {
        mod on_the_executor {
            $(#[test] fn $check() { super::$check(&cuda_std::simt::Executor::new()); })*
        }
        mod as_ptx {
            $(#[test] fn $check() { ferrowarp_cases::emulated::by_each().iter().for_each(|on| super::$check(on)); })*
        }
    };
}

on_both! {
    forward_kernels_agree_with_the_oracle
    backward_kernels_agree_with_the_oracle
    updates_agree_with_the_oracle
    relu_agrees_with_its_definition
    softmax_and_losses_agree_with_the_oracle
    batches_hold_the_samples_they_should
}

#[test]
fn kernels_in_another_order_for_a_newer_architecture() {
    for on in emulated::newer_by_each() {
        forward_kernels_agree_with_the_oracle(&on);
        backward_kernels_agree_with_the_oracle(&on);
        updates_agree_with_the_oracle(&on);
    }
}

fn shapes() -> impl Iterator<Item = LayerShape> {
    SHAPES.into_iter().map(|(batch, inputs, outputs)| LayerShape { batch, inputs, outputs })
}

/// Values in -1..1 with a few outliers, without which a wrong index can hide.
fn random(len: usize, seed: u64) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut values: Vec<f32> = (0..len).map(|_| rng.random_range(-1.0..1.0)).collect();
    for _ in 0..len / 50 {
        let at = rng.random_range(0..len);
        values[at] *= 100.0;
    }
    values
}

/// Poison, so that an element nobody writes is seen.
fn unwritten(len: usize) -> Vec<f32> {
    vec![f32::NAN; len]
}

/// Checks sums of `terms` terms: each rounding moves the result by at most half an ulp of the magnitude.
fn assert_sums(got: &[f32], want: &[Sum], terms: usize, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (&got, want)) in got.iter().zip(want).enumerate() {
        let bound = (terms + 2) as f64 * f64::from(f32::EPSILON) * want.magnitude + 1e-30;
        let error = (f64::from(got) - want.value).abs();
        assert!(error <= bound, "{what}: element {i} is {got}, expected {} within {bound:e}", want.value);
    }
}

fn assert_close(got: &[f32], want: &[f64], relative: f64, absolute: f64, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}: length");
    for (i, (&got, &want)) in got.iter().zip(want).enumerate() {
        let error = (f64::from(got) - want).abs();
        let bound = relative * want.abs() + absolute;
        assert!(error <= bound, "{what}: element {i} is {got}, expected {want}, off by {error:e}");
    }
}

/// A thread per element of `[rows, cols]`.
fn per_element(rows: usize, cols: usize) -> LaunchConfig {
    LaunchConfig::new((cols.div_ceil(16) as u32, rows.div_ceil(8) as u32), (16, 8))
}

fn tiles(rows: usize, cols: usize, (bm, bn, threads): (usize, usize, u32)) -> LaunchConfig {
    LaunchConfig::new((cols.div_ceil(bn) as u32, rows.div_ceil(bm) as u32), threads)
}

const T64X64: (usize, usize, u32) = (64, 64, 64);
const T64X32: (usize, usize, u32) = (64, 32, 32);
const T32X32: (usize, usize, u32) = (32, 32, 64);

struct LayerData {
    inp: Vec<f32>,
    weights: Vec<f32>,
    biases: Vec<f32>,
    d_out: Vec<f32>,
}

fn layer_data(shape: LayerShape) -> LayerData {
    let LayerShape { batch, inputs, outputs } = shape;
    LayerData {
        inp: random(batch * inputs, 1),
        weights: random(inputs * outputs, 2),
        biases: random(outputs, 3),
        d_out: random(batch * outputs, 4),
    }
}

fn forward_kernels_agree_with_the_oracle(on: &dyn Launcher) {
    for shape in shapes() {
        let LayerShape { batch, inputs, outputs } = shape;
        let LayerData { inp, weights, biases, .. } = layer_data(shape);
        let want = reference::linear_forward(&inp, &weights, &biases, shape);
        let relu = want.iter().map(|sum| Sum { value: sum.value.max(0.0), ..*sum }).collect::<Vec<_>>();
        macro_rules! check {
            ($kernel:path, $config:expr, $want:expr) => {{
                use $kernel as kernel;
                let mut out = unwritten(batch * outputs);
                let (b, i, o) = (batch as u32, inputs as u32, outputs as u32);
                // SAFETY: the buffers have the layer's shapes, and the grid is the kernel's.
                unsafe { kernel::launch(on, $config, &mut out, &inp, &weights, &biases, b, i, o) }.unwrap();
                assert_sums(&out, $want, inputs + 1, &format!("{} {shape:?}", kernel::META.name));
            }};
        }
        check!(linear::linear_forward, per_element(batch, outputs), &want);
        check!(fused_forward::linear_forward_64x64, tiles(batch, outputs, T64X64), &want);
        check!(fused_forward::linear_forward_64x32, tiles(batch, outputs, T64X32), &want);
        check!(fused_forward::linear_forward_32x32, tiles(batch, outputs, T32X32), &want);
        check!(fused_forward::linear_relu_forward_64x64, tiles(batch, outputs, T64X64), &relu);
        check!(fused_forward::linear_relu_forward_64x32, tiles(batch, outputs, T64X32), &relu);
        check!(fused_forward::linear_relu_forward_32x32, tiles(batch, outputs, T32X32), &relu);
    }
}

fn backward_kernels_agree_with_the_oracle(on: &dyn Launcher) {
    for shape in shapes() {
        let LayerShape { batch, inputs, outputs } = shape;
        let LayerData { inp, weights, d_out, .. } = layer_data(shape);
        let (b, i, o) = (batch as u32, inputs as u32, outputs as u32);
        let want = reference::linear_backward_input(&d_out, &weights, shape);
        let mut d_inp = unwritten(batch * inputs);
        let config = per_element(batch, inputs);
        // SAFETY: the buffers have the layer's shapes, and the grid covers the inputs.
        unsafe { linear::linear_backward_input::launch(on, config, &mut d_inp, &d_out, &weights, b, i, o) }
            .unwrap();
        assert_sums(&d_inp, &want, outputs, &format!("linear_backward_input {shape:?}"));

        let through = |(sum, &x): (&Sum, &f32)| if x > 0.0 { *sum } else { Sum::default() };
        let masked = want.iter().zip(&inp).map(through).collect::<Vec<_>>();
        macro_rules! check {
            ($kernel:ident, $tile:expr) => {{
                use fused_backward::$kernel as kernel;
                let mut d_inp = unwritten(batch * inputs);
                let config = tiles(batch, inputs, $tile);
                // SAFETY: the buffers have the layer's shapes, and the grid is the kernel's.
                unsafe { kernel::launch(on, config, &mut d_inp, &d_out, &weights, &inp, b, i, o) }.unwrap();
                assert_sums(&d_inp, &masked, outputs, &format!("{} {shape:?}", kernel::META.name));
            }};
        }
        check!(linear_relu_backward_64x64, T64X64);
        check!(linear_relu_backward_64x32, T64X32);
        check!(linear_relu_backward_32x32, T32X32);
    }
}

fn updates_agree_with_the_oracle(on: &dyn Launcher) {
    for (shape, momentum) in shapes().flat_map(|shape| [(shape, 0.0f32), (shape, 0.9)]) {
        let LayerShape { batch, inputs, outputs } = shape;
        let LayerData { inp, weights, biases, d_out } = layer_data(shape);
        let (velocity_w, velocity_b) = (random(inputs * outputs, 5), random(outputs, 6));
        let (b, i, o, lr) = (batch as u32, inputs as u32, outputs as u32, 0.1f32);
        let (d_weights, d_biases) = reference::parameter_gradients(&inp, &d_out, shape);
        // The bound covers the gradient's own and the two roundings of the step.
        let stepped = |start: &[f32], velocity: &[f32], gradients: &[Sum], scale: f64| {
            let step = |((&p, &v), g): ((&f32, &f32), &Sum)| {
                let (p, v) = (f64::from(p), f64::from(v));
                let (value, _) = reference::sgd_step(p, v, g.value * scale, lr.into(), f64::from(momentum));
                Sum { value, magnitude: p.abs() + v.abs() + g.magnitude * scale }
            };
            start.iter().zip(velocity).zip(gradients).map(step).collect::<Vec<_>>()
        };
        macro_rules! check {
            ($kernel:path, $config:expr, $scale:expr) => {{
                use $kernel as kernel;
                let (mut w, mut c) = (weights.clone(), biases.clone());
                let (mut vw, mut vb) = (velocity_w.clone(), velocity_b.clone());
                // SAFETY: the buffers have the layer's shapes, and the grid is the kernel's.
                unsafe {
                    kernel::launch(
                        on, $config, &mut w, &mut c, &mut vw, &mut vb, &inp, &d_out, b, i, o, lr, momentum,
                    )
                }
                .unwrap();
                let what = format!("{} {shape:?} momentum {momentum}", kernel::META.name);
                assert_sums(&w, &stepped(&weights, &velocity_w, &d_weights, $scale), batch + 2, &what);
                assert_sums(&c, &stepped(&biases, &velocity_b, &d_biases, $scale), batch + 2, &what);
                if momentum == 0.0 {
                    assert_eq!((vw, vb), (velocity_w.clone(), velocity_b.clone()), "{what}: velocities");
                }
            }};
        }
        check!(sgd::update_layer, per_element(inputs, outputs), 1.0 / batch as f64);
        check!(fused_update::linear_update_64x64, tiles(inputs, outputs, T64X64), 1.0);
        // Fewer blocks than tiles: each walks down the rows.
        let two_rows = LaunchConfig::new((outputs.div_ceil(32) as u32, 2), 64);
        check!(fused_update::linear_update_32x32, two_rows, 1.0);
        check!(fused_update::linear_update_64x32, tiles(inputs, outputs, T64X32), 1.0);
        check!(fused_update::linear_update_32x32, tiles(inputs, outputs, T32X32), 1.0);
    }
}

fn relu_agrees_with_its_definition(on: &dyn Launcher) {
    for (rows, cols) in [(1, 1), (1, 31), (33, 31), (7, 129)] {
        let (inp, d_out) = (random(rows * cols, 1), random(rows * cols, 2));
        let (mut out, mut d_inp) = (unwritten(rows * cols), unwritten(rows * cols));
        let (config, r, c) = (per_element(rows, cols), rows as u32, cols as u32);
        // SAFETY: the buffers have the shape, and the grid covers it.
        unsafe {
            activation::relu_forward::launch(on, config, &mut out, &inp, r, c).unwrap();
            activation::relu_backward::launch(on, config, &mut d_inp, &d_out, &out, r, c).unwrap();
        }
        assert_eq!(out, inp.iter().map(|&x| x.max(0.0)).collect::<Vec<_>>());
        let passed = inp.iter().zip(&d_out).map(|(&x, &d)| if x > 0.0 { d } else { 0.0 });
        assert_eq!(d_inp, passed.collect::<Vec<_>>());
    }
}

/// Rows that are hard on a softmax: spread out, all equal, very large, very small, one far above the rest.
fn hard_logits(rows: usize, cols: usize) -> Vec<f32> {
    let mut logits = random(rows * cols, 7);
    for (row, values) in logits.chunks_mut(cols).enumerate() {
        match row % 6 {
            1 => values.fill(3.5),
            2 => values.iter_mut().for_each(|x| *x = *x * 10.0 + 1e4),
            3 => values.iter_mut().for_each(|x| *x = *x * 10.0 - 1e4),
            4 => values[cols / 2] = 90.0,
            5 => values.fill(f32::MIN),
            _ => {}
        }
    }
    logits
}

fn softmax_and_losses_agree_with_the_oracle(on: &dyn Launcher) {
    for (rows, cols) in [(1, 1), (1, 10), (31, 10), (64, 10), (33, 31), (13, 1025)] {
        let logits = hard_logits(rows, cols);
        let labels: Vec<u32> = (0..rows).map(|row| (row * 7 % cols) as u32).collect();
        let (config, r, c) = (per_element(rows, cols), rows as u32, cols as u32);
        let by_row = LaunchConfig::cover(rows, 32);
        let what = format!("{rows} x {cols}");

        let (mut probs, mut targets) = (unwritten(rows * cols), unwritten(rows * cols));
        let (mut row_loss, mut gradient) = (unwritten(rows), unwritten(rows * cols));
        let mut hits = vec![7; rows];
        // SAFETY: the buffers have the shapes, the grids cover them, and the labels are columns.
        unsafe {
            loss::softmax_naive::launch(on, config, &mut probs, &logits, r, c).unwrap();
            loss::one_hot::launch(on, config, &mut targets, &labels, r, c).unwrap();
            loss::cross_entropy_loss::launch(on, by_row, &mut row_loss, &probs, &targets, r, c).unwrap();
            loss::cross_entropy_backward::launch(on, config, &mut gradient, &probs, &targets, r, c).unwrap();
            loss::count_correct::launch(on, by_row, &mut hits, &probs, &labels, r, c).unwrap();
        }
        assert_close(&probs, &reference::softmax(&logits, cols), 1e-6 + cols as f64 * 6e-8, 1e-37, &what);
        for row in probs.chunks(cols) {
            let sum: f64 = row.iter().map(|&p| f64::from(p)).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{what}: a row sums to {sum}");
        }
        for (row, &label) in labels.iter().enumerate() {
            let one_hot = (0..cols).map(|col| if col == label as usize { 1.0 } else { 0.0 });
            assert_eq!(targets[row * cols..][..cols], one_hot.collect::<Vec<_>>(), "{what}: targets");
        }
        assert_close(&row_loss, &reference::cross_entropy_loss(&probs, &targets, cols), 1e-6, 1e-7, &what);
        let difference = probs.iter().zip(&targets).map(|(p, t)| p - t).collect::<Vec<_>>();
        assert_eq!(gradient, difference, "{what}: gradient");
        let expected = probs.chunks(cols).zip(&labels);
        let expected = expected.map(|(row, &label)| u32::from(reference::argmax(row) == label as usize));
        assert_eq!(hits, expected.collect::<Vec<_>>(), "{what}: hits");
    }
}

#[test]
fn the_order_of_an_epoch_is_a_permutation_that_seed_and_epoch_change() {
    for len in [1, 2, 3, 31, 64, 1000, 60_000] {
        let order = |seed, epoch| (0..len).map(|i| batch::permuted(i, len, seed, epoch)).collect::<Vec<_>>();
        let first = order(42, 1);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..len).collect::<Vec<_>>(), "{len} samples");
        if len >= 31 {
            assert_ne!(first, order(42, 2), "{len} samples: another epoch");
            assert_ne!(first, order(43, 1), "{len} samples: another seed");
            assert_ne!(
                first,
                order(42 + (1 << 32), 1),
                "{len} samples: a seed that differs in its upper half"
            );
            let fixed = first.iter().enumerate().filter(|(i, p)| *i == **p as usize).count();
            assert!(fixed < 10, "{len} samples: {fixed} stay in place");
        }
    }
}

fn batches_hold_the_samples_they_should(on: &dyn Launcher) {
    for (samples, features, first, rows) in
        [(1, 1, 0, 1), (50, 784, 32, 18), (40, 33, 3, 31), (70, 16, 0, 70)]
    {
        let images: Vec<u8> = (0..samples * features).map(|i| (i * 31 % 256) as u8).collect();
        let labels: Vec<u8> = (0..samples).map(|i| (i % 10) as u8).collect();
        let config = LaunchConfig::new((1, rows as u32), (batch::THREADS_PER_SAMPLE, 1));
        let (mut out, mut picked) = (unwritten(rows * features), vec![99; rows]);
        let check = |out: &[f32], picked: &[u32], sample_of: &dyn Fn(u32) -> u32| {
            for row in 0..rows {
                let sample = sample_of((first + row) as u32) as usize;
                assert_eq!(picked[row], u32::from(labels[sample]), "label of row {row}");
                let pixels = &images[sample * features..][..features];
                let want = pixels.iter().map(|&p| f64::from(p) / 255.0).collect::<Vec<_>>();
                assert_close(&out[row * features..][..features], &want, 2e-7, 0.0, "pixels");
            }
        };
        let (s, f, start, r) = (samples as u32, features as u32, first as u32, rows as u32);
        // SAFETY: the rows lie in the data set, and the buffers hold them.
        unsafe {
            batch::shuffled_batch::launch(
                on,
                config,
                &mut out,
                &mut picked,
                &images,
                &labels,
                s,
                f,
                start,
                r,
                9,
                4,
            )
        }
        .unwrap();
        check(&out, &picked, &|index| batch::permuted(index, s, 9, 4));
        let (mut out, mut picked) = (unwritten(rows * features), vec![99; rows]);
        // SAFETY: as above.
        unsafe {
            batch::ordered_batch::launch(on, config, &mut out, &mut picked, &images, &labels, f, start, r)
        }
        .unwrap();
        check(&out, &picked, &|index| index);
    }
}

#[test]
fn the_table_lists_every_kernel_once() {
    let mut names: Vec<&str> = gpu_kernels::KERNELS.iter().map(|meta| meta.name).collect();
    let listed = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), listed, "a kernel is listed twice");
}
