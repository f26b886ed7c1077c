//! Attention and its gradients.

use ferrowarp::attention::{Attention, Causal, Element16, GradientOutputs, Outputs as To};
use ferrowarp::device::Device;
use ferrowarp::{TensorView, TensorViewMut};
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, rngs::StdRng};

use super::drawn::{Class, Drawn, pick, uniform};
use super::layout::{Layout, Size, extents};
use crate::attention::gradients::Operation;
use crate::attention::operands::{Operands, Stored};
use crate::attention::problem::{PLAIN, Problem};
use crate::compare::{Expected, Outputs};
use crate::later::Later;
use crate::place::{GAP, Place};
use crate::reference::Number;

/// The shape, the mask and the operands, dense.
struct Common<T> {
    layout: Layout,
    batch: usize,
    /// What all entries of the batch have in common. The number of keys is the most.
    problem: Problem,
    scale: Option<f32>,
    is_hard: bool,
    q: Vec<T>,
    k: Vec<T>,
    v: Vec<T>,
}

impl<T: Number + Element16> Common<T> {
    /// Draws them. `ranges` are those of hard queries and keys.
    fn new(rng: &mut StdRng, terms: usize, ranges: &[f32]) -> Self {
        let batch = pick(rng, &[1, 1, 1, 2, 3, 4]);
        let heads @ [key_heads, group] = [pick(rng, &[1, 1, 2, 3]), pick(rng, &[1, 1, 1, 2, 4, 5, 8])];
        let head_size = pick(rng, &[64, 64, 128, 128, 8, 16, 96, 256, 0]);
        let multiple = pick(rng, &[1, 8]);
        let head_size = match head_size {
            0 => rng.random_range(1..=256_usize).next_multiple_of(multiple),
            size => size,
        };
        let mut lengths: [usize; 2] = extents(rng, terms / (batch * key_heads * group * head_size));
        // The next token of sequences.
        if rng.random_ratio(1, 4) {
            lengths = [pick(rng, &[1, 1, 2, 5]), lengths[0] * lengths[1]];
        }
        let causal = pick(rng, &[None, Some(Causal::TopLeft), Some(Causal::BottomRight)]);
        let window = causal.filter(|_| rng.random_ratio(1, 3));
        let window = window.map(|_| rng.random_range(1..=2 * lengths[1].max(1)));
        let range = if rng.random_bool(0.7) { 2.0 } else { pick(rng, ranges) };
        // Keys with an offset: all logits of a query are far from 0.
        let offset = if rng.random_ratio(1, 16) { 3.0 } else { 0.0 };
        let of_keys = batch * lengths[1] * key_heads * head_size;
        let k = uniform::<f32>(rng, of_keys, range).into_iter().map(|x| T::nearest(x + offset)).collect();
        let v = uniform(rng, of_keys, 1.0);
        let q = uniform(rng, batch * lengths[0] * key_heads * group * head_size, range);
        let scale = rng.random_ratio(1, 4).then(|| 2f32.powf(rng.random_range(-6.0..1.0)));
        let problem = Problem { lengths, heads, head_size, causal, window, ..PLAIN };
        let is_hard = range != 2.0 || offset != 0.0 || scale.is_some();
        Self { layout: Layout::draw(rng), batch, problem, scale, is_hard, q, k, v }
    }

    /// A place for Q or, with the number of keys, for K. All heads of a position, or all positions of a head, are neighbours.
    fn place(&self, rng: &mut StdRng, batch: usize, of_keys: Option<usize>) -> Place {
        let &Problem { lengths, heads: [key_heads, group], head_size, .. } = &self.problem;
        let order = pick(rng, &[[2, 1, 0], [2, 1, 0], [1, 2, 0], [0, 2, 1]]);
        let [length, heads] = of_keys.map_or([lengths[0], key_heads * group], |keys| [keys, key_heads]);
        self.layout.place::<T>(rng, [batch, length, heads, head_size], order)
    }

    /// The operands of a batch entry with this number of keys.
    fn entry(&self, entry: usize, keys: usize) -> Operands<T> {
        let Problem { lengths: [queries, most], heads: [key_heads, group], head_size, .. } = self.problem;
        let part = |all: &[T], [length, heads]: [usize; 2], used: usize| {
            let mut stored = Stored::new([1, used, heads, head_size], None, T::nearest(0.0));
            let first = entry * length * heads * head_size;
            stored.elements.copy_from_slice(&all[first..][..used * heads * head_size]);
            stored
        };
        let problem = Problem { lengths: [queries, keys], ..self.problem };
        let q = part(&self.q, [queries, key_heads * group], queries);
        let [k, v] = [&self.k, &self.v].map(|all| part(all, [most, key_heads], keys));
        Operands::with(&problem, self.scale.unwrap_or(1.0 / (head_size as f32).sqrt()), [q, k, v])
    }

    fn attention(&self) -> Attention<'static> {
        self.scale.into_iter().fold(self.problem.attention(), Attention::scale)
    }

    fn words(&self) -> String {
        let Problem {
            lengths: [queries, keys], heads: [key_heads, group], head_size, causal, window, ..
        } = self.problem;
        let Self { batch, scale, is_hard, .. } = self;
        format!(
            "{batch} x {queries} x {keys}, heads {key_heads} x {group} of {head_size}, {causal:?}, window {window:?}, scale \
             {scale:?}, hard: {is_hard}"
        )
    }
}

/// Appends the outputs of the batch entries to each other.
fn joined(entries: impl Iterator<Item = Expected>) -> Expected {
    let mut all = Expected::new();
    for entry in entries {
        for (name, bounds) in entry {
            match all.iter_mut().find(|(other, _)| *other == name) {
                Some((_, before)) => before.extend(bounds),
                None => all.push((name, bounds)),
            }
        }
    }
    all
}

/// Where the keys of the batch entries are.
#[derive(Debug)]
struct Cache {
    /// The keys of each entry, if they are given.
    lengths: Option<Vec<u32>>,
    /// The page of each part of an entry.
    pages: Option<Vec<u32>>,
    page_size: usize,
}

pub(super) fn forward<T: Number + Element16>(rng: &mut StdRng, size: &Size) -> Drawn {
    let mut common = Common::<T>::new(rng, size.terms, &[0.0, 32.0, 4096.0]);
    let has_log = rng.random_bool(0.5);
    common.problem.has_log = has_log;
    let (batch, [_, keys]) = (common.batch, common.problem.lengths);
    let mut cache = Cache { lengths: None, pages: None, page_size: 16 * rng.random_range(1..5) };
    let [is_paged, has_lengths] = [rng.random_ratio(1, 4) && keys > 0, rng.random_ratio(1, 3)];
    let each = keys.div_ceil(cache.page_size);
    // Without lengths, all positions of the pages are keys.
    if has_lengths || is_paged {
        let lengths =
            (0..batch).map(|_| if rng.random_ratio(1, 4) { keys } else { rng.random_range(0..=keys) });
        cache.lengths = Some(lengths.map(|keys| keys as u32).collect());
    }
    let spare = rng.random_range(0..3);
    if is_paged {
        let mut pages: Vec<u32> = (0..(batch * each + spare) as u32).collect();
        pages.shuffle(rng);
        pages.truncate(batch * each);
        cache.pages = Some(pages);
    }
    let of_keys = if is_paged { [batch * each + spare, cache.page_size] } else { [batch, keys] };
    let (of_q, of_out) = (common.place(rng, batch, None), common.place(rng, batch, None));
    let [of_k, of_v] = [0; 2].map(|_| common.place(rng, of_keys[0], Some(of_keys[1])));
    let of_logs = common.layout.matrix::<f32>(rng, [1, of_q.shape[..3].iter().product()]);
    let kind = if is_paged { "attention in pages" } else { "attention" };
    let words = format!("{}, {cache:?}, q {of_q:?}, k {of_k:?}, v {of_v:?}, out {of_out:?}", common.words());
    let common = std::sync::Arc::new(common);
    let on_run = common.clone();
    let lengths: Vec<usize> = match &cache.lengths {
        Some(lengths) => lengths.iter().map(|&keys| keys as usize).collect(),
        None => vec![keys; batch],
    };
    let of_lengths = lengths.clone();
    let (class, is_hard) = (Class::new(kind, T::NAME, common.layout.name()), common.is_hard);
    let run = move |device: &Device, byte| {
        let Common { problem: Problem { lengths: [queries, _], .. }, q, k, v, .. } = &*on_run;
        // Elements outside of an entry's keys are NaN.
        let stored = |place: &Place, elements: &[T]| {
            let mut all = place.unwritten::<T>(GAP);
            let indices: Vec<usize> = place.indices().collect();
            let row = place.shape[2] * place.shape[3];
            for entry in 0..batch {
                for key in 0..of_lengths[entry] {
                    let position = match &cache.pages {
                        Some(pages) => {
                            let page = pages[entry * each + key / cache.page_size] as usize;
                            page * cache.page_size + key % cache.page_size
                        }
                        None => entry * keys + key,
                    };
                    let to = &indices[position * row..][..row];
                    let from = &elements[(entry * keys + key) * row..][..row];
                    to.iter().zip(from).for_each(|(&to, &from)| all[to] = from);
                }
            }
            all
        };
        let (q, k) = (of_q.input(device, q)?, device.upload(&stored(&of_k, k))?);
        let v = device.upload(&stored(&of_v, v))?;
        let pages = cache.pages.as_deref().map(|pages| device.tensor(pages, [batch, each])).transpose()?;
        let lengths = device.upload(cache.lengths.as_deref().unwrap_or_default())?;
        let mut out = of_out.output::<T>(device, byte)?;
        let mut logs = of_logs.output::<f32>(device, byte)?;
        let mut call = on_run.attention();
        if let Some(pages) = &pages {
            call = call.pages(pages);
        }
        if cache.lengths.is_some() {
            call = call.lengths(&lengths);
        }
        let mut to = To::new(of_out.view_mut::<_, 4>(&mut out)?);
        if has_log {
            let logs = logs.view_mut(of_logs.first..)?;
            to = to.log_sum_exp(TensorViewMut::new(logs, [batch, of_q.shape[2], *queries])?);
        }
        call.run_into(device, to, of_q.view::<_, 4>(&q)?, of_k.view::<_, 4>(&k)?, of_v.view::<_, 4>(&v)?)?;
        let mut outputs: Outputs = vec![("out", of_out.read(&out, byte)?)];
        if has_log {
            outputs.push(("log_sum_exp", of_logs.read(&logs, byte)?));
        }
        Ok(outputs)
    };
    let expected = move || {
        let entries = lengths.iter().enumerate();
        joined(entries.map(|(entry, &keys)| common.entry(entry, keys).expected(true)))
    };
    Drawn::of(class, words, run, expected)
        .counting::<T>(is_hard, &["out"])
        .refused_if(|limits| limits.capability < 80)
}

pub(super) fn backward<T: Number + Element16>(rng: &mut StdRng, size: &Size) -> Drawn {
    // From larger logits, a rounded logarithm of their sum leaves no digits of the weights.
    let mut common = Common::<T>::new(rng, size.terms / 2, &[0.0, 8.0]);
    if common.layout == Layout::Anywhere && rng.random_bool(0.7) {
        common.layout = Layout::Aligned;
    }
    let batch = common.batch;
    let [_, keys] = common.problem.lengths;
    let [of_q, of_dq, of_out, of_d_out] = [0; 4].map(|_| common.place(rng, batch, None));
    let [of_k, of_dk, of_v, of_dv] = [0; 4].map(|_| common.place(rng, batch, Some(keys)));
    let d_out: Vec<T> = uniform(rng, of_q.shape.iter().product(), 1.0);
    let all = [&of_q, &of_dq, &of_out, &of_d_out, &of_k, &of_dk, &of_v, &of_dv];
    let words = format!("{}, {all:?}", common.words());
    let (class, is_hard) = (Class::new("attention backward", T::NAME, common.layout.name()), common.is_hard);
    let attention = common.attention();
    let [q, k, v] = [&common.q, &common.k, &common.v].map(|all| all.clone());
    let for_entries = d_out.clone();
    let entries: Later<Vec<Operation<T>>> = Later::new(move || {
        let entry = |entry: usize| {
            let of = common.entry(entry, keys);
            let [out, mut d_out] = [(); 2].map(|()| Stored::new(of.q.place.shape, None, T::nearest(0.0)));
            let len = d_out.elements.len();
            d_out.elements.copy_from_slice(&for_entries[entry * len..][..len]);
            Operation::with(of, out, d_out)
        };
        (0..batch).map(entry).collect()
    });
    let on_run = entries.clone();
    let run = move |device: &Device, byte| {
        let out: Vec<T> = on_run.iter().flat_map(|it| it.out.elements.iter().copied()).collect();
        let logs: Vec<f32> = on_run.iter().flat_map(|it| it.logs.iter().copied()).collect();
        let (q, k) = (of_q.input(device, &q)?, of_k.input(device, &k)?);
        let (v, out) = (of_v.input(device, &v)?, of_out.input(device, &out)?);
        let (d_out, logs) = (of_d_out.input(device, &d_out)?, device.upload(&logs)?);
        let mut dq = of_dq.output::<T>(device, byte)?;
        let mut dk = of_dk.output::<T>(device, byte)?;
        let mut dv = of_dv.output::<T>(device, byte)?;
        let gradients = GradientOutputs::new(
            of_dq.view_mut::<_, 4>(&mut dq)?,
            of_dk.view_mut::<_, 4>(&mut dk)?,
            of_dv.view_mut::<_, 4>(&mut dv)?,
        );
        let results =
            (of_out.view::<_, 4>(&out)?, TensorView::new(&logs, [batch, of_q.shape[2], of_q.shape[1]])?);
        let (q, k, v) = (of_q.view::<_, 4>(&q)?, of_k.view::<_, 4>(&k)?, of_v.view::<_, 4>(&v)?);
        attention.backward_into(device, gradients, of_d_out.view::<_, 4>(&d_out)?, q, k, v, results)?;
        Ok(vec![
            ("dq", of_dq.read(&dq, byte)?),
            ("dk", of_dk.read(&dk, byte)?),
            ("dv", of_dv.read(&dv, byte)?),
        ])
    };
    Drawn::of(class, words, run, move || joined(entries.iter().map(|entry| entry.expected(true))))
        .counting::<T>(is_hard, &["dq", "dk", "dv"])
        .refused_if(|limits| limits.capability < 80)
}
