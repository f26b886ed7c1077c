//! Errors that texts on CUDA print, as kernels of our own, and what a test on a laptop says about each. The page
//! `docs/learn/errata.md` quotes both; this test compares the messages with it.

use std::error::Error as _;

use cuda_std::launch::LaunchConfig;
use cuda_std::testing::{KernelTest, Layout, TestError};
use cuda_std::{kernel, shared_array, thread, warp};

/// Checks that the page has the message of a run that must fail.
#[track_caller]
fn is_quoted<T>(run: Result<T, TestError>) {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../../docs/learn/errata.md");
    let page = std::fs::read_to_string(page).unwrap();
    let error = run.err().expect("the kernel passed its test");
    let message = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    let is_there = page.lines().any(|line| line == message);
    assert!(is_there, "docs/learn/errata.md does not quote this line:\n{message}\n");
}

/// # Safety
/// `out` is as long as `inp`.
#[kernel]
unsafe fn relu(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        // SAFETY: `i` lies in both.
        unsafe { *out.add(i) = inp[i].max(0.0) };
    }
}

#[test]
fn blocks_of_2048() {
    let mut test = KernelTest::new();
    let inp = test.input("inp", &[1.0f32; 4096]);
    let out = test.output("out", &[0.0f32; 4096]);
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        let config = LaunchConfig::cover(4096, 2048);
        relu::launch(on, config, memory.output(out), memory.input(inp))
    }));
}

/// # Safety
/// `d_weights` has `inputs * outputs` elements.
#[kernel]
unsafe fn weight_gradient(
    d_weights: *mut f32,
    activations: &[f32],
    d_out: &[f32],
    batch: usize,
    inputs: usize,
    outputs: usize,
) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    if row < inputs && col < outputs {
        let mut d_weight = 0.0;
        for i in 0..batch {
            d_weight += activations[i * inputs + row] + d_out[i * outputs + col];
        }
        // SAFETY: row and column lie in the matrix.
        unsafe { *d_weights.add(row * outputs + col) = d_weight };
    }
}

#[test]
fn a_sum_in_place_of_a_product() {
    let (activations, d_out) = ([1.0f32, 2.0, 3.0, 4.0], [0.5f32, -0.5]);
    let mut test = KernelTest::new();
    let (a, d) = (test.input("activations", &activations), test.input("d_out", &d_out));
    let out = test.unwritten::<f32>("d_weights", Layout::dense(1, 2));
    // Two samples of two inputs and one output.
    test.expect(out, &[1.0 * 0.5 - 3.0 * 0.5, 2.0 * 0.5 - 4.0 * 0.5]);
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        let config = LaunchConfig::new(1, (32, 2));
        weight_gradient::launch(on, config, memory.output(out), memory.input(a), memory.input(d), 2, 2, 1)
    }));
}

/// # Safety
/// `d_inp` has `batch * inputs` elements.
#[kernel]
unsafe fn input_gradient(
    d_inp: *mut f32,
    d_out: &[f32],
    weights: &[f32],
    batch: usize,
    inputs: usize,
    outputs: usize,
) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    if row < batch && col < inputs {
        let mut sum = 0.0;
        for i in 0..outputs {
            sum += weights[i * inputs + col] * d_out[row * outputs + i];
        }
        // SAFETY: row and column lie in the matrix.
        unsafe { *d_inp.add(row * inputs + col) = sum };
    }
}

#[test]
fn weights_that_are_not_transposed() {
    // The forward pass takes weight [input, output] at `input * outputs + output`: here 2 inputs and 3 outputs.
    let weights = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let mut test = KernelTest::new();
    let (d, w) = (test.input("d_out", &[1.0f32, 0.0, 0.0]), test.input("weights", &weights));
    let out = test.unwritten::<f32>("d_inp", Layout::dense(1, 2));
    test.expect(out, &[1.0, 4.0]);
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        let config = LaunchConfig::new(1, (32, 1));
        input_gradient::launch(on, config, memory.output(out), memory.input(d), memory.input(w), 1, 2, 3)
    }));
}

const SIDE: usize = 4;

/// # Safety
/// Blocks of `SIDE * SIDE` threads; `out` has `n * n` elements.
#[kernel]
unsafe fn tiled(out: *mut f32, a: &[f32], b: &[f32], n: usize) {
    let (a_tile, b_tile) = (shared_array![f32; SIDE * SIDE], shared_array![f32; SIDE * SIDE]);
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    let mut sum = 0.0;
    // SAFETY: each thread writes its own words, and barriers separate writing and reading.
    unsafe {
        for offset in (0..n).step_by(SIDE) {
            let is_in_a = offset * tx < n && row < n;
            *a_tile.add(ty * SIDE + tx) = if is_in_a { a[row * n + offset + tx] } else { 0.0 };
            let is_in_b = offset * ty < n && col < n;
            *b_tile.add(ty * SIDE + tx) = if is_in_b { b[(offset + ty) * n + col] } else { 0.0 };
            thread::sync_threads();
            for i in 0..SIDE {
                sum += *a_tile.add(ty * SIDE + i) * *b_tile.add(i * SIDE + tx);
            }
            thread::sync_threads();
        }
        if row < n && col < n {
            *out.add(row * n + col) = sum;
        }
    }
}

#[test]
fn a_product_in_place_of_a_sum() {
    // All ones, so each result is the number of terms.
    let mut test = KernelTest::new();
    let (a, b) = (test.input("a", &[1.0f32; 64]), test.input("b", &[1.0f32; 64]));
    let out = test.unwritten::<f32>("out", Layout::dense(1, 64));
    test.expect(out, &[8.0; 64]);
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        let config = LaunchConfig::new((2, 2), (SIDE as u32, SIDE as u32));
        tiled::launch(on, config, memory.output(out), memory.input(a), memory.input(b), 8)
    }));
}

/// # Safety
/// `d_inp` has `height * width` elements.
#[kernel]
unsafe fn relu_backward(d_inp: *mut f32, activations: &[f32], d_out: &[f32], width: usize, height: usize) {
    let (col, row) = (thread::index_2d().x as usize, thread::index_2d().y as usize);
    if row < width && col < height {
        let i = row * width + col;
        // SAFETY: none: rows and columns are mixed up.
        unsafe { *d_inp.add(i) = if activations[i] > 0.0 { d_out[i] } else { 0.0 } };
    }
}

#[test]
fn rows_and_columns_mixed_up() {
    let mut test = KernelTest::new();
    let (x, d) = (test.input("activations", &[1.0f32; 15]), test.input("d_out", &[1.0f32; 15]));
    let out = test.unwritten::<f32>("d_inp", Layout::dense(1, 15));
    // SAFETY: not as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        let config = LaunchConfig::new(1, (5, 5));
        relu_backward::launch(on, config, memory.output(out), memory.input(x), memory.input(d), 5, 3)
    }));
}

/// # Safety
/// `out` has as many elements as `inp`, at most 32.
#[kernel]
unsafe fn softmax(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        let mut max = f32::MIN_POSITIVE;
        for &x in inp {
            max = max.max(x);
        }
        let mut sum = 0.0;
        for &x in inp {
            sum += (x - max).exp();
        }
        // SAFETY: `i` lies in both.
        unsafe { *out.add(i) = (inp[i] - max).exp() / sum };
    }
}

#[test]
fn the_least_positive_float_as_the_least() {
    let mut test = KernelTest::new();
    let inp = test.input("inp", &[-200.0f32, -200.0]);
    let out = test.unwritten::<f32>("out", Layout::dense(1, 2));
    test.expect(out, &[0.5, 0.5]);
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        softmax::launch(on, LaunchConfig::new(1, 32), memory.output(out), memory.input(inp))
    }));
}

/// # Safety
/// One block of 64 threads, one per element; `out` has one element.
#[kernel]
unsafe fn largest(out: *mut f32, inp: &[f32]) {
    let of_warps = shared_array![f32; 2];
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: all threads reach the barrier; each warp writes its own word.
    unsafe {
        let max = warp::reduce_max(inp[tid]);
        if tid.is_multiple_of(32) {
            *of_warps.add(tid / 32) = max;
        }
        thread::sync_threads();
        if tid < 32 {
            let max = warp::reduce_max(if tid < 2 { *of_warps.add(tid) } else { 0.0 });
            if tid == 0 {
                *out = max;
            }
        }
    }
}

#[test]
fn zero_as_the_neutral_element_of_a_maximum() {
    let inp: [f32; 64] = core::array::from_fn(|i| -1.0 - i as f32);
    let mut test = KernelTest::new();
    let inp = test.input("inp", &inp);
    let out = test.unwritten::<f32>("out", Layout::dense(1, 1));
    test.expect(out, &[-1.0]);
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        largest::launch(on, LaunchConfig::new(1, 64), memory.output(out), memory.input(inp))
    }));
}

/// # Safety
/// Blocks of 64 threads, one per element; `sums` has an element per block.
#[kernel]
unsafe fn block_sum(sums: *mut f32, inp: &[f32]) {
    let x = shared_array![f32; 64];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    // SAFETY: none: no barrier separates the rounds.
    unsafe {
        *x.add(tid) = inp[i];
        thread::sync_threads();
        let mut stride = 1;
        while stride < 64 {
            if tid.is_multiple_of(2 * stride) {
                *x.add(tid) += *x.add(tid + stride);
            }
            stride *= 2;
        }
        thread::sync_threads();
        if tid == 0 {
            *sums.add(thread::block_idx_x() as usize) = *x;
        }
    }
}

#[test]
fn no_barrier_between_rounds() {
    let mut test = KernelTest::new();
    let inp = test.input("inp", &[1.0f32; 64]);
    let sums = test.unwritten::<f32>("sums", Layout::dense(1, 1));
    test.expect(sums, &[64.0]);
    // SAFETY: not as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        block_sum::launch(on, LaunchConfig::new(1, 64), memory.output(sums), memory.input(inp))
    }));
}

/// Elements of a page of 64 KiB.
const PAGE: usize = 65536 / size_of::<f32>();

/// # Safety
/// Blocks of whole warps; `x` has `n` elements.
#[kernel]
unsafe fn warp_per_page(x: *mut f32, n: usize) {
    let (lane, warp) = (thread::thread_idx_x() as usize % 32, thread::index_1d() as usize / 32);
    for rep in 0..PAGE / 32 {
        let i = warp * PAGE / 32 + rep * 32 + lane;
        if i < n {
            // SAFETY: checked just before; warps write the same number where they overlap.
            unsafe { *x.add(i) = 1.0 };
        }
    }
}

#[test]
fn pages_that_overlap() {
    let mut test = KernelTest::new();
    let x = test.unwritten::<f32>("x", Layout::dense(1, 2 * PAGE));
    // SAFETY: as the kernel requires.
    is_quoted(test.run(|on, memory| unsafe {
        warp_per_page::launch(on, LaunchConfig::new(1, 64), memory.output(x), 2 * PAGE)
    }));
}
