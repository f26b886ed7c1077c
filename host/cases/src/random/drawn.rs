//! A random problem.

use std::fmt;

use anyhow::{Context as _, Result, ensure};
use bytemuck::Pod;
use cuda_std::launch::Limits;
use cuda_std::testing::Element;
use ferrowarp::device::Device;
use ferrowarp::{Error, Kind, TensorView, TensorViewMut};
use rand::{RngExt as _, rngs::StdRng};

use crate::case::is_same;
use crate::compare::{Bound, Expected, Outputs, compare_all};
use crate::place::{GAP, Place, UNTOUCHED};
use crate::reference::Number;

/// The fewest elements of an output whose errors count: those of a few sums near 0 would hide all others.
const LEAST_COUNTED: usize = 32;

/// Bytes of the outputs and of the gaps in them before the first and the second run.
const UNWRITTEN: [u8; 2] = [GAP, UNTOUCHED];

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
    pub(super) fn new(
        operation: impl Into<String>,
        types: impl Into<String>,
        layout: impl Into<String>,
    ) -> Self {
        Self { operation: operation.into(), types: types.into(), layout: layout.into() }
    }
}

/// The name of a pair of types.
pub(super) fn types<I: Number, O: Number>() -> String {
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
    pub(super) ulp: f64,
    /// Whether a device with these limits may refuse it because it has no kernel.
    may_be_refused: fn(&Limits) -> bool,
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
    /// Creates a problem that every device runs and whose errors do not count. `run` gets the byte of unwritten outputs.
    pub(super) fn of(
        class: Class,
        words: String,
        run: impl Fn(&Device, u8) -> Result<Outputs> + Send + Sync + 'static,
        expected: impl Fn() -> Expected + Send + Sync + 'static,
    ) -> Self {
        let (run, expected) = (Box::new(run), Box::new(expected));
        Self { class, words, counted: &[], ulp: 1.0, may_be_refused: |_| false, run, expected }
    }

    /// Creates a problem with an operand and a result, `out`.
    pub(super) fn unary<I: Pod + Send + Sync, O: Pod + Element>(
        class: Class,
        words: &str,
        (of_inp, inp): (Place, &[I]),
        of_out: Place,
        run: impl Fn(&Device, TensorViewMut<'_, O>, TensorView<'_, I>) -> Result<(), Error>
        + Send
        + Sync
        + 'static,
        expected: impl Fn() -> Vec<Bound> + Send + Sync + 'static,
    ) -> Self {
        let stored = of_inp.filled(inp);
        let words = format!("{words}, inp {of_inp:?}, out {of_out:?}");
        let run = move |device: &Device, byte| {
            let (inp, mut out) = (device.upload(&stored)?, of_out.output::<O>(device, byte)?);
            run(device, of_out.view_mut::<_, 2>(&mut out)?, of_inp.view::<_, 2>(&inp)?)?;
            Ok(vec![("out", of_out.read(&out, byte)?)])
        };
        Self::of(class, words, run, move || vec![("out", expected())])
    }

    /// Lets the errors of these outputs count, in units in the last place of `T`, unless the values are hard.
    pub(super) fn counting<T: Number>(self, is_hard: bool, outputs: &'static [&'static str]) -> Self {
        Self { counted: if is_hard { &[] } else { outputs }, ulp: 2.0 * T::ROUNDING, ..self }
    }

    /// Lets devices refuse it, if they have these limits.
    pub(super) fn refused_if(self, may_be_refused: fn(&Limits) -> bool) -> Self {
        Self { may_be_refused, ..self }
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

/// Numbers of a type in a range around 0.
pub(super) fn uniform<T: Number>(rng: &mut StdRng, len: usize, range: f32) -> Vec<T> {
    (0..len).map(|_| T::nearest(rng.random_range(-1.0f32..1.0) * range)).collect()
}

/// One of them.
pub(super) fn pick<T: Copy>(rng: &mut StdRng, all: &[T]) -> T {
    all[rng.random_range(0..all.len())]
}

/// The names of the outputs that are wanted.
pub(super) fn wanted(all: &[(&'static str, bool)]) -> Vec<&'static str> {
    all.iter().filter(|(_, is_wanted)| *is_wanted).map(|(name, _)| *name).collect()
}

/// The outputs with these names.
pub(super) fn only<T>(names: &[&'static str], mut all: Vec<(&'static str, T)>) -> Vec<(&'static str, T)> {
    all.retain(|(name, _)| names.contains(name));
    all
}
