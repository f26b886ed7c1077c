//! Cross entropy of rows whose classes are divided among ranks, against the oracle in f64 and against one device.

use std::ops::Range;
use std::sync::Arc;

use cuda_std::testing::Layout;
use ferrowarp::collective::{Communicator, ShardedCrossEntropy, World};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::softmax::cross_entropy::Outputs;
use ferrowarp::{CrossEntropy, Tensor, TensorView, bf16, f16};
use ferrowarp_cases::compare::Bound;
use ferrowarp_cases::reference::{self, Number};
use ferrowarp_cases::softmax::Rowwise as _;
use ferrowarp_cases::softmax::cross_entropy::{CrossEntropy as Problem, IGNORED, loss_bound};

use super::{CHILD, each_rank_succeeds};

const INF: f32 = f32::INFINITY;

/// This rank's communicator, or none in the parent, which has run the ranks of a world of `size`.
fn connected(test: &str, size: u32) -> Option<Arc<Communicator>> {
    if std::env::var_os(CHILD).is_some() {
        let world = World::from_environment().unwrap();
        return Some(Arc::new(Communicator::connect(&world, &Device::cpu()).unwrap()));
    }
    each_rank_succeeds(&format!("cross_entropy::{test}"), size);
    None
}

/// The columns of a rank. Rank 1 of several has one column, if it is not the last rank.
fn columns(rank: u32, size: u32, cols: usize) -> Range<usize> {
    let cut = |rank: u32| match rank {
        _ if rank == size => cols,
        0 => 0,
        1 => cols * 2 / 5,
        _ => cols * 2 / 5 + 1 + (cols * 3 / 5 - 1) * (rank as usize - 2) / (size as usize - 2),
    };
    cut(rank)..cut(rank + 1)
}

/// The elements of these columns.
fn part<T: Copy>(matrix: &[T], cols: usize, part: Range<usize>) -> Vec<T> {
    matrix.chunks(cols).flat_map(|row| row[part.clone()].to_vec()).collect()
}

/// What a rank gets of the problem.
struct Results<T> {
    losses: Vec<f32>,
    lse: Vec<f32>,
    /// Of its columns.
    gradient: Vec<T>,
}

fn run<T: Number>(
    communicator: &Arc<Communicator>,
    problem: &Problem,
    own: Range<usize>,
    is_in_place: bool,
) -> Results<T> {
    let (device, stream) = (communicator.device(), communicator.device().stream().unwrap());
    let Layout { rows, cols, .. } = problem.layouts[0];
    let logits: Vec<T> = problem.logits.iter().map(|&x| T::nearest_finite(x)).collect();
    let mut logits = device.tensor(&part(&logits, cols, own.clone()), [rows, own.len()]).unwrap();
    let targets = device.upload(&problem.targets).unwrap();
    let d_loss = problem.d_loss.as_ref().map(|d_loss| device.upload(d_loss).unwrap());
    let zeroed = |len| device.alloc_zeroed::<f32>(len).unwrap();
    let (mut losses, mut lse) = (zeroed(rows), zeroed(rows));
    let mut gradient = Tensor::<T>::zeros(device, logits.shape()).unwrap();
    let mut operation = ShardedCrossEntropy::new(Arc::clone(communicator), rows, own.len()).unwrap();
    assert_eq!((operation.first_class(), operation.classes()), (own.start, cols));
    let mut options = CrossEntropy::new().gradient_scale(problem.d_scale).ignore_index(IGNORED);
    if let Some(d_loss) = &d_loss {
        options = options.row_gradients(d_loss);
    }
    let outputs = Outputs::new(&mut losses).log_sum_exp(&mut lse);
    if is_in_place {
        operation.run_in_place(&stream, &options, outputs, &mut logits, &targets).unwrap();
    } else {
        operation.run_into(&stream, &options, outputs.gradient(&mut gradient), &logits, &targets).unwrap();
    }
    communicator.synchronize(&stream).unwrap();
    let gradient = if is_in_place { logits } else { gradient }.to_vec().unwrap();
    Results { losses: losses.to_vec().unwrap(), lse: lse.to_vec().unwrap(), gradient }
}

/// The problem's results by the operation of one device, on the CPU.
fn on_one_device<T: Number>(problem: &Problem) -> Results<T> {
    let alone = Arc::new(Communicator::single(&Device::cpu()));
    run(&alone, problem, 0..problem.layouts[0].cols, false)
}

fn assert_near(what: &str, got: impl IntoIterator<Item = f64>, expected: &[Bound]) {
    for (i, (got, bound)) in got.into_iter().zip(expected).enumerate() {
        assert!(bound.error(got) <= 1.0, "{what}[{i}] is {got:e}, not {bound:?}");
    }
}

fn wide<T: Number>(values: &[T]) -> Vec<f64> {
    values.iter().map(|x| f64::from(x.value())).collect()
}

/// All results of this rank agree with the oracle, with one device, and to the bit with those of the other ranks.
fn check<T: Number>(communicator: &Arc<Communicator>, problem: &Problem) {
    let (rank, size) = (communicator.rank(), communicator.size());
    let Layout { rows, cols, .. } = problem.layouts[0];
    let own = columns(rank, size, cols);
    let expected: Vec<Vec<Bound>> = problem.expected::<T>().into_iter().map(|(_, bounds)| bounds).collect();
    let [loss, lse, _, gradient] = &expected[..] else { panic!("four results") };
    let gradient = part(gradient, cols, own.clone());
    let got = run::<T>(communicator, problem, own.clone(), false);
    assert_near("loss", wide(&got.losses), loss);
    assert_near("lse", wide(&got.lse), lse);
    assert_near("gradient", wide(&got.gradient), &gradient);

    let alone = on_one_device::<T>(problem);
    let around = |values: Vec<f64>, bounds: &[Bound]| -> Vec<Bound> {
        let pairs = values.into_iter().zip(bounds);
        pairs.map(|(value, bound)| bound.around(value)).collect()
    };
    assert_near("loss", wide(&got.losses), &around(wide(&alone.losses), loss));
    let alone = around(wide(&part(&alone.gradient, cols, own.clone())), &gradient);
    assert_near("gradient", wide(&got.gradient), &alone);

    let in_place = run::<T>(communicator, problem, own, true);
    let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&in_place.losses), bits(&got.losses));
    assert_eq!(
        wide(&in_place.gradient).iter().map(|x| x.to_bits()).collect::<Vec<_>>(),
        wide(&got.gradient).iter().map(|x| x.to_bits()).collect::<Vec<_>>()
    );
    let device = communicator.device();
    let (of_rank, stream) = (device.upload(&bits(&got.losses)).unwrap(), device.default_stream());
    let mut of_all = device.alloc_zeroed::<u32>(rows * size as usize).unwrap();
    communicator.all_gather(&stream, &of_rank, &mut of_all).unwrap();
    let of_all = of_all.to_vec().unwrap();
    assert!(of_all.chunks(rows).all(|of_rank| of_rank == bits(&got.losses)), "ranks have other losses");
}

/// Hard rows, ignored ones, targets in every shard and in none, in every type; rows of many columns, and few rows.
fn check_all(communicator: &Arc<Communicator>) {
    for (rows, cols, seed) in [(23, 61, 1), (5, 700, 2), (1, 20_001, 3)] {
        let problem = Problem::random([Layout::dense(rows, cols); 3], seed);
        check::<f32>(communicator, &problem);
        check::<f16>(communicator, &problem);
        check::<bf16>(communicator, &problem);
    }
}

#[test]
fn a_world_of_one_computes_as_one_device() {
    check_all(&Arc::new(Communicator::single(&Device::cpu())));
}

#[test]
fn two_ranks_match_the_oracle() {
    if let Some(communicator) = connected("two_ranks_match_the_oracle", 2) {
        check_all(&communicator);
    }
}

#[test]
fn four_ranks_match_the_oracle() {
    if let Some(communicator) = connected("four_ranks_match_the_oracle", 4) {
        check_all(&communicator);
    }
}

/// Rows of four classes, two of each rank, and their targets, whose answer is a matter of definition.
#[test]
fn hard_rows_are_those_of_one_device() {
    let Some(communicator) = connected("hard_rows_are_those_of_one_device", 2) else { return };
    let rows: &[([f32; 4], i64)] = &[
        ([1.0, f32::NAN, 2.0, 3.0], 3),
        ([1.0, 2.0, 3.0, f32::NAN], 0),
        ([1.0, 2.0, INF, 3.0], 0),
        ([INF, 2.0, 1.0, INF], 0),
        ([-INF; 4], 2),
        ([-INF, -INF, 1.0, 1.0], 3),
        ([-INF, 1.0, 1.0, 1.0], 0),
        ([1.0, 1.0, -INF, -INF], 3),
        ([f32::MIN; 4], 1),
        ([f32::MAX; 4], 2),
        ([f32::MAX, f32::MIN, 0.0, f32::MIN], 0),
        ([-1e5, -1e5 + 1.0, -1e5, -1e5 - 1.0], 1),
        ([f32::NAN; 4], IGNORED),
        ([1.0, 2.0, 3.0, 4.0], 4),
        ([1.0, 2.0, 3.0, 4.0], -1),
        ([1.0, 2.0, 3.0, 4.0], i64::MAX),
        ([1.0, 2.0, 3.0, 4.0], i64::MIN),
    ];
    let own = if communicator.rank() == 0 { 0..2 } else { 2..4 };
    let problem = Problem {
        layouts: [Layout::dense(rows.len(), 4); 2],
        logits: rows.iter().flat_map(|(logits, _)| *logits).collect(),
        targets: rows.iter().map(|&(_, target)| target).collect(),
        d_loss: None,
        d_scale: 0.5,
    };
    let got = run_unrounded(&communicator, &problem, own.clone());
    for (row, (logits, target)) in rows.iter().enumerate() {
        let want = reference::cross_entropy(logits, *target, IGNORED);
        let (loss, bound) = (f64::from(got.losses[row]), loss_bound(want.loss));
        assert!(bound.error(loss) <= 1.0, "{logits:?}, {target}: {loss:e}, not {bound:?}");
        for (got, want) in got.gradient[2 * row..][..2].iter().zip(&want.gradient[own.clone()]) {
            let bound = Bound::near(0.5 * want, 2e-6);
            assert!(bound.error(f64::from(*got)) <= 1.0, "{logits:?}, {target}: {got:e}, not {bound:?}");
        }
    }
}

/// As [`run`], of `f32` that may be infinite.
fn run_unrounded(communicator: &Arc<Communicator>, problem: &Problem, own: Range<usize>) -> Results<f32> {
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    let Layout { rows, cols, .. } = problem.layouts[0];
    let logits = device.tensor(&part(&problem.logits, cols, own.clone()), [rows, own.len()]).unwrap();
    let targets = device.upload(&problem.targets).unwrap();
    let mut losses = device.alloc_zeroed::<f32>(rows).unwrap();
    let mut gradient = Tensor::zeros(device, logits.shape()).unwrap();
    let mut operation = ShardedCrossEntropy::new(Arc::clone(communicator), rows, own.len()).unwrap();
    let options = CrossEntropy::new().gradient_scale(problem.d_scale);
    let outputs = Outputs::new(&mut losses).gradient(&mut gradient);
    operation.run_into(&stream, &options, outputs, &logits, &targets).unwrap();
    communicator.synchronize(&stream).unwrap();
    Results { losses: losses.to_vec().unwrap(), lse: vec![], gradient: gradient.to_vec().unwrap() }
}

#[test]
fn losses_alone_and_targets_of_other_types_are_the_same() {
    let Some(communicator) = connected("losses_alone_and_targets_of_other_types_are_the_same", 2) else {
        return;
    };
    let (device, stream) = (communicator.device(), communicator.device().default_stream());
    let problem = Problem::random([Layout::dense(1, 40); 3], 8);
    let own = columns(communicator.rank(), 2, 40);
    let logits = device.upload(&part(&problem.logits, 40, own.clone())).unwrap();
    let mut operation = ShardedCrossEntropy::new(Arc::clone(&communicator), 1, own.len()).unwrap();
    for class in [3u8, 39] {
        let want = reference::cross_entropy(&problem.logits, class.into(), IGNORED);
        let (bytes, words) = (device.upload(&[class]).unwrap(), device.upload(&[u32::from(class)]).unwrap());
        for is_byte in [true, false] {
            let (mut losses, options) = (device.alloc_zeroed::<f32>(1).unwrap(), CrossEntropy::new());
            if is_byte {
                operation.run_into(&stream, &options, &mut losses, &logits, &bytes).unwrap();
            } else {
                operation.run_into(&stream, &options, &mut losses, &logits, &words).unwrap();
            }
            communicator.synchronize(&stream).unwrap();
            let loss = losses.to_vec().unwrap()[0];
            assert!(loss_bound(want.loss).error(loss.into()) <= 1.0, "{loss}, not {}", want.loss);
        }
    }
}

#[test]
fn a_rank_may_have_no_class() {
    let Some(communicator) = connected("a_rank_may_have_no_class", 4) else { return };
    let problem = Problem::random([Layout::dense(9, 10); 3], 4);
    // Rank 2 has all.
    let own = match communicator.rank() {
        0 | 1 => 0..0,
        2 => 0..10,
        _ => 10..10,
    };
    let expected = problem.expected::<f32>();
    let got = run::<f32>(&communicator, &problem, own.clone(), false);
    assert_near("loss", wide(&got.losses), &expected[0].1);
    assert_near("gradient", wide(&got.gradient), &part(&expected[3].1, 10, own));
}

/// Logits and targets, and where the results go.
struct Step {
    operation: ShardedCrossEntropy,
    logits: Buffer<f32>,
    targets: Buffer<i64>,
    losses: Buffer<f32>,
}

#[test]
fn a_graph_computes_again() {
    let Some(communicator) = connected("a_graph_computes_again", 2) else { return };
    let device = communicator.device().clone();
    let state = Step {
        operation: ShardedCrossEntropy::new(Arc::clone(&communicator), 1, 3).unwrap(),
        logits: device.upload(&[0.5f32; 3]).unwrap(),
        targets: device.upload(&[4i64]).unwrap(),
        losses: device.alloc_zeroed(1).unwrap(),
    };
    let mut graph = device
        .record(state, |stream, Step { operation, logits, targets, losses }| -> Result<(), DeviceError> {
            Ok(operation.run_into(stream, &CrossEntropy::new(), losses, &*logits, &*targets)?)
        })
        .unwrap();
    (0..2).for_each(|_| graph.launch().unwrap());
    communicator.synchronize(&device.default_stream()).unwrap();
    let loss = graph.state().losses.to_vec().unwrap()[0];
    assert!((loss - 6f32.ln()).abs() < 1e-6, "{loss}");
}

#[test]
fn rows_that_differ_are_an_error_on_all_ranks() {
    let Some(communicator) = connected("rows_that_differ_are_an_error_on_all_ranks", 2) else { return };
    let rank = communicator.rank();
    let error = ShardedCrossEntropy::new(Arc::clone(&communicator), 4 + rank as usize, 7).unwrap_err();
    let (rows, expected) = (4 + rank, "rank 1 has 5 rows and rank 0 has 4; give each rank all rows");
    let text = error.to_string();
    let start = format!("preparing cross entropy of {rows} x 7 failed on rank {rank} of 2: {expected}");
    assert!(text.starts_with(&start), "{text}");
}

#[test]
fn senseless_calls_are_refused() {
    let device = Device::cpu();
    let communicator = Arc::new(Communicator::single(&device));
    let mut operation = ShardedCrossEntropy::new(communicator, 2, 3).unwrap();
    let (logits, stream) = (device.upload(&[0.0f32; 6]).unwrap(), device.default_stream());
    let (targets, few) = (device.upload(&[0i64, 1]).unwrap(), device.upload(&[0i64]).unwrap());
    let mut losses = device.alloc_zeroed::<f32>(2).unwrap();
    let mut correct = device.alloc_zeroed::<u32>(2).unwrap();
    let [matrix, other] = [[2, 3], [2, 2]].map(|shape| TensorView::new(&logits, shape).unwrap());
    let options = CrossEntropy::new();
    let elsewhere = Device::cpu();
    let start = "cross entropy of 2 x 3 of 3 classes failed on rank 0 of 1: ";
    let check = |result: Result<(), ferrowarp::collective::CollectiveError>, expected: &str| {
        let text = result.unwrap_err().to_string();
        assert!(text.starts_with(start) && text.contains(expected), "{text}");
    };
    let run = operation.run_into(&stream, &options, &mut losses, other, &targets);
    check(run, "the logits are 2 x 2; prepare the operation for that shape");
    let run = operation.run_into(&stream, &options, &mut losses, matrix, &few);
    check(run, "cross entropy failed: the target vector has the shape [1]; it needs [2]");
    let run = operation.run_into(
        &stream,
        &options,
        Outputs::new(&mut losses).correct(&mut correct),
        matrix,
        &targets,
    );
    check(run, "marks of correct rows are for one device; omit `correct`");
    let run = operation.run_into(&elsewhere.default_stream(), &options, &mut losses, matrix, &targets);
    check(run, "the stream is another device's");
}

#[test]
fn without_rows_or_classes_nothing_is_written() {
    let device = Device::cpu();
    let communicator = Arc::new(Communicator::single(&device));
    for (rows, cols) in [(0, 3), (2, 0)] {
        let logits = device.alloc_zeroed::<f32>(0).unwrap();
        let targets = device.upload(&vec![0i64; rows]).unwrap();
        let mut losses = device.upload(&vec![7.0f32; rows]).unwrap();
        let mut operation = ShardedCrossEntropy::new(Arc::clone(&communicator), rows, cols).unwrap();
        let (stream, matrix) = (device.default_stream(), TensorView::new(&logits, [rows, cols]).unwrap());
        operation.run_into(&stream, &CrossEntropy::new(), &mut losses, matrix, &targets).unwrap();
        assert_eq!(losses.to_vec().unwrap(), vec![7.0; rows]);
    }
}
