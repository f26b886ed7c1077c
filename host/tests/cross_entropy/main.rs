//! Cross entropy of every type and width against the f64 oracle: on the CPU executor, and as PTX on the emulator.

mod edges;

use cuda_std::bf16;
use cuda_std::launch::{Launcher, RawBuffer};
use cuda_std::simt::Executor;
use ferrowarp_cases::emulated;
use ferrowarp_cases::matrix::{Layout, Problem, bits, is_close, rounded};
use ferrowarp_cases::reference::{self, Number};
use gpu_kernels::softmax::cross_entropy::{CrossEntropyArgs, CrossEntropyLaunch, I64};
use gpu_kernels::softmax::operation::Variant;
use proptest::prelude::{Strategy, any, proptest};
use proptest::test_runner::Config;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

const IGNORED: i64 = -100;
/// What stands in the results before the launch: no kernel writes it.
const UNWRITTEN: f32 = f32::from_bits(0x7fc0_1234);

/// One problem, all results asked for; the gradient has `layouts[0]`, the logits the other.
#[derive(Clone, Debug)]
struct Rows {
    layouts: [Layout; 2],
    logits: Vec<f32>,
    targets: Vec<i64>,
    d_loss: Option<Vec<f32>>,
    d_scale: f32,
}

#[derive(Debug)]
struct Results {
    loss: Vec<f32>,
    lse: Vec<f32>,
    correct: Vec<u32>,
    gradient: Vec<f32>,
}

impl Rows {
    /// Logits in -8..8, among them rows that are hard on a softmax, ignored rows and targets that are no column.
    fn random(layouts: [Layout; 2], seed: u64) -> Self {
        let Layout { rows, cols, .. } = layouts[0];
        let mut rng = StdRng::seed_from_u64(seed);
        let mut logits: Vec<f32> = (0..rows * cols).map(|_| rng.random_range(-8.0..8.0)).collect();
        let mut targets: Vec<i64> = (0..rows).map(|_| rng.random_range(0..cols as i64)).collect();
        for (row, logits) in logits.chunks_mut(cols).enumerate() {
            match row % 11 {
                1 => logits.fill(3.5),
                2 => logits.iter_mut().for_each(|x| *x += 1e4),
                3 => logits.iter_mut().for_each(|x| *x = *x * 4.0 - 5e4),
                4 => logits[cols - 1] = 90.0,
                5 => targets[row] = IGNORED,
                6 => logits[..cols / 2].fill(f32::NEG_INFINITY),
                7 => logits[targets[row] as usize] = 20.0,
                8 => targets[row] = cols as i64,
                9 => targets[row] = -1,
                _ => {}
            }
        }
        let d_loss = seed.is_multiple_of(2).then(|| (0..rows).map(|row| row as f32 * 0.5 - 1.0).collect());
        Self { layouts, logits, targets, d_loss, d_scale: 0.25 }
    }
}

impl Problem for Rows {
    type Args<T: Number> = CrossEntropyArgs<T>;
    type Results = Results;

    fn shape(&self) -> [usize; 2] {
        [self.layouts[0].rows, self.layouts[0].cols]
    }

    fn variants<T: Number>() -> &'static [Variant<CrossEntropyArgs<T>>] {
        T::CROSS_ENTROPY
    }

    /// All results, the gradient in memory of its own or where the logits were.
    fn run<T: Number>(
        &self,
        on: &dyn Launcher,
        variant: &Variant<CrossEntropyArgs<T>>,
        in_place: bool,
    ) -> Results {
        let [mut of_gradient, of_logits] = self.layouts;
        if in_place {
            of_gradient = of_logits;
        }
        let Layout { rows, cols, .. } = of_logits;
        let mut logits = of_logits.spread::<T>(&self.logits);
        let mut gradient = of_gradient.spread::<T>(&vec![f32::NAN; self.logits.len()]);
        let (mut loss, mut lse, mut correct) =
            (vec![UNWRITTEN; rows], vec![UNWRITTEN; rows], vec![9u32; rows]);
        let logits_memory = RawBuffer::written(&mut logits[of_logits.offset..]);
        let gradient_memory = RawBuffer::written(&mut gradient[of_gradient.offset..]);
        let targets = RawBuffer::read(&self.targets).cast();
        let args = CrossEntropyLaunch {
            lse: RawBuffer::written(&mut lse),
            correct: RawBuffer::written(&mut correct),
            d_logits: if in_place { logits_memory } else { gradient_memory },
            d_loss: self.d_loss.as_ref().map_or(RawBuffer::NULL, RawBuffer::read),
            rows: rows as u32,
            cols: cols as u32,
            d_stride: of_gradient.stride as u64,
            stride: of_logits.stride as u64,
            ignore_index: IGNORED,
            d_scale: self.d_scale,
            prefetch_blocks: 1,
            ..CrossEntropyLaunch::new(RawBuffer::written(&mut loss), logits_memory, targets, I64)
        };
        // SAFETY: the buffers have the shape and strides, and the grid covers the rows.
        unsafe { variant.launch(on, variant.config(rows as u32), args) }.unwrap();
        assert!(loss.iter().chain(&lse).all(|x| x.to_bits() != UNWRITTEN.to_bits()), "unwritten results");
        let gradient = of_gradient.gather(if in_place { &logits } else { &gradient });
        Results { loss, lse, correct, gradient }
    }

    /// What is wrong with results, if anything. NaN must be where the oracle has it.
    fn complaint<T: Number>(&self, got: &Results) -> Option<String> {
        let (logits, cols) = (rounded::<T>(&self.logits), self.layouts[0].cols);
        for (row, logits) in logits.chunks(cols).enumerate() {
            let want = reference::cross_entropy(logits, self.targets[row], IGNORED);
            // The sum of the exponentials is within 1e-6, and the rest is rounded as f32.
            if !is_close(got.loss[row], want.loss, 1e-6 + 2e-7 * want.loss.abs()) {
                return Some(format!("row {row}: loss {:e}, not {:e}", got.loss[row], want.loss));
            }
            if !is_close(got.lse[row], want.log_sum_exp, 1e-6 + 1e-7 * want.log_sum_exp.abs()) {
                return Some(format!("row {row}: lse {:e}, not {:e}", got.lse[row], want.log_sum_exp));
            }
            if got.correct[row] != u32::from(want.is_correct) {
                return Some(format!("row {row}: hit {}", got.correct[row]));
            }
            let scale = f64::from(self.d_scale) * self.d_loss.as_ref().map_or(1.0, |d| f64::from(d[row]));
            for (col, want) in want.gradient.iter().enumerate() {
                let got = got.gradient[row * cols + col];
                // 2e-6 of the probability, of which the target's column loses most.
                let tolerance = (T::ROUNDING * want.abs() + 2e-6) * scale.abs() + T::SMALLEST;
                if !is_close(got, want * scale, tolerance) {
                    return Some(format!(
                        "row {row}, column {col}: gradient {got:e}, not {:e}",
                        want * scale
                    ));
                }
            }
        }
        None
    }

    fn bits(results: &Self::Results) -> Vec<u32> {
        [bits(&results.loss), bits(&results.lse), results.correct.clone(), bits(&results.gradient)].concat()
    }
}

fn dense(rows: usize, cols: usize) -> Rows {
    Rows::random([Layout::dense(rows, cols); 2], (rows * 10_000 + cols) as u64)
}

#[test]
fn every_kernel_agrees_with_the_oracle_on_the_executor() {
    for cols in [1, 2, 3, 10, 16, 17, 31, 32, 33, 127, 1023, 1024, 1025, 4099] {
        dense(if cols < 100 { 23 } else { 11 }, cols).check_all_types();
    }
    dense(4, 40_001).check_all_types();
}

#[test]
fn every_kernel_agrees_with_the_oracle_as_ptx() {
    for cols in [1, 2, 10, 33, 127, 300] {
        for on in emulated::by_each() {
            dense(11, cols).check_all_types_once(&on);
        }
    }
    // A barrier that is missing shows in one order of the threads or the other.
    for on in emulated::newer_by_each() {
        dense(5, 257).check_all_types_once(&on);
    }
}

/// Any alignment and distance of rows, of both matrices.
fn layouts() -> impl Strategy<Value = [Layout; 2]> {
    let place = || (0usize..9, 0usize..9);
    (1usize..20, 1usize..300, [place(), place()]).prop_map(|(rows, cols, places)| {
        places.map(|(gap, offset)| Layout { rows, cols, stride: cols + gap, offset })
    })
}

proptest! {
    #![proptest_config(Config { cases: 40, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle(layouts in layouts(), seed in any::<u64>()) {
        Rows::random(layouts, seed).check_all_types_once(&Executor::new());
    }
}

proptest! {
    #![proptest_config(Config { cases: 4, failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_layout_agrees_with_the_oracle_as_ptx(layouts in layouts(), seed in any::<u64>()) {
        for on in emulated::by_each() {
            Rows::random(layouts, seed).check_all_types_once(&on);
        }
    }
}
