//! Random problems for every public operation: their shapes, types, options, values and places in memory follow from a seed.
//!
//! [`Drawn::new`] draws one. [`Drawn::check`] runs it as users do, compares with the oracle in `f64`, and runs it again in
//! memory with other contents. [`Totals`] adds up the errors by operation, type and layout.

mod attention;
mod axis;
mod matmul;
mod norm;
mod place;
mod softmax;
mod tokens;
mod totals;

use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use cuda_std::launch::Limits;
use ferrowarp::device::Device;
use ferrowarp::{Error, Kind};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::case::is_same;
use crate::compare::{Expected, Outputs, compare_all};
use crate::reference::Number;

pub use place::Size;
pub use totals::{Total, Totals};

/// Draws a problem of one operation.
type Draw = fn(&mut StdRng, &Size) -> Drawn;

/// Every operation, and how often of 36 problems it is drawn.
const OPERATIONS: [(&str, u32, Draw); 15] = [
    ("softmax", 3, softmax::forward),
    ("softmax in place", 1, softmax::in_place),
    ("softmax backward", 2, softmax::backward),
    ("cross entropy", 2, softmax::cross_entropy),
    ("top-k", 1, tokens::top_k),
    ("sample", 1, tokens::sample),
    ("matmul", 8, matmul::draw),
    ("attention", 4, attention::forward),
    ("attention backward", 2, attention::backward),
    ("norm", 2, norm::forward),
    ("norm backward", 2, norm::backward),
    ("reduce", 4, axis::reduce),
    ("cumulative sum", 1, axis::scan),
    ("transpose", 1, axis::transpose),
    ("cast", 2, axis::cast),
];

/// The fewest elements of an output whose errors count: those of a few sums near 0 would hide all others.
const LEAST_COUNTED: usize = 32;

/// Bytes of the outputs and of the gaps in them before the first and the second run.
const UNWRITTEN: [u8; 2] = [0xff, 0x5b];

/// What a total of errors is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The operation.
    pub operation: String,
    /// The element types, and the precision.
    pub types: String,
    /// How the operands are stored.
    pub layout: String,
}

impl Class {
    fn new(operation: impl Into<String>, types: impl Into<String>, layout: impl Into<String>) -> Self {
        Self { operation: operation.into(), types: types.into(), layout: layout.into() }
    }
}

/// The name of a pair of types.
fn types<I: Number, O: Number>() -> String {
    if I::NAME == O::NAME { I::NAME.to_owned() } else { format!("{} as {}", I::NAME, O::NAME) }
}

type Run = dyn Fn(&Device, u8) -> Result<Outputs> + Send + Sync;

/// A random problem.
pub struct Drawn {
    class: Class,
    /// The shape, the options and the places.
    words: String,
    /// The outputs whose errors count in the totals: none if the values are hard.
    counted: &'static [&'static str],
    /// The distance from 1 to the next number of the outputs' type.
    ulp: f64,
    /// Whether a device with these limits may refuse it because it has no kernel.
    may_be_refused: Box<dyn Fn(&Limits) -> bool + Send + Sync>,
    run: Box<Run>,
    expected: Box<dyn Fn() -> Expected + Send + Sync>,
}

/// The errors of a problem's output.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// The output, if several count.
    pub output: Option<&'static str>,
    /// The Euclidean norm of the errors relative to that of the results, in units in the last place of the type.
    pub error: f64,
    /// The sum of the errors away from 0 relative to the sum of the results' magnitudes, in the same units; negative towards 0.
    pub bias: f64,
}

/// The result of a right problem.
#[derive(Debug)]
pub enum Outcome {
    /// It ran: the largest error as a share of the tolerance, and the errors that count.
    Right(f64, Vec<Measured>),
    /// The device has no kernel for it, as documented.
    Refused,
}

impl Drawn {
    /// Draws the problem with this index of a seed; of one operation, if `only` is a part of its name.
    ///
    /// # Panics
    /// No operation has that name.
    pub fn new(seed: u64, index: u64, size: &Size, only: Option<&str>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index));
        let chosen = || OPERATIONS.iter().filter(|(name, ..)| only.is_none_or(|only| name.contains(only)));
        let mut left = rng.random_range(0..chosen().map(|(_, weight, _)| weight).sum());
        let mut operations = chosen();
        let draw = loop {
            let (_, weight, draw) = operations.next().expect("the weights add up");
            match left.checked_sub(*weight) {
                Some(less) => left = less,
                None => break draw,
            }
        };
        draw(&mut rng, size)
    }

    /// Whether an operation's name contains `only`.
    pub fn is_operation(only: &str) -> bool {
        OPERATIONS.iter().any(|(name, ..)| name.contains(only))
    }

    /// What it is about.
    pub fn class(&self) -> &Class {
        &self.class
    }

    /// Runs it twice in memory with other contents, and compares with the oracle.
    ///
    /// # Errors
    /// A result is wrong, the two differ, anything else was written, or the device failed. The error names the problem.
    pub fn check(&self, device: &Device) -> Result<Outcome> {
        self.checked(device).with_context(|| self.to_string())
    }

    fn checked(&self, device: &Device) -> Result<Outcome> {
        let got = match (self.run)(device, UNWRITTEN[0]) {
            Ok(got) => got,
            Err(error) if is_refusal(&error) && (self.may_be_refused)(device.limits()) => {
                return Ok(Outcome::Refused);
            }
            Err(error) => return Err(error),
        };
        let expected = (self.expected)();
        let worst = compare_all(&got, &expected)?;
        let again = (self.run)(device, UNWRITTEN[1])?;
        ensure!(is_same(&got, &again), "a second run, in memory with other contents, gave other results");
        let pairs = got
            .iter()
            .zip(&expected)
            .filter(|((name, got), _)| self.counted.contains(name) && got.len() >= LEAST_COUNTED);
        let measured = pairs.filter_map(|((output, got), (_, expected))| {
            let [mut off, mut all, mut signed, mut magnitude] = [0.0f64; 4];
            for (got, bound) in got.iter().zip(expected) {
                let error = got - bound.value;
                (off, all) = (off + error * error, all + bound.value * bound.value);
                signed += if bound.value < 0.0 { -error } else { error };
                magnitude += bound.value.abs();
            }
            let error = (off / all).sqrt() / self.ulp;
            let output = (self.counted.len() > 1).then_some(*output);
            error.is_finite().then(|| Measured { output, error, bias: signed / magnitude / self.ulp })
        });
        Ok(Outcome::Right(worst, measured.collect()))
    }
}

/// Checks problems of a seed on this many threads. Returns the totals, the number of problems that the device refused as
/// documented, and the errors of the wrong ones, each with what repeats it.
pub fn check_all(
    device: &Device,
    (seed, indices): (u64, Range<u64>),
    size: &Size,
    only: Option<&str>,
    threads: usize,
) -> (Totals, u64, Vec<String>) {
    let (next, all) = (AtomicU64::new(indices.start), Mutex::new((Totals::default(), 0, Vec::new())));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= indices.end {
                return;
            }
            let drawn = Drawn::new(seed, index, size, only);
            let outcome = drawn.check(device);
            let mut all = all.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match outcome {
                Ok(Outcome::Right(_, measured)) => all.0.add(drawn.class(), &measured),
                Ok(Outcome::Refused) => all.1 += 1,
                Err(error) => all.2.push(format!("problem {index} of seed {seed}: {error:#}")),
            }
        }
    };
    thread::scope(|scope| {
        (1..threads).for_each(|_| _ = scope.spawn(work));
        work();
    });
    all.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl fmt::Display for Drawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Class { operation, types, layout } = &self.class;
        write!(f, "{operation} of {types}, {layout}: {}", self.words)
    }
}

/// Whether the error says that the device has no kernel.
fn is_refusal(error: &anyhow::Error) -> bool {
    let kind = error.downcast_ref().map(Error::kind);
    matches!(kind, Some(Kind::Unsupported { .. } | Kind::Alignment { .. }))
}

/// Never refused.
fn never(_: &Limits) -> bool {
    false
}

/// Twice the largest relative error of a rounding.
fn ulp<T: Number>() -> f64 {
    2.0 * T::ROUNDING
}

/// Numbers of a type in a range around 0.
fn uniform<T: Number>(rng: &mut StdRng, len: usize, range: f32) -> Vec<T> {
    (0..len).map(|_| T::nearest(rng.random_range(-1.0f32..1.0) * range)).collect()
}

/// One of them.
fn pick<T: Copy>(rng: &mut StdRng, all: &[T]) -> T {
    all[rng.random_range(0..all.len())]
}
