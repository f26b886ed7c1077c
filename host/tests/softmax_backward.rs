//! Backward of softmax and log-softmax, every type and width, against the f64 oracle: on the CPU executor, and as PTX
//! on the emulator.

use cuda_std::launch::{Launcher, RawBuffer};
use cuda_std::simt::Executor;
use ferrowarp_cases::emulated;
use ferrowarp_cases::matrix::{Layout, Problem, bits, is_close, rounded};
use ferrowarp_cases::reference::{self, Number};
use gpu_kernels::softmax::backward::{BackwardArgs, BackwardArgsHost, LOG};
use gpu_kernels::softmax::operation::Variant;
use proptest::prelude::{Strategy, any, proptest};
use proptest::test_runner::Config;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// One problem; `dx` has `layouts[0]`, `dy` the next, `y` the last.
#[derive(Clone, Debug)]
struct Rows {
    layouts: [Layout; 3],
    dy: Vec<f32>,
    y: Vec<f32>,
    scale: f32,
    is_log: bool,
}

impl Rows {
    /// Probabilities or their logarithms, some of them 0 or -inf, and gradients in -1..1.
    fn random(layouts: [Layout; 3], is_log: bool, seed: u64) -> Self {
        let Layout { rows, cols, .. } = layouts[0];
        let mut rng = StdRng::seed_from_u64(seed);
        let mut numbers = |range: std::ops::Range<f32>| -> Vec<f32> {
            (0..rows * cols).map(|_| rng.random_range(range.clone())).collect()
        };
        let (dy, mut logits) = (numbers(-1.0..1.0), numbers(-6.0..6.0));
        for (row, logits) in logits.chunks_mut(cols).enumerate() {
            match row % 4 {
                1 => logits[..cols / 2].fill(f32::NEG_INFINITY),
                2 => logits[cols - 1] = 40.0,
                _ => {}
            }
        }
        let y = reference::softmax(&logits, cols).into_iter().map(|p| if is_log { p.ln() } else { p } as f32);
        Self { layouts, dy, y: y.collect(), scale: 0.5, is_log }
    }
}

impl Problem for Rows {
    type Args<T: Number> = BackwardArgs<T>;
    type Results = Vec<f32>;

    fn shape(&self) -> [usize; 2] {
        [self.layouts[0].rows, self.layouts[0].cols]
    }

    fn variants<T: Number>() -> &'static [Variant<BackwardArgs<T>>] {
        T::BACKWARD
    }

    /// `dx`, in memory of its own or where `dy` was.
    fn run<T: Number>(
        &self,
        on: &dyn Launcher,
        variant: &Variant<BackwardArgs<T>>,
        in_place: bool,
    ) -> Vec<f32> {
        let [mut of_dx, of_dy, of_y] = self.layouts;
        if in_place {
            of_dx = of_dy;
        }
        let (rows, cols) = (of_dx.rows as u32, of_dx.cols as u32);
        let (mut dy, y) = (of_dy.spread::<T>(&self.dy), of_y.spread::<T>(&self.y));
        let mut dx = of_dx.spread::<T>(&vec![f32::NAN; self.dy.len()]);
        let dy_memory = RawBuffer::written(&mut dy[of_dy.offset..]);
        let args = BackwardArgsHost {
            dx: if in_place { dy_memory } else { RawBuffer::written(&mut dx[of_dx.offset..]) },
            dy: dy_memory,
            y: RawBuffer::read(&y[of_y.offset..]),
            rows,
            cols,
            dx_stride: of_dx.stride as u64,
            dy_stride: of_dy.stride as u64,
            y_stride: of_y.stride as u64,
            scale: self.scale,
            flags: if self.is_log { LOG } else { 0 },
            prefetch_blocks: 1,
        };
        // SAFETY: the buffers have the shape and strides, and the grid covers the rows.
        unsafe { variant.launch(on, variant.config(rows), args) }.unwrap();
        of_dx.gather(if in_place { &dy } else { &dx })
    }

    /// What is wrong with a result, if anything. NaN must be where the oracle has it.
    fn complaint<T: Number>(&self, got: &Vec<f32>) -> Option<String> {
        let (dy, y, cols) = (rounded::<T>(&self.dy), rounded::<T>(&self.y), self.layouts[0].cols);
        for (row, (dy, y)) in dy.chunks(cols).zip(y.chunks(cols)).enumerate() {
            let want = reference::softmax_backward(dy, y, self.is_log);
            for (col, want) in want.into_iter().enumerate() {
                let (got, scale) = (got[row * cols + col], f64::from(self.scale));
                // The sum is rounded as f32, the result as its type.
                let error = T::ROUNDING * want.value.abs() + 2e-6 * want.magnitude;
                if !is_close(got, want.value * scale, error * scale.abs() + T::SMALLEST) {
                    return Some(format!("row {row}, column {col}: {got:e}, not {:e}", want.value * scale));
                }
            }
        }
        None
    }

    fn bits(results: &Self::Results) -> Vec<u32> {
        bits(results)
    }
}

fn dense(rows: usize, cols: usize, is_log: bool) -> Rows {
    Rows::random([Layout::dense(rows, cols); 3], is_log, (rows * 10_000 + cols) as u64)
}

#[test]
fn every_kernel_agrees_with_the_oracle_on_the_executor() {
    for cols in [1, 2, 3, 31, 32, 33, 127, 1023, 1024, 1025, 4099] {
        dense(if cols < 100 { 19 } else { 5 }, cols, false).check_all_types();
        dense(if cols < 100 { 19 } else { 5 }, cols, true).check_all_types();
    }
    dense(2, 40_001, false).check_all_types();
}

#[test]
fn every_kernel_agrees_with_the_oracle_as_ptx() {
    for cols in [1, 2, 33, 127, 300] {
        for on in emulated::by_each() {
            dense(5, cols, false).check_all_types_once(&on);
            dense(5, cols, true).check_all_types_once(&on);
        }
    }
    // A barrier that is missing shows in one order of the threads or the other.
    for on in emulated::newer_by_each() {
        dense(3, 257, false).check_all_types_once(&on);
    }
}

/// Any alignment and distance of rows, of all three matrices.
fn layouts() -> impl Strategy<Value = [Layout; 3]> {
    let place = || (0usize..9, 0usize..9);
    (1usize..20, 1usize..300, [place(), place(), place()]).prop_map(|(rows, cols, places)| {
        places.map(|(gap, offset)| Layout { rows, cols, stride: cols + gap, offset })
    })
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle(layouts in layouts(), is_log in any::<bool>(), seed in any::<u64>()) {
        Rows::random(layouts, is_log, seed).check_all_types_once(&Executor::new());
    }
}

proptest! {
    #![proptest_config(Config { cases: 4, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle_as_ptx(
        layouts in layouts(),
        is_log in any::<bool>(),
        seed in any::<u64>(),
    ) {
        for on in emulated::by_each() {
            Rows::random(layouts, is_log, seed).check_all_types_once(&on);
        }
    }
}

#[test]
fn rows_of_definitions() {
    let [nan, inf] = [f32::NAN, f32::INFINITY];
    let row = |dy: &[f32], y: &[f32], is_log| {
        let layouts = [Layout::dense(1, dy.len()); 3];
        let problem = Rows { layouts, dy: dy.to_vec(), y: y.to_vec(), scale: 1.0, is_log };
        for variant in Rows::variants::<f32>() {
            let [by_nvvm, by_llvm] = emulated::by_each();
            for on in [&Executor::new() as &dyn Launcher, &by_nvvm, &by_llvm] {
                let got = problem.run::<f32>(on, variant, false);
                assert_eq!(problem.complaint::<f32>(&got), None, "{}", variant.meta.name);
            }
        }
        problem.run::<f32>(&Executor::new(), &Rows::variants::<f32>()[0], false)
    };
    assert_eq!(row(&[3.0], &[1.0], false), [0.0]);
    assert_eq!(row(&[3.0], &[0.0], true), [0.0]);
    // A masked place gets no gradient through a softmax, and its own through a logarithm.
    assert_eq!(row(&[1.0, 5.0, 3.0], &[0.5, 0.0, 0.5], false), [-0.5, 0.0, 0.5]);
    assert_eq!(row(&[0.0, 2.0, 0.0], &[-inf, 0.0, -inf], true), [0.0, 0.0, 0.0]);
    assert!(row(&[0.0, 1.0, 2.0], &[nan; 3], false).iter().all(|x| x.is_nan()));
    assert!(row(&[0.0, 1.0, 2.0], &[nan; 3], true).iter().all(|x| x.is_nan()));
    assert!(row(&[nan, 1.0, 2.0], &[0.2, 0.3, 0.5], false).iter().all(|x| x.is_nan()));
    assert!(row(&[inf, 1.0, 2.0], &[0.2, 0.3, 0.5], false).iter().skip(1).all(|&x| x == -inf));
}
