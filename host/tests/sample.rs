//! Tokens drawn from a softmax: how often each token comes, rows without one, and what is refused.

use std::sync::Arc;

use cuda_std::testing::Layout;
use ferrowarp::device::Device;
use ferrowarp::softmax::sample::Outputs;
use ferrowarp::{Error, TensorView, bf16};
use ferrowarp_cases::reference::Draw;
use ferrowarp_cases::softmax::sample::{Sample, SampleTopK};
use ferrowarp_cases::softmax::{Rowwise as _, logits};
use ferrowarp_cases::{Case, assert_right};
use gpu_kernels::softmax::sample::Noise;

/// Else the oracle would let too much through. Of rows of equal elements, the sum of half of them is on the border of a half.
#[test]
fn of_nearly_all_rows_one_token_alone_may_be_drawn() {
    let mut counts = [0, 0];
    for seed in 0..400 {
        let problem = Sample::random([Layout::dense(24, 1 + seed as usize % 300); 3], seed);
        let [certain, rows] = problem.certain_rows::<f32>();
        counts = [counts[0] + certain, counts[1] + rows];
    }
    assert!(counts[1] - counts[0] < counts[1] / 100, "{counts:?}");
}

#[test]
fn rows_without_a_softmax_give_no_token_and_others_never_one_of_minus_infinity() {
    let device = Device::cpu();
    // One chunk, and two.
    for (name, row) in [133, 1157].into_iter().flat_map(logits::edge_rows) {
        let cols = row.len();
        let noise = Noise { seed: 3, draw: 4, row: 5 };
        for (temperature, top_k, top_p) in
            [(1.0, 0, 1.0), (0.0, 0, 1.0), (2.0, 50, 1.0), (1.0, 0, 0.9), (1.0, 9, 0.9)]
        {
            let draw = Draw { noise, temperature, top_k, top_p };
            let allowed = draw.tokens(&row);
            assert!(allowed.iter().all(|&it| it == u32::MAX || row[it as usize].is_finite()), "{name}");
            let (layout, logits) = (Layout::dense(1, cols), row.clone());
            let problem = Sample { layout, logits, draw, wants_logarithms: true };
            let cases = match top_k {
                0 => Arc::new(problem).cases::<f32>(device.limits()),
                _ => Arc::new(SampleTopK(problem)).cases::<f32>(device.limits()),
            };
            assert_right(&cases, &device, Case::assess);
        }
    }
}

/// How often each token of `logits` is drawn in `rows` equal rows.
fn counts(logits: &[f32], rows: usize, sampling: ferrowarp::Sample) -> Vec<u32> {
    let mut counts = vec![0; logits.len()];
    tokens(logits, rows, sampling).into_iter().for_each(|token| counts[token as usize] += 1);
    counts
}

fn tokens(logits: &[f32], rows: usize, sampling: ferrowarp::Sample) -> Vec<u32> {
    let device = Device::cpu();
    let inp = device.tensor(&logits.repeat(rows), [rows, logits.len()]).unwrap();
    sampling.run(&device, &inp).unwrap().to_vec().unwrap()
}

/// Pearson's chi-squared of counts with these probabilities, in standard deviations from its mean; what cannot come has not come.
#[track_caller]
fn deviation(counts: &[u32], probabilities: &[f64]) -> f64 {
    let all: f64 = counts.iter().map(|&count| f64::from(count)).sum();
    let (mut chi, mut freedom) = (0.0, -1.0);
    for (token, (&count, &probability)) in counts.iter().zip(probabilities).enumerate() {
        if probability == 0.0 {
            assert_eq!(count, 0, "token {token} is cut off");
            continue;
        }
        let mean = all * probability;
        assert!(mean >= 5.0, "token {token} is too rare for this test");
        chi += (f64::from(count) - mean).powi(2) / mean;
        freedom += 1.0;
    }
    (chi - freedom) / (2.0f64 * freedom).sqrt()
}

const ROWS: usize = 60_000;

/// 21 tokens, of which some are equal, with probabilities from 0.2 down to 0.002.
fn uneven() -> Vec<f32> {
    (0..21).map(|i| [0.0, 1.5, 1.5, -1.0, 2.9, 0.3, -1.7][i % 7] + (i / 7) as f32 * 0.25).collect()
}

#[test]
fn tokens_come_as_often_as_their_probabilities_say() {
    let logits = uneven();
    let plain = ferrowarp::Sample::new().seed(2026).draw(7);
    for (sampling, temperature, top_k, top_p) in [
        (plain, 1.0, 0, 1.0),
        (plain.temperature(2.0), 2.0, 0, 1.0),
        (plain.temperature(0.7), 0.7, 0, 1.0),
        (plain.top_k(5), 1.0, 5, 1.0),
        (plain.top_p(0.8), 1.0, 0, 0.8),
        (plain.top_p(0.3), 1.0, 0, 0.3),
        (plain.top_p(0.05), 1.0, 0, 0.05),
        (plain.temperature(1.5).top_k(8).top_p(0.75), 1.5, 8, 0.75),
        (plain.top_k(100).top_p(0.6), 1.0, 100, 0.6),
    ] {
        let noise = Noise { seed: 0, draw: 0, row: 0 };
        let mut probabilities = vec![0.0; logits.len()];
        let mut kept = 0.0;
        let left = Draw { noise, temperature, top_k, top_p }.left(&logits);
        for (col, own, _) in left.into_iter().filter(|&(.., before)| before < f64::from(top_p)) {
            probabilities[col] = own;
            kept += own;
        }
        probabilities.iter_mut().for_each(|probability| *probability /= kept);
        let counts = counts(&logits, ROWS, sampling);
        let left = probabilities.iter().filter(|&&probability| probability > 0.0).count();
        if left == 1 {
            assert_eq!(counts.iter().filter(|&&count| count > 0).count(), 1, "{sampling:?}");
            continue;
        }
        let deviation = deviation(&counts, &probabilities);
        assert!(deviation.abs() < 4.0, "{sampling:?}: {deviation} standard deviations: {counts:?}");
    }
}

/// Tokens of neighbouring rows, draws and seeds coincide at the rate that chance predicts.
#[test]
fn rows_draws_and_seeds_know_nothing_of_each_other() {
    let logits = [0.0f32, 0.7, -0.4, 0.2];
    let of = |seed, draw| tokens(&logits, ROWS, ferrowarp::Sample::new().seed(seed).draw(draw));
    let first = of(1, 1);
    let mut next_row = first.clone();
    next_row.rotate_left(1);
    let noise = Noise { seed: 0, draw: 0, row: 0 };
    let mut probabilities = [0.0; 4];
    Draw { noise, temperature: 1.0, top_k: 0, top_p: 1.0 }
        .left(&logits)
        .into_iter()
        .for_each(|(col, own, _)| probabilities[col] = own);
    let pairs: Vec<f64> = probabilities.iter().flat_map(|a| probabilities.map(|b| a * b)).collect();
    for (name, other) in [
        ("row", next_row),
        ("draw", of(1, 2)),
        ("draw with another upper half", of(1, 1 << 32 | 1)),
        ("seed", of(2, 1)),
        ("seed with another upper half", of(1 << 32 | 1, 1)),
    ] {
        let mut counts = [0; 16];
        first.iter().zip(&other).for_each(|(&a, &b)| counts[(4 * a + b) as usize] += 1);
        let deviation = deviation(&counts, &pairs);
        assert!(deviation.abs() < 4.0, "another {name}: {deviation} standard deviations: {counts:?}");
    }
    assert_eq!(of(1, 1), first);
}

/// 2600 tokens in three chunks, of which some have most of the probability.
fn in_chunks() -> Vec<f32> {
    (0..2600).map(|col| if col % 13 == 5 { 3.0 } else { 0.0 } + (col / 650) as f32 * 0.5).collect()
}

#[test]
fn tokens_of_all_chunks_come_as_often_as_their_probabilities_say() {
    let (logits, draws) = (in_chunks(), 50);
    let noise = Noise { seed: 0, draw: 0, row: 0 };
    let plain = ferrowarp::Sample::new().seed(11);
    for (sampling, top_p) in [(plain, 1.0), (plain.seed(12).top_p(0.6), 0.6)] {
        // Groups of neighbours, since a single token is too rare.
        let mut probabilities = vec![0.0; logits.len() / 100];
        let draw = Draw { noise, temperature: 1.0, top_k: 0, top_p };
        let left = draw.left(&logits);
        let kept: Vec<_> = left.iter().filter(|&&(.., before)| before < f64::from(top_p)).collect();
        let sum: f64 = kept.iter().map(|&&(_, own, _)| own).sum();
        kept.iter().for_each(|&&(col, own, _)| probabilities[col / 100] += own / sum);
        let mut counts = vec![0; probabilities.len()];
        for draw in 0..draws {
            let drawn = tokens(&logits, 200, sampling.draw(draw));
            drawn.into_iter().for_each(|token| counts[token as usize / 100] += 1);
        }
        let deviation = deviation(&counts, &probabilities);
        assert!(deviation.abs() < 4.0, "{sampling:?}: {deviation} standard deviations: {counts:?}");
    }
}

#[test]
fn at_temperature_0_it_is_the_first_of_the_largest() {
    let device = Device::cpu();
    let logits = device.upload(&[1.0f32, 4.0, 4.0, -0.0, 0.0, -1.0].map(bf16::from_f32)).unwrap();
    let (mut tokens, mut logarithms) =
        (device.upload(&[9u32; 4]).unwrap(), device.alloc_zeroed::<f32>(2).unwrap());
    let greedy = ferrowarp::Sample::new().seed(5).draw(3).temperature(0.0).top_k(2).top_p(0.1);
    let outputs = Outputs::new(tokens.view_mut(1..3).unwrap()).log_probabilities(&mut logarithms);
    greedy.run_into(&device, outputs, TensorView::new(&logits, [2, 3]).unwrap()).unwrap();
    assert_eq!(tokens.to_vec().unwrap(), [9, 1, 0, 9]);
    let want = [-(2.0 + (-3f32).exp()).ln(), -(2.0 + (-1f32).exp()).ln()];
    assert!(logarithms.to_vec().unwrap().iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6));
}

#[test]
fn what_does_not_fit_is_refused_in_words() {
    let device = Device::cpu();
    let logits = device.alloc_zeroed::<f32>(6).unwrap();
    let (mut tokens, mut logarithms) =
        (device.alloc_zeroed::<u32>(2).unwrap(), device.alloc_zeroed::<f32>(3).unwrap());
    let refused = |result: Result<(), Error>, words: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(words), "`{words}` is not in: {error}");
    };
    let plain = ferrowarp::Sample::new();
    let of = |shape: [usize; 2]| TensorView::new(&logits, shape).unwrap();
    let words = "sampling failed: the token vector has the shape [2]; it needs [3]";
    refused(plain.run_into(&device, &mut tokens, of([3, 2])), words);
    let outputs = Outputs::new(&mut tokens).log_probabilities(&mut logarithms);
    let words = "sampling failed: the log-probability vector has the shape [3]; it needs [2]";
    refused(plain.run_into(&device, outputs, of([2, 3])), words);
    refused(plain.top_p(0.0).run_into(&device, &mut tokens, of([2, 3])), "sampling failed: top-p is 0; ");
    refused(plain.top_k(0).run(&device, of([2, 3])).map(drop), "sampling failed: k is 0; ");
    plain.run_into(&device, &mut tokens, of([2, 0])).unwrap();
}
