//! Timed attention.
//!
//! `benches/peers/attention.py` holds the same table of shapes.

mod gradients;
mod shapes;

use anyhow::{Context as _, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::attention::{Element16, KernelChoice, Outputs, Problem, run_rung};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::{DeviceProfile, Tensor};
use ferrowarp_cases::attention::oracle::Row;
use ferrowarp_cases::compare::Bound;
use ferrowarp_cases::reference::{Number, Sum};
use gpu_kernels::attention::args::NO_WINDOW;
use gpu_kernels::ladders::attention::RUNGS;

use crate::contest::{self, Contender, TFLOPS, Type, Unit};
use crate::timed::{self, Prepared, Timed, normal};
use shapes::{CPU_SHAPES, Inputs, RUNG_SHAPE, SHAPES, Shape};

/// `cargo bench attention`.
pub struct Bench;

impl contest::Bench for Bench {
    type Shape = Shape;
    const NAME: &'static str = "attention";
    const UNIT: Unit = TFLOPS;
    const TYPES: &'static [Type] = &[Type::Bf16, Type::F16];

    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Shape>>> {
        let contender = |name: &str, dtype, shape| Contender { name: name.to_owned(), dtype, shape };
        let shapes: &[Shape] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
        let of_type = |&dtype| shapes.iter().map(move |&shape| contender(Self::NAME, dtype, shape));
        let rungs = RUNGS.iter().filter(|_| device.is_cuda());
        let rungs = rungs.map(|rung| contender(rung.name, Type::Bf16, RUNG_SHAPE));
        Ok(Self::TYPES.iter().flat_map(of_type).chain(rungs).collect())
    }

    fn id(Contender { name, dtype, shape }: &Contender<Shape>) -> String {
        let end = if name == Self::NAME { String::new() } else { format!("/{name}") };
        format!("{}/{shape}{end}", dtype.name())
    }

    fn work(contender: &Contender<Shape>) -> f64 {
        contender.shape.operations()
    }

    fn rungs() -> Vec<&'static str> {
        RUNGS.iter().map(|rung| rung.name).collect()
    }

    /// The name is `attention`, a rung, or a kernel to use instead of the chosen ones.
    fn prepare(device: &Device, contender: &Contender<Shape>) -> anyhow::Result<Prepared> {
        let (name, shape) = (contender.name.as_str(), contender.shape);
        if let Some(rung) = RUNGS.iter().find(|rung| rung.name == name) {
            let Shape { causal, backward, .. } = shape;
            ensure!(!causal && !backward, "{name} computes neither a mask nor gradients; pass another shape");
            let on = device.clone();
            let launch = move |set: &mut Set<bf16>| {
                let Set { q, k, v, out } = set;
                Ok(run_rung(&on, rung, out.view_mut(), [q.view(), k.view(), v.view()])?)
            };
            let kernels: Vec<&str> = rung.kernels.iter().map(|kernel| kernel.meta.name).collect();
            return Ok((prepare_launch(device, shape, launch)?, kernels.join(" + ")));
        }
        let by = Some(name).filter(|name| *name != Self::NAME);
        match contender.dtype {
            Type::F16 => prepare_as::<f16>(device, shape, by),
            _ => prepare_as::<bf16>(device, shape, by),
        }
    }
}

/// The tensors of one launch.
struct Set<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    out: Tensor<T>,
}

fn prepare_as<T: Number + Element16>(
    device: &Device,
    shape: Shape,
    by: Option<&str>,
) -> anyhow::Result<Prepared> {
    if shape.backward {
        return gradients::prepare::<T>(device, shape, by);
    }
    let problem = Problem {
        queries: shape.queries as u32,
        heads: shape.heads as u32,
        key_heads: shape.key_heads as u32,
        is_aligned: shape.head_size.is_multiple_of(8),
        is_causal: shape.causal,
        window: shape.window.map_or(NO_WINDOW as u32, |keys| keys as u32),
        ..Problem::new(shape.batch as u32, shape.length as u32, shape.head_size as u32)
    };
    let profile = DeviceProfile::from(device);
    let choice = match by {
        None => KernelChoice::new(&profile, &problem)?,
        Some(name) => KernelChoice::every(&profile, &problem)
            .into_iter()
            .find(|choice| choice.to_string() == name)
            .with_context(|| format!("no kernel {name} for {shape}"))?,
    };
    let (on, by) = (device.clone(), by.map(|_| choice));
    let launch = move |set: &mut Set<T>| {
        let Set { q, k, v, out } = set;
        let tensors = [q.view(), k.view(), v.view()];
        Ok(shape.attention().run_by(&on, Outputs::new(out), tensors, by)?)
    };
    Ok((prepare_launch(device, shape, launch)?, choice.to_string()))
}

/// Q and K.
fn queries_and_keys<T: Number>(shape: Shape) -> (Vec<T>, Vec<T>) {
    let (mut q, mut k) = (normal::<T>(shape.query_elements(), 1), normal::<T>(shape.key_elements(), 2));
    match shape.inputs {
        Inputs::Normal => {}
        Inputs::Large => q.iter_mut().for_each(|x| *x = T::nearest(16.0 * x.value())),
        Inputs::Dominant => {
            let (key, row) = (shape.length / 3, shape.key_heads * shape.head_size);
            q.iter_mut().step_by(shape.head_size).for_each(|x| *x = T::nearest(13.0));
            for keys in k.chunks_exact_mut(shape.length * row) {
                keys[key * row..][..row]
                    .iter_mut()
                    .step_by(shape.head_size)
                    .for_each(|x| *x = T::nearest(13.0));
            }
        }
    }
    (q, k)
}

/// Prepares and checks a launch on sets of tensors.
fn prepare_launch<T: Number>(
    device: &Device,
    shape: Shape,
    launch: impl Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> anyhow::Result<Box<dyn Timed>> {
    let bytes = 2 * (shape.query_elements() + shape.key_elements()) * size_of::<T>();
    let (q, k) = queries_and_keys::<T>(shape);
    let v = normal::<T>(shape.key_elements(), 3);
    let [q_shape, k_shape] = shape.tensors();
    let set = || {
        let (q, k) = (device.tensor(&q, q_shape)?, device.tensor(&k, k_shape)?);
        Ok(Set { q, k, v: device.tensor(&v, k_shape)?, out: Tensor::zeros(device, q_shape)? })
    };
    let check = |set: &Set<T>| {
        check(shape, [&q, &k, &v], &set.out.to_vec()?).with_context(|| format!("{} {shape}", T::NAME))
    };
    timed::prepared(device, bytes, set, launch, check)
}

/// Checked rows, spread over the result.
const CHECKED: usize = 32;
/// Returns how many of the last queries of the last head have their error reported, like the peers'. It varies from query to
/// query with hard inputs.
fn last(shape: Shape) -> usize {
    shape.queries.min(if shape.inputs == Inputs::Normal { 16 } else { 128 })
}

/// Compares rows spread over the result with f64. Returns the last queries' [`Timed::relative_error`].
fn check<T: Number>(shape: Shape, [q, k, v]: [&[T]; 3], out: &[T]) -> anyhow::Result<f64> {
    let Shape { batch, queries, length, heads, key_heads, head_size: size, .. } = shape;
    let value = |x: &T| f64::from(x.value());
    let expected = |row: usize| -> Vec<Bound> {
        let (entry, query, head) = (row / heads / queries, row / heads % queries, row % heads);
        let key_row = |key: usize| ((entry * length + key) * key_heads + head / (heads / key_heads)) * size;
        let product = |key: usize| {
            let pairs = q[row * size..][..size].iter().zip(&k[key_row(key)..][..size]);
            pairs.map(|(q, k)| value(q) * value(k)).fold(Sum::default(), Sum::and)
        };
        let weights = Row::new(shape.seen(query).map(product), size, 1.0 / (size as f64).sqrt());
        let of_column =
            |c: usize| -> Vec<f64> { shape.seen(query).map(|key| value(&v[key_row(key) + c])).collect() };
        (0..size).map(|c| weights.result::<T>(&of_column(c), true)).collect()
    };
    let compare = |rows: &mut dyn Iterator<Item = usize>| {
        let rows: Vec<usize> = rows.collect();
        let got: Vec<T> = rows.iter().flat_map(|row| out[row * size..][..size].iter().copied()).collect();
        let bounds: Vec<Bound> = rows.into_iter().flat_map(expected).collect();
        timed::check("result", &got, &bounds)
    };
    let rows = batch * queries * heads;
    compare(&mut (0..CHECKED).map(|i| i * (rows - 1) / (CHECKED - 1)))?;
    compare(&mut (0..last(shape)).map(|i| rows - 1 - i * heads))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::{assert_prepared, assert_shapes_of_peers};

    #[test]
    fn the_peers_have_the_same_shapes() {
        assert_shapes_of_peers("attention.py", &["--list-shapes"], SHAPES.iter().map(Shape::to_string));
    }

    #[test]
    fn shapes_are_found_by_their_words() {
        assert!(SHAPES.iter().all(|shape| shape.to_string().parse::<Shape>().unwrap() == *shape));
        let error = "8x4096-causal".parse::<Shape>().unwrap_err().to_string();
        assert!(error.contains("8x4096-causal is not a shape"), "{error}");
    }

    #[test]
    fn a_wrong_result_is_not_timed() {
        let words = "1x8x2x1x8-causal";
        let prepared = prepare_launch::<bf16>(&Device::cpu(), words.parse().unwrap(), |_| Ok(()));
        let error = format!("{:#}", prepared.err().unwrap());
        assert!(error.contains("bf16 1x8x2x1x8-causal: result[0] is 0e0, not "), "{error}");
        assert_prepared::<Bench>(["attention".to_owned()].into_iter(), Type::F16, words);
        assert_prepared::<Bench>(["attention".to_owned()].into_iter(), Type::Bf16, "1x8x2x1x8-backward");
    }
}
