//! Cross entropy: rows whose answer is a matter of definition, and what may be left out.

use std::sync::Arc;

use cuda_std::bf16;
use cuda_std::launch::RawBuffer;
use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp_cases::softmax::Rowwise as _;
use ferrowarp_cases::softmax::cross_entropy::{CrossEntropy, IGNORED, loss_bound};
use ferrowarp_cases::softmax::logits::logits;
use ferrowarp_cases::{Case, assert_right, emulated, reference};
use gpu_kernels::softmax::cross_entropy::{CrossEntropyArgs, CrossEntropyLaunch, I32, I64, U8};
use gpu_kernels::softmax::operation::Spread;

const INF: f32 = f32::INFINITY;
const NAN: f32 = f32::NAN;

/// All results of one row.
#[derive(Debug)]
struct Results {
    loss: f64,
    lse: f64,
    correct: f64,
    gradient: Vec<f64>,
}

/// All results of one row, by every kernel on the executor and as PTX, which agree with the oracle.
fn row(logits: &[f32], target: i64) -> Results {
    let (layouts, logits) = ([Layout::dense(1, logits.len()); 2], logits.to_vec());
    let problem = CrossEntropy { layouts, logits, targets: vec![target], d_loss: None, d_scale: 1.0 };
    let problem = Arc::new(problem);
    let device = Device::cpu();
    assert_right(&problem.cases_in_both_places::<f32>(device.limits()), &device, Case::assess_twice);
    assert_right(&problem.cases_in_both_places::<bf16>(device.limits()), &device, Case::assess_twice);
    for on in emulated::by_each() {
        assert_right(&problem.cases::<f32>(on.limits()), &on, Case::assess);
    }
    let outputs = problem.cases::<f32>(device.limits())[0].run(&device).unwrap();
    let [loss, lse, correct, gradient] = outputs.try_into().unwrap();
    Results { loss: loss.1[0], lse: lse.1[0], correct: correct.1[0], gradient: gradient.1 }
}

/// A row of 133 columns: the first few, and what follows them.
fn long(first: &[f32], rest: f32) -> Vec<f32> {
    let mut row = first.to_vec();
    row.resize(133, rest);
    row
}

#[test]
fn rows_with_nan_or_inf_give_nan() {
    for logits in [
        long(&[1.0, NAN], 2.0),
        long(&[1.0, NAN], -INF),
        long(&[90.0, 1.0, 2.0, 3.0, NAN], -90.0),
        long(&[1.0, INF], 2.0),
        long(&[INF, INF], 2.0),
        long(&[INF], -INF),
        long(&[], -INF),
        vec![NAN],
        vec![INF],
        vec![-INF],
    ] {
        let got = row(&logits, 0);
        assert!(got.loss.is_nan() && got.gradient.iter().all(|x| x.is_nan()), "{got:?}");
    }
    assert_eq!(row(&long(&[], -INF), 0).lse, f64::NEG_INFINITY);
}

#[test]
fn masked_classes_have_no_share() {
    let got = row(&long(&[1.0, -INF, 1.0], -INF), 2);
    assert!((got.loss - 2f64.ln()).abs() < 1e-6);
    assert_eq!(got.gradient[..4], [0.5, 0.0, -0.5, 0.0]);
    // A target of which the model is sure that it cannot be.
    let got = row(&long(&[1.0, -INF], 1.0), 1);
    assert_eq!((got.loss, got.gradient[1]), (f64::INFINITY, -1.0));
    // All but the last, whatever a thread's share.
    let mut last = long(&[], -INF);
    last[132] = -3.0;
    let got = row(&last, 132);
    assert_eq!((got.loss, got.lse, got.correct), (0.0, -3.0, 1.0));
    assert!(got.gradient.iter().all(|&x| x == 0.0));
}

#[test]
fn logits_of_any_size_keep_their_digits() {
    for x in [1e4, 1e5, -1e5, f32::MIN, f32::MAX] {
        let got = row(&long(&[], x), 7);
        assert!((got.loss - 133f64.ln()).abs() < 2e-6, "{x:e}: {got:?}");
    }
    for large in [1e4, 1e5] {
        row(&(0..133).map(|i| large + (i as f32 * 0.618).fract() * 9.0).collect::<Vec<_>>(), 50);
    }
    assert_eq!(row(&[-7.0], 0).loss, 0.0);
}

#[test]
fn of_equal_logits_the_first_is_the_answer() {
    assert_eq!(row(&long(&[1.0, 2.0, 2.0], 2.0), 1).correct, 1.0);
    assert_eq!(row(&long(&[1.0, 2.0, 2.0], 2.0), 2).correct, 0.0);
    assert_eq!(row(&long(&[1.0, 2.0, 2.0], 2.0), 132).correct, 0.0);
    assert_eq!(row(&long(&[], f32::MIN), 0).correct, 1.0);
}

#[test]
fn a_class_without_a_sign_is_ignored_only_if_it_is_named() {
    let device = Device::cpu();
    let logits = ferrowarp::Tensor::<f32>::zeros(&device, [3, 2]).unwrap();
    let targets = device.upload(&[1u32, u32::MAX - 99, u32::MAX]).unwrap();
    let losses =
        |of: ferrowarp::CrossEntropy<'_>| of.run(&device, &logits, &targets).unwrap().to_vec().unwrap();
    let all = losses(ferrowarp::CrossEntropy::new());
    assert!(all[0] > 0.69 && all[1].is_nan() && all[2].is_nan(), "{all:?}");
    let all = losses(ferrowarp::CrossEntropy::new().ignore_index(u32::MAX.into()));
    assert!(all[0] > 0.69 && all[1].is_nan() && all[2] == 0.0, "{all:?}");
    let targets = device.upload(&[1u8, 156, 255]).unwrap();
    let all = ferrowarp::CrossEntropy::new()
        .ignore_index(255)
        .run(&device, &logits, &targets)
        .unwrap()
        .to_vec()
        .unwrap();
    assert!(all[0] > 0.69 && all[1].is_nan() && all[2] == 0.0, "{all:?}");
}

#[test]
fn an_ignored_row_counts_for_nothing_whatever_it_holds() {
    for logits in [long(&[1.0], 2.0), long(&[NAN], 2.0), long(&[INF], 2.0), long(&[], -INF), vec![NAN, 1.0]] {
        let got = row(&logits, IGNORED);
        assert_eq!((got.loss, got.correct), (0.0, 0.0));
        assert!(got.gradient.iter().all(|&x| x == 0.0), "{got:?}");
    }
}

#[test]
fn a_target_that_is_no_column_gives_nan() {
    for target in [-1, 133, i64::MAX, i64::MIN, 1 << 32, -99] {
        let got = row(&long(&[1.0], 2.0), target);
        assert!(got.loss.is_nan() && got.gradient.iter().all(|x| x.is_nan()), "{target}: {got:?}");
        assert_eq!((got.lse.is_finite(), got.correct), (true, 0.0));
    }
}

#[test]
fn targets_of_every_type_are_the_same_classes() {
    let (logits, classes) = (logits(5, 40), [3i64, 0, 39, 17, 5]);
    // Nothing is asked for but the loss.
    let loss_of = |on: &Device,
                   kernel: Spread<CrossEntropyArgs<f32>>,
                   targets: RawBuffer<u8>,
                   target_bytes: u32,
                   ignore_index: i64| {
        let mut loss = [NAN; 5];
        let (losses, logits) = (RawBuffer::written(&mut loss), RawBuffer::read(&logits));
        let args = CrossEntropyLaunch {
            rows: 5,
            cols: 40,
            stride: 40,
            ignore_index,
            d_scale: f32::NAN,
            ..CrossEntropyLaunch::new(losses, logits, targets, target_bytes)
        };
        // SAFETY: five rows of 40 columns, and a grid that covers them.
        unsafe { kernel.variant.launch(on, kernel.config(5, 40), args) }.unwrap();
        loss
    };
    let emulators = emulated::by_each();
    let of_each = |on| CrossEntropy::holding::<f32>(40, Device::limits(on)).map(move |kernel| (on, kernel));
    for (on, kernel) in emulators.iter().flat_map(of_each) {
        let want = loss_of(on, kernel, RawBuffer::read(&classes).cast(), I64, IGNORED);
        assert!((0..5).all(|row| {
            let oracle = reference::cross_entropy(&logits[40 * row..][..40], classes[row], IGNORED);
            loss_bound(oracle.loss).error(want[row].into()) <= 1.0
        }));
        let (words, bytes) = (classes.map(|class| class as i32), classes.map(|class| class as u8));
        assert_eq!(loss_of(on, kernel, RawBuffer::read(&words).cast(), I32, IGNORED), want);
        assert_eq!(loss_of(on, kernel, RawBuffer::read(&bytes), U8, IGNORED), want);
        let [a, b, c, _, e] = want;
        assert_eq!(loss_of(on, kernel, RawBuffer::read(&bytes), U8, 17), [a, b, c, 0.0, e]);
    }
}
