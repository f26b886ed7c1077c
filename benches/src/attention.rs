//! Attention that is timed: shapes, and our launches.
//!
//! `benches/peers/attention.py` holds the same table of shapes.

mod gradients;

use std::fmt;

use anyhow::{Context as _, bail, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::attention::{Attention, Causal, KernelChoice, Problem, Real, Tensor, TensorMut, Workspace};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::softmax::DeviceProfile;
use ferrowarp_cases::reference::Number;
use serde::Serialize;

use crate::matmul::Type;
use crate::timed::{Timed, count_of_sets, normal, timed};

/// An attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Entries of the batch.
    pub batch: usize,
    /// Queries of each head: one for each key, or the last ones.
    pub queries: usize,
    /// Keys of each head.
    pub length: usize,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of K and V.
    pub key_heads: usize,
    /// Elements of a row.
    pub head_size: usize,
    /// Whether a query sees only the keys up to its own position.
    pub causal: bool,
    /// Whether the gradients are computed, from the result of the forward attention.
    pub backward: bool,
    /// What the tensors hold.
    pub inputs: Inputs,
}

/// What the tensors hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Inputs {
    /// Normal random numbers.
    Normal,
    /// The same, Q times 16, so that the logits have a standard deviation of 16.
    Large,
    /// The same, but the first elements of all queries and of one key of each head are 30, so that this key has nearly all the weight of the
    /// queries that see it.
    Dominant,
}

impl Inputs {
    const HARD: [(Inputs, &'static str); 2] = [(Inputs::Large, "-large"), (Inputs::Dominant, "-dominant")];

    fn suffix(self) -> &'static str {
        Self::HARD.iter().find(|(inputs, _)| *inputs == self).map_or("", |(_, suffix)| suffix)
    }
}

impl Shape {
    /// Operations of the two multiplications, or of five for the gradients. Half of them count with a causal mask.
    pub fn operations(&self) -> f64 {
        let one = 2.0 * self.query_elements() as f64 * self.length as f64;
        let all = one * if self.backward { 5.0 } else { 2.0 };
        if self.causal { all / 2.0 } else { all }
    }

    fn query_elements(&self) -> usize {
        self.batch * self.queries * self.heads * self.head_size
    }

    /// The largest error of a row, relative to its largest result. Gradients of hard inputs are differences of nearly equal numbers, so
    /// their errors are reported only.
    fn allowed(&self) -> f64 {
        if self.backward && self.inputs != Inputs::Normal { f64::INFINITY } else { ALLOWED }
    }

    fn key_elements(&self) -> usize {
        self.batch * self.length * self.key_heads * self.head_size
    }

    /// The shape that its words name, such as `8x4096x16x16x128`, `8x4096x16x4x128-causal`, with one query
    /// `8x4096x16x4x128-1q`, for gradients `8x4096x16x4x128-causal-backward`, or with other inputs `8x4096x16x16x128-large`.
    ///
    /// # Errors
    /// The words name none.
    pub fn from_words(words: &str) -> anyhow::Result<Self> {
        let hard =
            Inputs::HARD.iter().find_map(|(inputs, suffix)| Some((words.strip_suffix(suffix)?, *inputs)));
        let (front, inputs) = hard.unwrap_or((words, Inputs::Normal));
        let (front, backward) = front.strip_suffix("-backward").map_or((front, false), |front| (front, true));
        let (extents, end) = front.split_once('-').unwrap_or((front, ""));
        let causal = end == "causal";
        let queries = end.strip_suffix('q').and_then(|queries| queries.parse().ok());
        let extents: Vec<usize> =
            extents.split('x').map(str::parse).collect::<Result<_, _>>().unwrap_or_default();
        let &[batch, length, heads, key_heads, head_size] = &extents[..] else {
            bail!(
                "{words} is not a shape; pass BATCHxLENGTHxHEADSxKEY_HEADSxHEAD_SIZE, and -causal, -QUERIESq, -backward, -large or -dominant after it"
            )
        };
        ensure!(
            end.is_empty() || causal || queries.is_some(),
            "{words} is not a shape, because of -{end}; end it with -causal, -QUERIESq, -backward, -large or -dominant, or nothing"
        );
        let queries = queries.unwrap_or(length);
        Ok(Self { batch, queries, length, heads, key_heads, head_size, causal, backward, inputs })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, queries, length, heads, key_heads, head_size, causal, backward, inputs } = self;
        write!(f, "{batch}x{length}x{heads}x{key_heads}x{head_size}")?;
        match (causal, queries == length) {
            (true, _) => f.write_str("-causal")?,
            (false, false) => write!(f, "-{queries}q")?,
            (false, true) => {}
        }
        f.write_str(if *backward { "-backward" } else { "" })?;
        f.write_str(inputs.suffix())
    }
}

const fn shape(batch: usize, length: usize, heads: [usize; 2], head_size: usize, causal: bool) -> Shape {
    let [heads, key_heads] = heads;
    let inputs = Inputs::Normal;
    Shape { batch, queries: length, length, heads, key_heads, head_size, causal, backward: false, inputs }
}

const fn backward(batch: usize, length: usize, heads: [usize; 2], head_size: usize, causal: bool) -> Shape {
    Shape { backward: true, ..shape(batch, length, heads, head_size, causal) }
}

const fn decode(batch: usize, length: usize, heads: [usize; 2], head_size: usize, queries: usize) -> Shape {
    Shape { queries, ..shape(batch, length, heads, head_size, false) }
}

/// The shapes for a GPU: 16384 tokens in sequences of 512 to 16384, as the papers on attention have them, odd lengths, and few
/// queries with many keys.
pub const SHAPES: [Shape; 57] = [
    shape(32, 512, [16, 16], 128, false),
    shape(16, 1024, [16, 16], 128, false),
    shape(8, 2048, [16, 16], 128, false),
    shape(4, 4096, [16, 16], 128, false),
    shape(2, 8192, [16, 16], 128, false),
    shape(1, 16384, [16, 16], 128, false),
    shape(32, 512, [16, 16], 128, true),
    shape(16, 1024, [16, 16], 128, true),
    shape(8, 2048, [16, 16], 128, true),
    shape(4, 4096, [16, 16], 128, true),
    shape(2, 8192, [16, 16], 128, true),
    shape(1, 16384, [16, 16], 128, true),
    shape(16, 1024, [32, 32], 64, false),
    shape(4, 4096, [32, 32], 64, false),
    shape(1, 16384, [32, 32], 64, false),
    shape(16, 1024, [32, 32], 64, true),
    shape(4, 4096, [32, 32], 64, true),
    shape(1, 16384, [32, 32], 64, true),
    // The heads of models with 8 and 70 billion parameters.
    shape(4, 4096, [32, 8], 128, true),
    shape(1, 8192, [64, 8], 128, false),
    shape(1, 8192, [64, 8], 128, true),
    shape(1, 32768, [64, 8], 128, true),
    // No tile divides them.
    shape(4, 1000, [16, 16], 128, false),
    shape(3, 4097, [16, 16], 128, true),
    shape(1, 77, [12, 12], 64, true),
    shape(8, 197, [12, 12], 64, false),
    // Decoding.
    decode(1, 8192, [32, 8], 128, 1),
    decode(1, 131_072, [32, 8], 128, 1),
    decode(16, 8192, [32, 8], 128, 1),
    decode(64, 4096, [32, 8], 128, 1),
    decode(8, 8192, [32, 32], 128, 1),
    decode(4, 32_768, [16, 1], 128, 1),
    decode(16, 8192, [32, 8], 64, 1),
    decode(16, 8192, [32, 8], 96, 1),
    decode(16, 8192, [32, 8], 192, 1),
    decode(16, 8192, [16, 8], 256, 1),
    decode(16, 8192, [32, 8], 128, 4),
    decode(16, 8192, [16, 16], 128, 16),
    // Gradients.
    backward(32, 512, [16, 16], 128, false),
    backward(8, 2048, [16, 16], 128, false),
    backward(4, 4096, [16, 16], 128, false),
    backward(1, 16384, [16, 16], 128, false),
    backward(32, 512, [16, 16], 128, true),
    backward(8, 2048, [16, 16], 128, true),
    backward(4, 4096, [16, 16], 128, true),
    backward(1, 16384, [16, 16], 128, true),
    backward(16, 1024, [32, 32], 64, false),
    backward(4, 4096, [32, 32], 64, false),
    backward(16, 1024, [32, 32], 64, true),
    backward(4, 4096, [32, 32], 64, true),
    // No N x N matrix has room: 16 heads of 131072 x 131072 numbers are 512 GiB.
    shape(1, 131_072, [16, 16], 128, true),
    backward(1, 131_072, [16, 16], 128, true),
    // Hard inputs, for the errors.
    Shape { inputs: Inputs::Large, ..shape(4, 4096, [16, 16], 128, false) },
    Shape { inputs: Inputs::Large, ..backward(4, 4096, [16, 16], 128, false) },
    Shape { inputs: Inputs::Dominant, ..shape(4, 4096, [16, 16], 128, true) },
    Shape { inputs: Inputs::Dominant, ..backward(4, 4096, [16, 16], 128, true) },
    Shape { inputs: Inputs::Large, ..shape(16, 1024, [32, 32], 64, true) },
];

/// The shapes for the CPU.
pub const CPU_SHAPES: [Shape; 6] = [
    shape(1, 128, [4, 4], 64, false),
    shape(1, 512, [4, 2], 64, true),
    shape(1, 512, [2, 2], 128, false),
    backward(1, 128, [4, 2], 64, true),
    Shape { inputs: Inputs::Large, ..shape(1, 128, [2, 2], 64, false) },
    Shape { inputs: Inputs::Dominant, ..backward(1, 128, [2, 2], 64, true) },
];

/// The types of the tensors.
pub const TYPES: [Type; 2] = [Type::Bf16, Type::F16];

/// One contender at one shape: a time, or why there is none.
#[derive(Debug, Serialize)]
pub struct AttentionEntry {
    /// `attention`, or a peer.
    pub name: String,
    /// Type of the tensors.
    pub dtype: Type,
    /// The shape.
    #[serde(flatten)]
    pub shape: Shape,
    /// The kernel that was chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<String>,
    /// Device time of one launch, the median of the samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    /// Batches that were timed.
    pub samples: usize,
    /// Sets of tensors that the launches took in turns.
    pub sets: usize,
    /// As [`Timed::relative_error`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relative_error: Option<f64>,
    /// What went wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The tensors of one launch.
struct Set<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    out: Buffer<T>,
    workspace: Workspace,
}

/// The attention at a shape, checked, and ready to be timed, and its kernel.
///
/// # Errors
/// There is no memory, a launch failed, or a result is wrong.
pub fn prepare(device: &Device, ty: Type, shape: Shape) -> anyhow::Result<(Box<dyn Timed>, String)> {
    match ty {
        Type::Bf16 => prepare_as::<bf16>(device, shape),
        Type::F16 => prepare_as::<f16>(device, shape),
        Type::Tf32 | Type::F32 => bail!("no attention of {}; pass bf16 or f16", ty.name()),
    }
}

fn prepare_as<T: Number + Real>(device: &Device, shape: Shape) -> anyhow::Result<(Box<dyn Timed>, String)> {
    if shape.backward {
        return gradients::prepare::<T>(device, shape);
    }
    let problem = Problem {
        queries: shape.queries as u32,
        heads: shape.heads as u32,
        key_heads: shape.key_heads as u32,
        is_aligned: shape.head_size.is_multiple_of(8),
        ..Problem::new(shape.batch as u32, shape.length as u32, shape.head_size as u32)
    };
    let kernel = KernelChoice::<T>::new(&DeviceProfile::from(device), &problem)?.to_string();
    let on = device.clone();
    let timed = prepare_launch(device, shape, move |set: &mut Set<T>| Ok(run(&on, set, shape)?))?;
    Ok((timed, kernel))
}

fn run<T: Real>(
    device: &Device,
    set: &mut Set<T>,
    shape: Shape,
) -> Result<(), ferrowarp::attention::AttentionError> {
    let Shape { batch, queries, length, heads, key_heads, head_size, causal, .. } = shape;
    let (of_queries, of_keys) = ([batch, queries, heads, head_size], [batch, length, key_heads, head_size]);
    let (k, v) = (Tensor::new(&set.k, of_keys)?, Tensor::new(&set.v, of_keys)?);
    let call =
        Attention::new(TensorMut::new(&mut set.out, of_queries)?, Tensor::new(&set.q, of_queries)?, k, v);
    let call = if causal { call.causal(Causal::TopLeft) } else { call };
    call.run_with(device, &mut set.workspace)
}

/// Q and K.
fn queries_and_keys<T: Number>(shape: Shape) -> (Vec<T>, Vec<T>) {
    let (mut q, mut k) = (normal::<T>(shape.query_elements(), 1), normal::<T>(shape.key_elements(), 2));
    match shape.inputs {
        Inputs::Normal => {}
        Inputs::Large => q.iter_mut().for_each(|x| *x = T::nearest(16.0 * x.value())),
        Inputs::Dominant => {
            let (key, row) = (shape.length / 3, shape.key_heads * shape.head_size);
            q.iter_mut().step_by(shape.head_size).for_each(|x| *x = T::nearest(30.0));
            for keys in k.chunks_exact_mut(shape.length * row) {
                keys[key * row..][..row]
                    .iter_mut()
                    .step_by(shape.head_size)
                    .for_each(|x| *x = T::nearest(30.0));
            }
        }
    }
    (q, k)
}

/// A launch on sets of tensors, checked, and ready to be timed.
fn prepare_launch<T: Number>(
    device: &Device,
    shape: Shape,
    launch: impl Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> anyhow::Result<Box<dyn Timed>> {
    let (of_queries, of_keys) = (shape.query_elements(), shape.key_elements());
    let count = count_of_sets(device, 2 * (of_queries + of_keys) * size_of::<T>())?;
    let (q, k) = queries_and_keys::<T>(shape);
    let v = normal::<T>(of_keys, 3);
    let set = || -> Result<Set<T>, DeviceError> {
        let out = device.alloc_zeroed(of_queries)?;
        let workspace = Workspace::default();
        Ok(Set { q: device.upload(&q)?, k: device.upload(&k)?, v: device.upload(&v)?, out, workspace })
    };
    let mut sets = (0..count).map(|_| set()).collect::<Result<Vec<_>, _>>()?;
    // Each set gets its workspace before a launch is recorded.
    for set in &mut sets {
        launch(set)?;
    }
    let got = sets[0].out.to_vec()?;
    let relative_error = check(shape, [&q, &k, &v], &got).with_context(|| format!("{} {shape}", T::NAME))?;
    Ok(timed(device, sets, launch, relative_error)?)
}

/// Rows from all over the result that are checked.
const CHECKED: usize = 32;
/// The last queries of the last head, whose error is reported, as that of the peers is.
const LAST: usize = 16;
/// As [`Shape::allowed`].
const ALLOWED: f64 = 0.02;

/// Compares rows from all over the result with f64; the error of the last queries, as [`Timed::relative_error`] says.
fn check<T: Number>(shape: Shape, [q, k, v]: [&[T]; 3], out: &[T]) -> anyhow::Result<f64> {
    let Shape { batch, queries, length, heads, key_heads, head_size: size, causal, .. } = shape;
    let value = |x: T| f64::from(x.value());
    let scale = 1.0 / (size as f64).sqrt();
    let rows = batch * queries * heads;
    let mut squares = [0.0; 2];
    let from_all = (0..CHECKED).map(|i| (i * (rows - 1) / (CHECKED - 1), false));
    let last = (0..LAST.min(queries)).map(|i| (rows - 1 - i * heads, true));
    for (row, is_last) in from_all.chain(last) {
        let (entry, query, head) = (row / heads / queries, row / heads % queries, row % heads);
        let key_row = |key: usize| ((entry * length + key) * key_heads + head / (heads / key_heads)) * size;
        let seen = if causal { query + 1 } else { length };
        let logits: Vec<f64> = (0..seen)
            .map(|key| {
                (0..size).map(|c| value(q[row * size + c]) * value(k[key_row(key) + c])).sum::<f64>() * scale
            })
            .collect();
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|x| (x - max).exp()).sum();
        let mut want = vec![0.0; size];
        for (key, x) in logits.iter().enumerate() {
            let weight = (x - max).exp() / sum;
            for c in 0..size {
                want[c] += weight * value(v[key_row(key) + c]);
            }
        }
        let largest = want.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        for (c, &want) in want.iter().enumerate() {
            let got = value(out[row * size + c]);
            ensure!(
                (got - want).abs() <= shape.allowed() * largest,
                "result {c} of query {query} of head {head} is {got:e}, not {want:e}"
            );
            if is_last {
                squares[0] += (got - want).powi(2);
                squares[1] += want.powi(2);
            }
        }
    }
    Ok((squares[0] / squares[1]).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shapes that the peers' script prints, which must be ours.
    #[test]
    fn the_peers_have_the_same_shapes() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/attention.py");
        let Ok(output) = std::process::Command::new("python3").args([script, "--list-shapes"]).output()
        else {
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let ours: String = SHAPES.iter().map(|shape| format!("{shape}\n")).collect();
        assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
    }

    #[test]
    fn shapes_are_found_by_their_words() {
        assert!(SHAPES.iter().all(|shape| Shape::from_words(&shape.to_string()).unwrap() == *shape));
        let error = Shape::from_words("8x4096-causal").unwrap_err().to_string();
        assert!(error.contains("8x4096-causal is not a shape"), "{error}");
    }

    #[test]
    fn a_wrong_result_is_not_timed() {
        let shape = shape(1, 8, [2, 1], 8, true);
        let error = prepare_launch::<bf16>(&Device::cpu(), shape, |_| Ok(())).err().unwrap();
        assert!(format!("{error:#}").contains("bf16 1x8x2x1x8-causal: result 0 of query 0"), "{error:#}");
        assert!(prepare(&Device::cpu(), Type::F16, shape).is_ok());
    }
}
