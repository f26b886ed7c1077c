//! The gradients of a [`Problem`]: expected values, and cases.

use std::sync::OnceLock;

use anyhow::Result;
use ferrowarp::attention::{BackwardBy, BackwardInputs, Element16, GradientOutputs};
use ferrowarp::device::Device;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::operands::{Operands, Stored};
use super::problem::{Problem, Values, at};
use crate::case::Case;
use crate::compare::{Bound, Expected, Outputs};
use crate::later::Later;
use crate::place::UNTOUCHED;
use crate::reference::{Number, Sum, dot};
use crate::scopes::{EMULATOR, LARGER, SMALL, SMALL_AND_EMULATOR, Setting, TINY};

/// Problems for comparing gradients. Those of a few elements run on the executor under any schedule, and under Miri with one
/// thread.
pub const BACKWARD: &[Problem] = &[
    at(SMALL, 10, 12).head_size(72),
    at(TINY, 3, 5).head_size(4).top_left(),
    at(SMALL, 70, 66).heads([1, 2]).head_size(24).top_left(),
    at(SMALL_AND_EMULATOR, 20, 40).head_size(104).bottom_right(),
    at(SMALL, 34, 50).head_size(208).top_left(),
    at(SMALL, 600, 20).head_size(136),
    at(EMULATOR, 20, 650).head_size(72),
    at(SMALL, 18, 66).head_size(201).bottom_right().window(30),
    at(EMULATOR, 70, 133).heads([1, 2]).bottom_right().heads_first(8),
    at(EMULATOR, 131, 66).head_size(96).bottom_right(),
    at(SMALL, 20, 25).head_size(8).top_left().window(3),
    at(EMULATOR, 200, 270).heads([1, 2]).bottom_right().window(50),
    at(EMULATOR, 40, 133).heads([1, 2]).head_size(67).bottom_right(),
    at(EMULATOR, 35, 60).head_size(256).top_left(),
    at(EMULATOR, 70, 50).head_size(150).top_left().window(20),
    at(EMULATOR, 20, 40).head_size(152),
    at(LARGER, 150, 270).batch(2).heads([2, 2]).head_size(160).bottom_right().window(60),
    at(LARGER, 130, 70).batch(2).heads([1, 2]).head_size(250).heads_first(2),
    at(LARGER, 200, 140).batch(2).heads([1, 2]).head_size(232).bottom_right(),
    at(LARGER, 400, 390).heads([2, 1]).head_size(80).top_left().window(170),
    at(LARGER, 0, 66).head_size(192),
    at(LARGER, 66, 0).head_size(192),
    at(LARGER, 200, 200).top_left().window(1),
    at(LARGER, 300, 400).head_size(128).bottom_right().window(100),
    at(LARGER, 300, 140).batch(2).heads([2, 2]).top_left().window(70),
    at(LARGER, 1, 1),
    at(LARGER, 66, 0),
    at(LARGER, 0, 66),
    at(LARGER, 130, 200).batch(2).heads([2, 2]),
    at(LARGER, 200, 200).head_size(128).top_left(),
    at(LARGER, 257, 129).head_size(128).bottom_right(),
    at(LARGER, 129, 257).head_size(128).bottom_right(),
    at(LARGER, 129, 257).heads([1, 3]).top_left(),
    at(LARGER, 67, 133).batch(2).heads([2, 2]).head_size(128).top_left().heads_first(8),
    at(LARGER, 66, 130).head_size(96),
    at(LARGER, 66, 130).head_size(8).top_left(),
    at(LARGER, 67, 131).heads([1, 2]).head_size(104).heads_first(8).top_left(),
    at(LARGER, 70, 90).heads([1, 3]).head_size(40).heads_first(24).bottom_right(),
    at(LARGER, 66, 130).values(Values::Large),
    at(LARGER, 66, 130).head_size(128).values(Values::Dominant),
    at(LARGER, 66, 130).top_left().values(Values::Equal),
    at(LARGER, 33, 20).heads([2, 3]).head_size(5).top_left(),
    at(LARGER, 5, 18).head_size(256).heads_first(3),
];

/// Half a unit in the last place of `f32`, relative.
const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;
/// Tolerance for a sum of few terms, in roundings of the sum's magnitude.
const ROUNDINGS: f64 = 16.0;
/// Terms that may cost one more rounding: tensor cores may truncate addends.
const TERMS_A_ROUNDING: f64 = 8.0;
/// The relative error of an approximate exponential.
const APPROXIMATE: f64 = 1.0 / (1 << 20) as f64;

/// A number, and its possible error.
#[derive(Clone, Copy)]
struct Near {
    value: f64,
    error: f64,
}

impl Near {
    /// A sum of `terms` products.
    fn sum(sum: Sum, terms: usize) -> Self {
        let roundings = ROUNDINGS + terms as f64 / TERMS_A_ROUNDING;
        Self { value: sum.value, error: roundings * ROUNDING * sum.magnitude + 1e-37 }
    }

    /// The number rounded to a type, if it is.
    fn rounded<T: Number>(self, is_rounded: bool) -> Self {
        let of_rounding = T::ROUNDING * (self.value.abs() + self.error) + T::SMALLEST;
        Self { error: self.error + if is_rounded { of_rounding } else { 0.0 }, ..self }
    }
}

/// A sum of products with inexact numbers.
#[derive(Clone, Copy, Default)]
struct Total {
    sum: Sum,
    error: f64,
    terms: usize,
}

impl Total {
    fn add(&mut self, x: Near, by: f64) {
        self.sum = self.sum.and(x.value * by);
        self.error += x.error * by.abs();
        self.terms += 1;
    }

    /// The sum times `scale`, as it is stored.
    fn stored<T: Number>(self, scale: f64) -> Bound {
        let near = Near::sum(self.sum, self.terms);
        let (value, error) =
            (near.value * scale, (near.error + self.error + ROUNDING * near.value.abs()) * scale);
        Bound::rounded::<T>(value, error)
    }
}

/// The operands of a problem in one type, the gradient of its result, and the expected values.
pub(crate) struct Operation<T> {
    of: Operands<T>,
    /// The result, rounded to nearest.
    pub out: Stored<T>,
    d_out: Stored<T>,
    /// The logarithms, rounded to nearest.
    pub logs: Vec<f32>,
    /// The expected values with unrounded and with rounded weights, computed for the first comparison.
    expected: [OnceLock<Expected>; 2],
}

impl<T: Number + Element16> Operation<T> {
    fn new(problem: &Problem) -> Self {
        let of = Operands::<T>::new(problem);
        let shape @ [_, queries, _, size] = of.q.place.shape;
        let mut rng = StdRng::seed_from_u64((queries + size) as u64);
        let nan = T::nearest(f32::NAN);
        let stored = || Stored::new(shape, problem.heads_first, nan);
        let d_out = stored().filled(|| rng.random_range(-1.0f32..1.0));
        let out = stored();
        Self::with(of, out, d_out)
    }

    /// The gradients of these operands, with a tensor for the result.
    pub fn with(of: Operands<T>, mut out: Stored<T>, d_out: Stored<T>) -> Self {
        let (problem, [batch, queries, heads, size]) = (of.problem, of.q.place.shape);
        let mut logs = vec![f32::NEG_INFINITY; batch * heads * queries];
        for (entry, query, head) in of.rows() {
            let scale = f64::from(of.scale);
            let logits: Vec<_> = of.products(entry, query, head).map(|sum| sum.value * scale).collect();
            let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = logits.iter().map(|x| (x - max).exp()).sum();
            if !logits.is_empty() {
                logs[(entry * heads + head) * queries + query] = (max + sum.ln()) as f32;
            }
            let first = out.index([entry, query, head]);
            for column in 0..size {
                let terms = logits.iter().zip(problem.seen(entry, query)).map(|(x, key)| {
                    let v = of.v.row(entry, key, head / problem.heads[1])[column].value();
                    (x - max).exp() / sum * f64::from(v)
                });
                out.elements[first + column] = T::nearest(terms.sum::<f64>() as f32);
            }
        }
        Self { of, out, d_out, logs, expected: Default::default() }
    }

    fn run(&self, device: &Device, by: BackwardBy) -> Result<Outputs> {
        let problem = &self.of.problem;
        let of = &self.of;
        let [batch, queries, heads, _] = of.q.place.shape;
        let log_shape = [batch, heads, queries];
        let (q, k, v) = (of.q.upload(device)?, of.k.upload(device)?, of.v.upload(device)?);
        let (out, d_out) = (self.out.upload(device)?, self.d_out.upload(device)?);
        let logs = device.tensor(&self.logs, log_shape)?;
        let to = |of: &Stored<T>| Stored::new(of.place.shape, problem.heads_first, T::nearest(0.0)).place;
        let [of_dq, of_dk, of_dv] = [to(&of.q), to(&of.k), to(&of.v)];
        let mut dq = of_dq.output::<T>(device, UNTOUCHED)?;
        let mut dk = of_dk.output::<T>(device, UNTOUCHED)?;
        let mut dv = of_dv.output::<T>(device, UNTOUCHED)?;
        let to = GradientOutputs::new(
            of_dq.view_mut::<_, 4>(&mut dq)?,
            of_dk.view_mut::<_, 4>(&mut dk)?,
            of_dv.view_mut::<_, 4>(&mut dv)?,
        );
        let inputs = BackwardInputs {
            d_out: self.d_out.place.view::<_, 4>(&d_out)?,
            q: of.q.place.view::<_, 4>(&q)?,
            k: of.k.place.view::<_, 4>(&k)?,
            v: of.v.place.view::<_, 4>(&v)?,
            out: self.out.place.view::<_, 4>(&out)?,
            log_sum_exp: logs.view(),
        };
        problem.attention().run_backward_by(device, to, inputs, Some(by))?;
        Ok(vec![
            ("dq", of_dq.read(&dq, UNTOUCHED)?),
            ("dk", of_dk.read(&dk, UNTOUCHED)?),
            ("dv", of_dv.read(&dv, UNTOUCHED)?),
        ])
    }

    pub fn expected(&self, is_rounded: bool) -> Expected {
        let of = &self.of;
        let group = of.problem.heads[1];
        let size = of.problem.head_size;
        let zeros = |stored: &Stored<T>| vec![Total::default(); stored.place.shape.iter().product()];
        let [mut dq, mut dk, mut dv] = [zeros(&of.q), zeros(&of.k), zeros(&of.v)];
        let dense = |shape: [usize; 4], [entry, position, head]: [usize; 3]| {
            ((entry * shape[1] + position) * shape[2] + head) * size
        };
        let scale = f64::from(of.scale);
        let [_, queries, heads, _] = of.q.place.shape;
        for (entry, query, head) in of.rows() {
            let log = f64::from(self.logs[(entry * heads + head) * queries + query]);
            let d_out = self.d_out.row(entry, query, head);
            let delta = Near::sum(dot(d_out, self.out.row(entry, query, head)), size);
            let q = of.q.row(entry, query, head);
            let at_query = dense(of.q.place.shape, [entry, query, head]);
            for key in of.problem.seen(entry, query) {
                let (k, v) = (of.k.row(entry, key, head / group), of.v.row(entry, key, head / group));
                let logit = Near::sum(dot(q, k), size);
                let (x, off) = (logit.value * scale, logit.error * scale);
                let off = off + 4.0 * ROUNDING * (x.abs() + log.abs());
                let relative = (2.0 * off).min(40.0).exp_m1() + APPROXIMATE;
                let p = (x - log).exp();
                let p = Near { value: p, error: p * relative + f64::from(f32::MIN_POSITIVE) };
                let product = Near::sum(dot(d_out, v), size);
                let difference = product.value - delta.value;
                let off = product.error + delta.error + ROUNDING * difference.abs();
                let ds = Near {
                    value: p.value * difference,
                    error: p.error * difference.abs() + (p.value + p.error) * off,
                };
                let (p, ds) = (p.rounded::<T>(is_rounded), ds.rounded::<T>(is_rounded));
                let at_key = dense(of.k.place.shape, [entry, key, head / group]);
                for i in 0..size {
                    dq[at_query + i].add(ds, k[i].value().into());
                    dk[at_key + i].add(ds, q[i].value().into());
                    dv[at_key + i].add(p, d_out[i].value().into());
                }
            }
        }
        let stored = |all: Vec<Total>, scale| all.into_iter().map(|total| total.stored::<T>(scale)).collect();
        vec![("dq", stored(dq, scale)), ("dk", stored(dk, scale)), ("dv", stored(dv, 1.0))]
    }
}

/// The cases of a problem with tensors of `T`, one for every kernel that supports it.
pub(super) fn of_type<T: Number + Element16>(problem: &Problem, setting: &Setting) -> Vec<Case> {
    let of = *problem;
    let operation = Later::new(move || Operation::<T>::new(&of));
    let &Problem { lengths: [queries, keys], batch, heads: [key_heads, group], head_size, .. } = problem;
    let Problem { causal, window, values, heads_first, .. } = *problem;
    let gap = heads_first.unwrap_or(0);
    let is_aligned = [gap, head_size].iter().all(|elements| elements.is_multiple_of(8));
    BackwardBy::choices::<T>(&setting.profile, head_size as u32, is_aligned)
        .filter(|by| !setting.is_serial() || *by == BackwardBy::Serial)
        .map(|by| {
            let names = by.kernels::<T>().map(|kernel| kernel.name).collect();
            let words = move |_: &_| format!(
                "gradients of {batch} x {queries} x {keys}, heads {key_heads} x {group} of {head_size}, {causal:?}, \
                 window {window:?}, {values:?}, gap {heads_first:?}"
            );
            let is_rounded = by != BackwardBy::Serial;
            let run = move |on: &Operation<T>, device: &Device| on.run(device, by);
            Case::of(&operation, names, words, run, move |on| {
                let expected = &on.expected[usize::from(is_rounded)];
                expected.get_or_init(|| on.expected(is_rounded)).clone()
            })
        })
        .collect()
}
