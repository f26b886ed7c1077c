//! Timed attention: shapes, and our launches.
//!
//! `benches/peers/attention.py` holds the same table of shapes.

mod gradients;
mod shapes;

use anyhow::{Context as _, bail, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::attention::{Element16, KernelChoice, Outputs, Problem, run_rung};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::{DeviceProfile, Error, Tensor};
use ferrowarp_cases::reference::Number;
use gpu_kernels::attention::args::NO_WINDOW;
use gpu_kernels::ladders::attention::Rung;

pub use shapes::{CPU_SHAPES, Inputs, RUNG_SHAPE, SHAPES, Shape};

use crate::matmul::Type;
use crate::timed::{Timed, count_of_sets, normal, timed};

/// The types of the tensors.
pub const TYPES: [Type; 2] = [Type::Bf16, Type::F16];

/// The tensors of one launch.
struct Set<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    out: Tensor<T>,
}

/// Prepares and checks attention at a shape: ready to be timed, and its kernel. `by` names a forward kernel to use instead of
/// the chosen one.
///
/// # Errors
/// There is not enough memory, a launch failed, a result is wrong, or no such kernel can do it.
pub fn prepare(
    device: &Device,
    ty: Type,
    shape: Shape,
    by: Option<&str>,
) -> anyhow::Result<(Box<dyn Timed>, String)> {
    match ty {
        Type::Bf16 => prepare_as::<bf16>(device, shape, by),
        Type::F16 => prepare_as::<f16>(device, shape, by),
        Type::Tf32 | Type::F32 => bail!("no attention of {}; pass bf16 or f16", ty.name()),
    }
}

fn prepare_as<T: Number + Element16>(
    device: &Device,
    shape: Shape,
    by: Option<&str>,
) -> anyhow::Result<(Box<dyn Timed>, String)> {
    if shape.backward {
        return gradients::prepare::<T>(device, shape);
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
    let timed = prepare_launch(device, shape, launch)?;
    Ok((timed, choice.to_string()))
}

/// Prepares and checks a rung of the ladder at a shape: ready to be timed, and its kernels.
///
/// # Errors
/// Same as for [`prepare`], or the rung does not support the shape.
pub fn prepare_rung(
    device: &Device,
    rung: &'static Rung,
    shape: Shape,
) -> anyhow::Result<(Box<dyn Timed>, String)> {
    let Shape { causal, backward, .. } = shape;
    ensure!(!causal && !backward, "{} computes neither a mask nor gradients; pass another shape", rung.name);
    let on = device.clone();
    let launch = move |set: &mut Set<bf16>| {
        let Set { q, k, v, out } = set;
        Ok(run_rung(&on, rung, out.view_mut(), [q.view(), k.view(), v.view()])?)
    };
    let kernels: Vec<&str> = rung.kernels.iter().map(|kernel| kernel.meta.name).collect();
    Ok((prepare_launch(device, shape, launch)?, kernels.join(" + ")))
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

/// Prepares and checks a launch on sets of tensors. Returns it ready to be timed.
fn prepare_launch<T: Number>(
    device: &Device,
    shape: Shape,
    launch: impl Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> anyhow::Result<Box<dyn Timed>> {
    let (of_queries, of_keys) = (shape.query_elements(), shape.key_elements());
    let count = count_of_sets(device, 2 * (of_queries + of_keys) * size_of::<T>())?;
    let (q, k) = queries_and_keys::<T>(shape);
    let v = normal::<T>(of_keys, 3);
    let [q_shape, k_shape] = shape.tensors();
    let set = || -> Result<Set<T>, Error> {
        let (q, k) = (device.tensor(&q, q_shape)?, device.tensor(&k, k_shape)?);
        Ok(Set { q, k, v: device.tensor(&v, k_shape)?, out: Tensor::zeros(device, q_shape)? })
    };
    let mut sets = (0..count).map(|_| set()).collect::<Result<Vec<_>, _>>()?;
    for set in &mut sets {
        launch(set)?;
    }
    let got = sets[0].out.to_vec()?;
    let relative_error = check(shape, [&q, &k, &v], &got).with_context(|| format!("{} {shape}", T::NAME))?;
    Ok(timed(device, sets, launch, relative_error)?)
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
    let value = |x: T| f64::from(x.value());
    let scale = 1.0 / (size as f64).sqrt();
    let rows = batch * queries * heads;
    let mut squares = [0.0; 2];
    let from_all = (0..CHECKED).map(|i| (i * (rows - 1) / (CHECKED - 1), false));
    let last = (0..last(shape)).map(|i| (rows - 1 - i * heads, true));
    for (row, is_last) in from_all.chain(last) {
        let (entry, query, head) = (row / heads / queries, row / heads % queries, row % heads);
        let key_row = |key: usize| ((entry * length + key) * key_heads + head / (heads / key_heads)) * size;
        let logits: Vec<f64> = shape
            .seen(query)
            .map(|key| {
                (0..size).map(|c| value(q[row * size + c]) * value(k[key_row(key) + c])).sum::<f64>() * scale
            })
            .collect();
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|x| (x - max).exp()).sum();
        let mut want = vec![0.0; size];
        for (key, x) in shape.seen(query).zip(&logits) {
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
    use crate::contest::tests::assert_shapes_of_peers;

    #[test]
    fn the_peers_have_the_same_shapes() {
        let ours: String = SHAPES.iter().map(|shape| format!("{shape}\n")).collect();
        assert_shapes_of_peers("attention.py", &ours);
    }

    #[test]
    fn shapes_are_found_by_their_words() {
        assert!(SHAPES.iter().all(|shape| Shape::from_words(&shape.to_string()).unwrap() == *shape));
        let error = Shape::from_words("8x4096-causal").unwrap_err().to_string();
        assert!(error.contains("8x4096-causal is not a shape"), "{error}");
    }

    #[test]
    fn a_wrong_result_is_not_timed() {
        let shape = Shape::from_words("1x8x2x1x8-causal").unwrap();
        let error = prepare_launch::<bf16>(&Device::cpu(), shape, |_| Ok(())).err().unwrap();
        assert!(format!("{error:#}").contains("bf16 1x8x2x1x8-causal: result 0 of query 0"), "{error:#}");
        assert!(prepare(&Device::cpu(), Type::F16, shape, None).is_ok());
    }
}
