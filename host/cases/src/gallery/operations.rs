//! The library's own operations: extents and data that change their speed.

use cuda_std::half::bf16;
use ferrowarp::matmul::Matmul;
use ferrowarp::{Error, Softmax, Tensor};
use gpu_kernels::gallery::peaks::What;

use super::peaks::peak;
use super::prelude::*;
use crate::compare::compare;

/// The least time of a sample, in which the work repeats.
const SAMPLE: Duration = Duration::from_millis(2);

/// The same where the clock has to follow the power.
const LONG: Duration = Duration::from_millis(100);

/// Elements of a result that are compared.
const CHECKED: usize = 64;

/// The elements of operands.
#[derive(Clone, Copy, Debug)]
enum Data {
    Zeros,
    Ones,
    /// Between -1 and 1.
    Random,
}

impl Data {
    fn elements(self, len: usize, seed: u64) -> Vec<bf16> {
        numbers_as(len, seed, |x| {
            bf16::from_f32(match self {
                Self::Zeros => 0.0,
                Self::Ones => 1.0,
                Self::Random => x,
            })
        })
    }
}

/// The lesson `data`: one product of different numbers.
pub(super) fn data(scale: Scale) -> Vec<Trial> {
    let sizes: &[usize] = match scale {
        Scale::Tiny | Scale::Edges | Scale::Count => &[16],
        Scale::Laptop => &[64],
        Scale::Gpu => &[4096, 8192],
    };
    const RUNGS: [(&str, &str, Data); 3] = [
        ("zeros", "both operands are 0", Data::Zeros),
        ("ones", "both operands are 1", Data::Ones),
        ("random", "both operands are random numbers between -1 and 1", Data::Random),
    ];
    let of_rung = |(name, idea, data)| {
        sizes.iter().map(move |&size| product((name, idea), [size; 3], size, (data, LONG)))
    };
    RUNGS.into_iter().flat_map(of_rung).collect()
}

/// The lesson `alignment`: squares of all sizes, and the logits of a vocabulary.
pub(super) fn alignment(scale: Scale) -> Vec<Trial> {
    let (sizes, vocabularies, [rows, k]): (Vec<usize>, &[usize], _) = match scale {
        Scale::Tiny | Scale::Edges | Scale::Count => (vec![9, 16], &[17, 24], [3, 8]),
        Scale::Laptop => ((56..=64).collect(), &[257, 264], [16, 32]),
        Scale::Gpu => ((2000..=2100).collect(), &[50_257, 50_304], [8192, 768]),
    };
    let mut trials = Vec::new();
    for &n in &sizes {
        trials.push(product(("dense", "rows one after the other"), [n; 3], n, (Data::Random, SAMPLE)));
        let padded = ("padded", "rows begin at multiples of 16 bytes");
        trials.push(product(padded, [n; 3], n.next_multiple_of(8), (Data::Random, SAMPLE)));
    }
    for &n in vocabularies {
        let logits = ("logits", "hidden states by the embedding of a vocabulary");
        trials.push(product(logits, [rows, n, k], k, (Data::Random, SAMPLE)));
        trials.push(softmax(("softmax", "softmax of the logits"), [rows, n]));
    }
    trials
}

/// The product of `[m, k]` and the transpose of `[n, k]`; the rows of both have room for `pitch` elements.
fn product(
    name: (&'static str, &'static str),
    [m, n, k]: [usize; 3],
    pitch: usize,
    (data, least): (Data, Duration),
) -> Trial {
    let work = Work::of_bytes(2 * (m * k + n * k + m * n)).with_flop(2 * m * n * k);
    // The extent that differs.
    let at = if m == k { m } else { n };
    let trial = Trial::of_host(name, at, format!("{m} x {n} x {k}"), work, move |device, samples| {
        let [x, y] = [(m, 1), (n, 2)].map(|(rows, seed)| data.elements(rows * pitch, seed));
        let (a, b) = (device.tensor(&x, [m, pitch])?, device.tensor(&y, [n, pitch])?);
        let mut out = Tensor::<bf16>::zeros(device, [m, n])?;
        let times = timed(device, (samples, least), || {
            let (a, b) = (a.view().slice(1, ..k)?, b.view().slice(1, ..k)?);
            Matmul::new().run_into(device, &mut out, a, b.t())
        })?;
        let of = |i: usize| {
            let term = |t: usize| x[i / n * pitch + t].to_f64() * y[i % n * pitch + t].to_f64();
            let Sum { value, magnitude } = (0..k).map(term).fold(Sum::default(), Sum::and);
            Bound::rounded::<bf16>(value, 1e-5 * magnitude)
        };
        check(&out, of)?;
        Ok(Timed::Samples(times))
    });
    trial.with_peak(|device| peak(device, usize::MAX, What::Wgmma))
}

/// The softmax of a matrix.
fn softmax(name: (&'static str, &'static str), [rows, cols]: [usize; 2]) -> Trial {
    let work = Work::of_bytes(4 * rows * cols).with_flop(5 * rows * cols);
    Trial::of_host(name, cols, format!("softmax of {rows} x {cols}"), work, move |device, samples| {
        let x = Data::Random.elements(rows * cols, 3);
        let inp = device.tensor(&x, [rows, cols])?;
        let mut out = Tensor::<bf16>::zeros(device, [rows, cols])?;
        let times = timed(device, (samples, SAMPLE), || Softmax::new().run_into(device, &mut out, &inp))?;
        let of = |i: usize| {
            let exp = |x: &bf16| x.to_f64().exp();
            let sum: f64 = x[i / cols * cols..][..cols].iter().map(exp).sum();
            let value = exp(&x[i]) / sum;
            Bound::rounded::<bf16>(value, 1e-5 * value)
        };
        check(&out, of)?;
        Ok(Timed::Samples(times))
    })
}

/// The time of one run in each of some samples of at least `least`, after a first one.
fn timed(
    device: &Device,
    (samples, least): (usize, Duration),
    mut run: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<Duration>> {
    run()?;
    let ((), once) = device.time(&mut run)?;
    let runs = if device.is_cuda() { least.div_duration_f64(once).ceil().clamp(1.0, 1e4) as u32 } else { 1 };
    let sample = |_| Ok(device.time(|| (0..runs).try_for_each(|_| run()))?.1 / runs);
    (0..samples).map(sample).collect()
}

/// Compares elements from the first to the last.
fn check(out: &Tensor<bf16>, of: impl Fn(usize) -> Bound) -> Result<()> {
    let out = out.to_vec()?;
    let places = (0..CHECKED).map(|i| i * (out.len() - 1) / (CHECKED - 1));
    let (got, want): (Vec<_>, Vec<_>) = places.map(|i| (out[i].to_f64(), of(i))).unzip();
    compare("out", &got, &want)?;
    Ok(())
}
