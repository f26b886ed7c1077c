//! The gradients of attention, timed.

use anyhow::{Context as _, ensure};
use ferrowarp::attention::{BackwardBy, BackwardInputs, Element16, GradientOutputs, Outputs};
use ferrowarp::device::Device;
use ferrowarp::{DeviceProfile, Error, Tensor};
use ferrowarp_cases::reference::Number;

use super::{Shape, last, queries_and_keys};
use crate::timed::{self, Prepared, normal};

/// Keys whose gradients are checked.
const KEYS: usize = 4;

/// The tensors of one launch.
struct Set<T> {
    q: Tensor<T>,
    k: Tensor<T>,
    v: Tensor<T>,
    out: Tensor<T>,
    log_sum_exp: Tensor<f32>,
    d_out: Tensor<T>,
    dq: Tensor<T>,
    dk: Tensor<T>,
    dv: Tensor<T>,
}

/// Prepares and checks the gradients at a shape: by the kernels among which is the named one, or by the fastest ones.
pub fn prepare<T: Number + Element16>(
    device: &Device,
    shape: Shape,
    name: Option<&str>,
) -> anyhow::Result<Prepared> {
    let profile = DeviceProfile::from(device);
    let is_aligned = shape.head_size.is_multiple_of(8);
    let mut choices = BackwardBy::choices::<T>(&profile, shape.head_size as u32, is_aligned);
    let is_named =
        |by: &BackwardBy| name.is_none_or(|name| by.kernels::<T>().any(|kernel| kernel.name == name));
    let by = choices.find(is_named).with_context(|| format!("no kernel {name:?} for {shape}"))?;
    let names: Vec<_> = by.kernels::<T>().map(|kernel| kernel.name).collect();
    let (of_queries, of_keys) = (shape.query_elements(), shape.key_elements());
    let (q, k) = queries_and_keys::<T>(shape);
    let (d_out, v) = (normal::<T>(of_queries, 4), normal::<T>(of_keys, 3));
    let [q_shape, k_shape] = shape.tensors();
    let set = || {
        let mut set = Set {
            q: device.tensor(&q, q_shape)?,
            k: device.tensor(&k, k_shape)?,
            v: device.tensor(&v, k_shape)?,
            out: Tensor::zeros(device, q_shape)?,
            log_sum_exp: Tensor::zeros(device, [shape.batch, shape.heads, shape.queries])?,
            d_out: device.tensor(&d_out, q_shape)?,
            dq: Tensor::zeros(device, q_shape)?,
            dk: Tensor::zeros(device, k_shape)?,
            dv: Tensor::zeros(device, k_shape)?,
        };
        forward(device, &mut set, shape)?;
        Ok(set)
    };
    let check = |set: &Set<T>| {
        check(shape, [&q, &k, &v, &d_out], set).with_context(|| format!("{} {shape}", T::NAME))
    };
    let on = device.clone();
    let launch = move |set: &mut Set<T>| Ok(backward(&on, set, shape, by)?);
    let bytes = 4 * (of_queries + of_keys) * size_of::<T>();
    Ok((timed::prepared(device, bytes, set, launch, check)?, names.join(" + ")))
}

fn forward<T: Element16>(device: &Device, set: &mut Set<T>, shape: Shape) -> Result<(), Error> {
    let Set { q, k, v, out, log_sum_exp, .. } = set;
    shape.attention().run_into(device, Outputs::new(out).log_sum_exp(log_sum_exp), &*q, &*k, &*v)
}

fn backward<T: Element16>(
    device: &Device,
    set: &mut Set<T>,
    shape: Shape,
    by: BackwardBy,
) -> Result<(), Error> {
    let Set { q, k, v, out, log_sum_exp, d_out, dq, dk, dv } = set;
    let inputs = BackwardInputs {
        d_out: d_out.view(),
        q: q.view(),
        k: k.view(),
        v: v.view(),
        out: out.view(),
        log_sum_exp: log_sum_exp.view(),
    };
    shape.attention().run_backward_by(device, GradientOutputs::new(dq, dk, dv), inputs, Some(by))
}

/// Compares the gradients of the last head's last queries and of some of its keys with f64. Returns the error of the former,
/// as [`Timed::relative_error`](timed::Timed::relative_error) defines it.
fn check<T: Number>(shape: Shape, given: [&[T]; 4], set: &Set<T>) -> anyhow::Result<f64> {
    let Shape { batch, queries, length, heads, key_heads, head_size: size, causal, .. } = shape;
    let wide = |all: &[T]| all.iter().map(|x| f64::from(x.value())).collect::<Vec<f64>>();
    let [q, k, v, d_out] = given.map(wide);
    let (out, logs) = (wide(&set.out.to_vec()?), set.log_sum_exp.to_vec()?);
    let [dq, dk, dv] = [wide(&set.dq.to_vec()?), wide(&set.dk.to_vec()?), wide(&set.dv.to_vec()?)];
    let scale = 1.0 / (size as f64).sqrt();
    let (entry, key_head, group) = (batch - 1, key_heads - 1, heads / key_heads);
    let at_query = |query: usize, head: usize| ((entry * queries + query) * heads + head) * size;
    let at_key = |key: usize| ((entry * length + key) * key_heads + key_head) * size;
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    // P and dS of a query and a key, from the logarithms of the forward pass.
    let weights = |query: usize, head: usize, key: usize| {
        let (i, j) = (at_query(query, head), at_key(key));
        let log = f64::from(logs[(entry * heads + head) * queries + query]);
        let p = (dot(&q[i..][..size], &k[j..][..size]) * scale - log).exp();
        let delta = dot(&d_out[i..][..size], &out[i..][..size]);
        (p, p * (dot(&d_out[i..][..size], &v[j..][..size]) - delta))
    };
    let compare = |what: &str, got: &[f64], want: &[f64]| {
        let largest = want.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
        let off = got.iter().zip(want).map(|(got, want)| (got - want).abs());
        // Keeps a NaN.
        let off = off.fold(0.0, |most: f64, off| if off <= most { most } else { off });
        ensure!(
            off <= shape.allowed() * largest.max(f64::MIN_POSITIVE),
            "the gradient of {what} is off by {off:e}, of {largest:e}"
        );
        Ok(())
    };
    let mut squares = [0.0; 2];
    for query in queries - last(shape)..queries {
        // Computes everything in f64, like the peers' errors.
        let i = at_query(query, heads - 1);
        let with_keys = |row: &[f64], of: &[f64]| -> Vec<f64> {
            shape.seen(query).map(|key| dot(row, &of[at_key(key)..][..size])).collect()
        };
        let (logits, dp) = (with_keys(&q[i..][..size], &k), with_keys(&d_out[i..][..size], &v));
        let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let p: Vec<f64> = logits.iter().map(|x| ((x - max) * scale).exp()).collect();
        let sum: f64 = p.iter().sum();
        let delta = dot(&p, &dp) / sum;
        let mut want = vec![0.0; size];
        for (key, (p, dp)) in shape.seen(query).zip(p.iter().zip(&dp)) {
            for c in 0..size {
                want[c] += scale * p / sum * (dp - delta) * k[at_key(key) + c];
            }
        }
        let got = &dq[at_query(query, heads - 1)..][..size];
        compare(&format!("query {query}"), got, &want)?;
        squares[0] += got.iter().zip(&want).map(|(got, want)| (got - want).powi(2)).sum::<f64>();
        squares[1] += dot(&want, &want);
    }
    for key in (0..KEYS).map(|i| i * (length - 1) / (KEYS - 1)) {
        let (mut of_k, mut of_v) = (vec![0.0; size], vec![0.0; size]);
        for head in key_head * group..heads {
            for query in (0..queries).filter(|&query| shape.seen(query).contains(&key)) {
                let (p, ds) = weights(query, head, key);
                for c in 0..size {
                    of_k[c] += scale * ds * q[at_query(query, head) + c];
                    of_v[c] += p * d_out[at_query(query, head) + c];
                }
            }
        }
        // With a causal mask the last key has one query. Its dS is the difference of two equal numbers.
        if key + last(shape) < length || !causal {
            compare(&format!("key {key}"), &dk[at_key(key)..][..size], &of_k)?;
        }
        compare(&format!("value {key}"), &dv[at_key(key)..][..size], &of_v)?;
    }
    Ok((squares[0] / squares[1]).sqrt())
}
