//! Attention.

use anyhow::Context as _;
use ferrowarp::attention::{Attention, Causal, Element16, KernelChoice, Outputs, Problem};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::{DeviceProfile, Error};
use ferrowarp_cases::attention::oracle::Row;
use ferrowarp_cases::random::bench;
use ferrowarp_cases::reference::{Number, Sum};
use gpu_kernels::attention::args::NO_WINDOW;
use serde::Serialize;

use super::Operation;
use super::operands::{Operand, Values, read};
use super::softmax::elements;
use crate::timed;

/// Rows whose results are checked, at most, and as far as they have this many terms together.
const CHECKED: usize = 12;
const TERMS: usize = 1 << 22;

/// The contents of the tensors of a shape of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Inputs {
    /// Normal random numbers.
    Normal,
    /// The same, Q times 16, so that the logits have a standard deviation of 16.
    Large,
    /// The same, but the first elements of all queries and of one key per head are 13, so this key gets nearly all the
    /// weight.
    Dominant,
}

/// The operands.
pub(super) struct Common<T> {
    pub drawn: bench::Attention,
    pub q: Operand<T>,
    pub k: Operand<T>,
    pub v: Operand<T>,
    /// `None` if the problem is drawn.
    inputs: Option<Inputs>,
    /// The page of each part of an entry.
    pages: Vec<u32>,
}

impl<T: Number + Element16> Common<T> {
    pub fn new(device: &Device, drawn: &bench::Attention, inputs: Option<Inputs>) -> Result<Self, Error> {
        let of = |place, seed| Operand::<T>::new(device, place, Values::Normal, seed);
        let count = if drawn.paged.is_some() { drawn.k.shape[0] } else { 0 };
        // Any order in which neighbours are apart.
        let step = (count / 3..count).find(|step| gcd(*step, count) == 1).unwrap_or(1);
        let pages = (0..count).map(|i| (i * step % count) as u32).collect();
        let (mut q, mut k) = (of(&drawn.q, 1)?, of(&drawn.k, 2)?);
        let [_, keys, key_heads, size] = drawn.k.shape;
        match inputs {
            None | Some(Inputs::Normal) => {}
            Some(Inputs::Large) => q = q.changed(device, |_, x| T::nearest(16.0 * x.value()))?,
            Some(Inputs::Dominant) => {
                let first = |i: usize, x: T| if i.is_multiple_of(size) { T::nearest(13.0) } else { x };
                let is_dominant = |i: usize| i / (key_heads * size) % keys == keys / 3;
                q = q.changed(device, first)?;
                k = k.changed(device, |i, x| if is_dominant(i) { first(i, x) } else { x })?;
            }
        }
        Ok(Self { drawn: drawn.clone(), q, k, v: of(&drawn.k, 3)?, inputs, pages })
    }

    /// Of a shape of a list, the last queries of the last head: their error is reported, like the peers'. It varies from query
    /// to query with hard inputs.
    pub fn reported(&self) -> Option<Vec<[usize; 3]>> {
        let [batch, queries, heads, _] = self.drawn.q.shape;
        let last = queries.min(if self.inputs? == Inputs::Normal { 16 } else { 128 });
        Some((queries - last..queries).map(|query| [batch - 1, query, heads - 1]).collect())
    }

    /// The most by which gradients may be off. Those of hard inputs subtract nearly equal numbers; their errors are only
    /// reported.
    pub fn allowed(&self, largest: f64) -> f64 {
        match self.inputs {
            // Where nearly nothing is left of terms near 1, their rounding shows.
            None => 0.03 * largest + 1e-3,
            Some(Inputs::Normal) => 0.02 * largest,
            Some(_) => f64::INFINITY,
        }
    }

    /// The operation with the mask.
    pub fn attention<'a>(&self) -> Attention<'a> {
        let call = match self.drawn.causal {
            None => Attention::new(),
            Some(bench::Causal::TopLeft) => Attention::new().causal(Causal::TopLeft),
            Some(bench::Causal::BottomRight) => Attention::new().causal(Causal::BottomRight),
        };
        self.drawn.window.into_iter().fold(call, Attention::sliding_window)
    }

    /// The keys that a query of a batch entry sees.
    pub fn seen(&self, entry: usize, query: usize) -> std::ops::Range<usize> {
        let ([queries, _], keys) = (self.drawn.lengths(), self.drawn.keys_of(entry));
        // The index of the last key, plus 1: with a window it may be behind the keys.
        let end = match self.drawn.causal {
            None => return 0..keys,
            Some(bench::Causal::TopLeft) => query + 1,
            Some(bench::Causal::BottomRight) => (query + 1 + keys).saturating_sub(queries),
        };
        let first = end.saturating_sub(self.drawn.window.unwrap_or(end));
        first.min(keys)..end.min(keys)
    }

    /// Where a key and its value are.
    pub fn at(&self, entry: usize, key: usize, head: usize) -> [usize; 3] {
        let Some(keys) = self.drawn.paged else { return [entry, key, head] };
        let size = self.drawn.k.shape[1];
        [self.pages[entry * keys.div_ceil(size) + key / size] as usize, key % size, head]
    }

    /// The head of K for a head of Q.
    pub fn key_head(&self, head: usize) -> usize {
        head / (self.drawn.q.shape[2] / self.drawn.k.shape[2])
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The forward pass.
pub struct Forward<T> {
    device: Device,
    common: Common<T>,
}

/// The operands and results of one launch.
pub struct Set<T> {
    pub(crate) q: Buffer<T>,
    pub(crate) k: Buffer<T>,
    pub(crate) v: Buffer<T>,
    pub(crate) out: Buffer<T>,
    lengths: Option<Buffer<u32>>,
    pages: Option<ferrowarp::Tensor<u32>>,
}

impl<T: Number + Element16> Forward<T> {
    /// Prepares the operands of a drawn problem, or with these `inputs` of a listed one.
    ///
    /// # Errors
    /// There is not enough memory for them.
    pub fn new(device: &Device, drawn: &bench::Attention, inputs: Option<Inputs>) -> anyhow::Result<Self> {
        Ok(Self { device: device.clone(), common: Common::new(device, drawn, inputs)? })
    }
}

impl<T: Number + Element16> Operation for Forward<T> {
    type Set = Set<T>;
    type By = KernelChoice<T>;

    fn bytes(&self) -> usize {
        let drawn = &self.common.drawn;
        2 * (elements(&drawn.q) + elements(&drawn.k)) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Set<T>> {
        let (device, Common { drawn, q, k, v, pages, .. }) = (&self.device, &self.common);
        let batch = drawn.q.shape[0];
        let table = || device.tensor(pages, [batch, pages.len() / batch]);
        Ok(Set {
            q: q.buffer(device)?,
            k: k.buffer(device)?,
            v: v.buffer(device)?,
            out: device.alloc_zeroed(drawn.q.len)?,
            lengths: drawn.lengths.as_ref().map(|lengths| device.upload(lengths)).transpose()?,
            pages: drawn.paged.map(|_| table()).transpose()?,
        })
    }

    fn run(&self, device: &Device, set: &mut Set<T>, by: Option<Self::By>) -> Result<(), Error> {
        let (Set { q, k, v, out, lengths, pages }, drawn) = (set, &self.common.drawn);
        let mut call = self.common.attention();
        if let Some(pages) = pages {
            call = call.pages(&*pages);
        }
        if let Some(lengths) = lengths {
            call = call.lengths(&*lengths);
        }
        let out = Outputs::new(drawn.q.view_mut::<_, 4>(out)?);
        let [q, k, v] = [drawn.q.view::<_, 4>(q)?, drawn.k.view::<_, 4>(k)?, drawn.k.view::<_, 4>(v)?];
        call.run_by(device, out, [q, k, v], by)
    }

    fn choices(&self) -> Vec<(String, Self::By)> {
        let drawn = &self.common.drawn;
        let ([batch, queries, heads, size], [_, keys]) = (drawn.q.shape, drawn.lengths());
        let are_aligned = [&drawn.q, &drawn.k].iter().all(|place| {
            let rows = (0..3).all(|i| place.shape[i] <= 1 || place.strides[i].is_multiple_of(8));
            place.first.is_multiple_of(8) && rows
        });
        let problem = Problem {
            queries: queries as u32,
            heads: heads as u32,
            key_heads: drawn.k.shape[2] as u32,
            is_aligned: are_aligned,
            is_ragged: drawn.lengths.is_some() || drawn.paged.is_some(),
            is_paged: drawn.paged.is_some(),
            is_causal: drawn.causal.is_some(),
            window: drawn.window.map_or(NO_WINDOW as u32, |keys| keys as u32),
            ..Problem::new(batch as u32, keys as u32, size as u32)
        };
        let profile = DeviceProfile::from(&self.device);
        let chosen = KernelChoice::new(&profile, &problem).into_iter();
        let all = chosen.chain(KernelChoice::every(&profile, &problem));
        all.map(|choice| (choice.to_string(), choice)).collect()
    }

    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let Common { drawn, q, k, v, .. } = &self.common;
        let ([batch, queries, heads, size], [_, keys]) = (drawn.q.shape, drawn.lengths());
        let wide = |row: Vec<T>| -> Vec<f64> { row.iter().map(|x| x.value().into()).collect() };
        let count = (TERMS / (keys * size)).clamp(3, CHECKED);
        let spread = (0..count).map(|i| i * (batch * queries * heads - 1) / (count - 1));
        let spread = spread.map(|i| [i / heads / queries, i / heads % queries, i % heads]);
        let compare = |rows: Vec<[usize; 3]>| {
            let (mut got, mut bounds) = (Vec::new(), Vec::new());
            for [entry, query, head] in rows {
                let key_head = self.common.key_head(head);
                let row = wide(q.row([entry, query, head]));
                let seen = || self.common.seen(entry, query).map(|key| self.common.at(entry, key, key_head));
                let product = |at: [usize; 3]| {
                    let pairs = row.iter().zip(wide(k.row(at)));
                    pairs.map(|(q, k)| q * k).fold(Sum::default(), Sum::and)
                };
                let weights = Row::new(seen().map(product), size, 1.0 / (size as f64).sqrt());
                let values: Vec<Vec<f64>> = seen().map(|at| wide(v.row(at))).collect();
                for column in 0..size {
                    let of_column: Vec<f64> = values.iter().map(|value| value[column]).collect();
                    bounds.push(weights.result::<T>(&of_column, true));
                }
                got.extend(read(&set.out, &drawn.q, [entry, query, head])?);
            }
            timed::check("result", &got, &bounds).context("the result of attention")
        };
        let error = compare(spread.collect())?;
        self.common.reported().map_or(Ok(error), compare)
    }
}
