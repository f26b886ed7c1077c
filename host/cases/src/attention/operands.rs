//! The operands of a [`Problem`], the expected values, and its cases.

use std::sync::OnceLock;

use anyhow::Result;
use ferrowarp::attention::{Element16, KernelChoice, Outputs as To, Problem as Shape};
use ferrowarp::device::{Buffer, Device};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use super::oracle::Row;
use super::problem::{Cache, Problem, Values};
use crate::case::{Case, wide};
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::place::{Place, UNTOUCHED};
use crate::reference::{Number, Sum, dot};
use crate::scopes::Setting;

/// A stored tensor, with gaps.
pub(crate) struct Stored<T> {
    pub elements: Vec<T>,
    pub place: Place,
}

impl<T: Number> Stored<T> {
    /// Creates a tensor of this shape with all elements `fill`.
    pub fn new(shape: [usize; 4], heads_first: Option<usize>, fill: T) -> Self {
        let [batch, length, heads, size] = shape;
        let strides = match heads_first {
            None => [length * heads * size, heads * size, size],
            Some(gap) => [heads * (length * (size + gap) + gap), size + gap, length * (size + gap) + gap],
        };
        let place = Place { shape, first: 0, strides, len: batch * strides[0] };
        Self { elements: vec![fill; place.len], place }
    }

    pub fn filled(mut self, mut number: impl FnMut() -> f32) -> Self {
        self.place.indices().for_each(|i| self.elements[i] = T::nearest(number()));
        self
    }

    /// The index of a row's first element.
    pub fn index(&self, [batch, position, head]: [usize; 3]) -> usize {
        let [by_batch, by_position, by_head] = self.place.strides;
        batch * by_batch + position * by_position + head * by_head
    }

    pub fn row(&self, batch: usize, position: usize, head: usize) -> &[T] {
        &self.elements[self.index([batch, position, head])..][..self.place.shape[3]]
    }

    pub fn upload(&self, device: &Device) -> Result<Buffer<T>> {
        Ok(device.upload(&self.elements)?)
    }
}

/// The operands of a problem in one type, and the expected values.
pub(crate) struct Operands<T> {
    pub problem: Problem,
    pub scale: f32,
    pub q: Stored<T>,
    pub k: Stored<T>,
    pub v: Stored<T>,
    /// The expected values with unrounded and with rounded weights, computed for the first comparison.
    expected: [OnceLock<Expected>; 2],
}

impl<T: Number + Element16> Operands<T> {
    pub fn new(problem: &Problem) -> Self {
        let &Problem { lengths: [queries, keys], batch, heads: [key_heads, group], head_size, .. } = problem;
        let mut rng = StdRng::seed_from_u64((queries * 31 + keys * 7 + head_size) as u64);
        let range = match problem.values {
            Values::Ordinary | Values::Dominant => 2.0,
            Values::Large => 32.0,
            Values::Huge => 4096.0,
            Values::Equal => 0.0,
        };
        let nan = T::nearest(f32::NAN);
        let stored = |length, heads| Stored::new([batch, length, heads, head_size], problem.heads_first, nan);
        let mut q = stored(queries, key_heads * group).filled(|| rng.random_range(-1.0f32..1.0) * range);
        let mut k = stored(keys, key_heads).filled(|| rng.random_range(-1.0f32..1.0) * range);
        let v = stored(keys, key_heads).filled(|| rng.random_range(-1.0f32..1.0));
        if problem.values == Values::Dominant {
            // The first elements of a query and of the last key determine its logit; those of the other keys are 0.
            let firsts = |stored: &Stored<T>| stored.place.indices().step_by(head_size).collect::<Vec<_>>();
            for i in firsts(&q) {
                q.elements[i] = T::nearest(16.0);
            }
            let firsts = firsts(&k);
            let last = (keys - 1) * key_heads;
            for (row, i) in firsts.into_iter().enumerate() {
                let is_last = row % (keys * key_heads) >= last;
                k.elements[i] = T::nearest(if is_last { 40.0 } else { 0.0 });
            }
        }
        Self::with(problem, 1.0 / (head_size as f32).sqrt(), [q, k, v])
    }

    /// The operands of a problem, with the factor of the logits.
    pub fn with(problem: &Problem, scale: f32, [q, k, v]: [Stored<T>; 3]) -> Self {
        Self { problem: *problem, scale, q, k, v, expected: Default::default() }
    }

    /// K or V as the problem stores it. Elements outside a batch entry's keys are NaN.
    fn cached(&self, whole: &Stored<T>) -> Stored<T> {
        let [batch, length, heads, size] = whole.place.shape;
        let nan = T::nearest(f32::NAN);
        let mut stored = match self.problem.cache {
            Cache::Pages(page) => {
                let shape = [batch * length.div_ceil(page) + 1, page, heads, size];
                Stored::new(shape, self.problem.heads_first, nan)
            }
            _ => Stored::new(whole.place.shape, self.problem.heads_first, nan),
        };
        for row in 0..batch * length * heads {
            let (entry, position, head) = (row / heads / length, row / heads % length, row % heads);
            if position < self.problem.keys(entry) {
                let [to, at] = match self.problem.cache {
                    Cache::Pages(page) => [self.page(entry, position / page), position % page],
                    _ => [entry, position],
                };
                let first = stored.index([to, at, head]);
                stored.elements[first..][..size].copy_from_slice(whole.row(entry, position, head));
            }
        }
        stored
    }

    /// The page of some keys of a batch entry.
    fn page(&self, batch: usize, number: usize) -> usize {
        let Cache::Pages(page) = self.problem.cache else { return batch };
        let each = self.problem.lengths[1].div_ceil(page);
        self.problem.batch * each - (batch * each + number)
    }

    fn run(&self, device: &Device, choice: KernelChoice<T>) -> Result<Outputs> {
        let &Problem { has_log, heads_first, cache, lengths: [_, keys], .. } = &self.problem;
        let [batch, queries, heads, _] = self.q.place.shape;
        let [of_k, of_v] = [&self.k, &self.v].map(|whole| self.cached(whole));
        let (q, k, v) = (self.q.upload(device)?, of_k.upload(device)?, of_v.upload(device)?);
        let lengths: Vec<_> = (0..batch).map(|entry| self.problem.keys(entry) as u32).collect();
        let lengths = device.upload(&lengths)?;
        let each = if let Cache::Pages(page) = cache { keys.div_ceil(page) } else { 0 };
        let pages: Vec<_> = (0..batch * each).map(|i| self.page(i / each, i % each) as u32).collect();
        let pages = device.tensor(&pages, [batch, each])?;
        let of_out = Stored::<T>::new(self.q.place.shape, heads_first, T::nearest(0.0)).place;
        let mut out = of_out.output::<T>(device, UNTOUCHED)?;
        let mut log = device.tensor(&vec![f32::NAN; batch * heads * queries], [batch, heads, queries])?;
        let mut call = self.problem.attention();
        if cache != Cache::Whole {
            call = call.lengths(&lengths);
        }
        if matches!(cache, Cache::Pages(_)) {
            call = call.pages(&pages);
        }
        let mut to = To::new(of_out.view_mut::<_, 4>(&mut out)?);
        if has_log {
            to = to.log_sum_exp(&mut log);
        }
        let (q, k) = (self.q.place.view::<_, 4>(&q)?, of_k.place.view::<_, 4>(&k)?);
        call.run_by(device, to, [q, k, of_v.place.view::<_, 4>(&v)?], Some(choice))?;
        let mut outputs = vec![("out", of_out.read(&out, UNTOUCHED)?)];
        if has_log {
            outputs.push(("log_sum_exp", wide(&log.to_vec()?)));
        }
        Ok(outputs)
    }

    /// Batch entry, query and head of each row of Q, in dimension order.
    pub fn rows(&self) -> impl Iterator<Item = (usize, usize, usize)> + use<T> {
        let [batch, queries, heads, _] = self.q.place.shape;
        (0..batch * queries * heads)
            .map(move |row| (row / heads / queries, row / heads % queries, row % heads))
    }

    /// The dot products of a query with the keys that it sees.
    pub fn products(&self, batch: usize, query: usize, head: usize) -> impl Iterator<Item = Sum> {
        let (q, group) = (self.q.row(batch, query, head), self.problem.heads[1]);
        self.problem.seen(batch, query).map(move |key| dot(q, self.k.row(batch, key, head / group)))
    }

    fn logits(&self, batch: usize, query: usize, head: usize) -> Row {
        Row::new(self.products(batch, query, head), self.problem.head_size, self.scale.into())
    }

    pub fn expected(&self, is_rounded: bool) -> Expected {
        let &Problem { heads: [_, group], head_size, has_log, .. } = &self.problem;
        let [batch, queries, heads, _] = self.q.place.shape;
        let mut out = Vec::with_capacity(batch * queries * heads * head_size);
        let mut logs = vec![None; batch * heads * queries];
        for (entry, query, head) in self.rows() {
            let logits = self.logits(entry, query, head);
            for column in 0..head_size {
                let value = |key| f64::from(self.v.row(entry, key, head / group)[column].value());
                let values: Vec<_> = self.problem.seen(entry, query).map(value).collect();
                out.push(logits.result::<T>(&values, is_rounded));
            }
            logs[(entry * heads + head) * queries + query] = Some(logits.log_sum_exp());
        }
        let mut expected = vec![("out", out)];
        if has_log {
            expected.push(("log_sum_exp", logs.into_iter().flatten().collect()));
        }
        expected
    }
}

/// The cases of a problem with tensors of `T`, one for every kernel that supports it.
pub(super) fn of_type<T: Number + Element16>(problem: &Problem, setting: &Setting) -> Vec<Case> {
    let of = *problem;
    let operands = Later::new(move || Operands::<T>::new(&of));
    let &Problem { lengths: [queries, keys], batch, heads: [key_heads, group], head_size, .. } = problem;
    let gap = problem.heads_first.unwrap_or(0);
    let shape = Shape {
        queries: queries as u32,
        keys: keys as u32,
        heads: (key_heads * group) as u32,
        key_heads: key_heads as u32,
        batch: batch as u32,
        head_size: head_size as u32,
        is_aligned: [gap, head_size].iter().all(|elements| elements.is_multiple_of(8)),
        is_ragged: problem.cache != Cache::Whole,
        is_paged: matches!(problem.cache, Cache::Pages(_)),
        ..Shape::new(batch as u32, queries as u32, head_size as u32)
    };
    let choices = KernelChoice::<T>::every(&setting.profile, &shape).into_iter();
    let choices = choices.map(|choice| (choice, choice.kernels().map(|kernel| kernel.name).collect()));
    choices
        .filter(|(_, names): &(_, Vec<_>)| !setting.is_serial() || names[0].ends_with("_serial"))
        .map(|(choice, names)| {
            let Problem { causal, window, values, heads_first, cache, .. } = *problem;
            let words = move |_: &_| format!(
                "{batch} x {queries} x {keys}, heads {key_heads} x {group} of {head_size}, {causal:?}, window {window:?}, \
                 {values:?}, gap {heads_first:?}, {cache:?}"
            );
            let is_rounded = !names[0].ends_with("_serial");
            let run = move |of: &Operands<T>, device: &Device| of.run(device, choice);
            Case::of(&operands, names, words, run, move |of| {
                let expected = &of.expected[usize::from(is_rounded)];
                expected.get_or_init(|| of.expected(is_rounded)).clone()
            })
        })
        .collect()
}
