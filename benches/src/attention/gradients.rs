//! The gradients of attention, timed.

use anyhow::{Context as _, ensure};
use ferrowarp::attention::{
    Attention, AttentionError, Backward, BackwardBy, Causal, Forward, Gradients, Real, Tensor, TensorMut,
};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::softmax::DeviceProfile;
use ferrowarp_cases::reference::Number;

use super::{Shape, last, queries_and_keys};
use crate::timed::{Timed, count_of_sets, normal, timed};

/// Keys whose gradients are checked.
const KEYS: usize = 4;

/// The tensors of one launch.
struct Set<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    out: Buffer<T>,
    log_sum_exp: Buffer<f32>,
    d_out: Buffer<T>,
    dq: Buffer<T>,
    dk: Buffer<T>,
    dv: Buffer<T>,
}

/// Prepares and checks the gradients at a shape. Returns them ready to be timed, and their kernels.
pub fn prepare<T: Number + Real>(device: &Device, shape: Shape) -> anyhow::Result<(Box<dyn Timed>, String)> {
    let profile = DeviceProfile::from(device);
    let by = BackwardBy::every::<T>(&profile, shape.head_size as u32, shape.head_size.is_multiple_of(8));
    let by = *by.first().context("no kernel for these gradients")?;
    let names: Vec<_> = by.kernels::<T>().into_iter().map(|kernel| kernel.name).collect();
    let (of_queries, of_keys) = (shape.query_elements(), shape.key_elements());
    let count = count_of_sets(device, 4 * (of_queries + of_keys) * size_of::<T>())?;
    let (q, k) = queries_and_keys::<T>(shape);
    let (d_out, v) = (normal::<T>(of_queries, 4), normal::<T>(of_keys, 3));
    let logs = shape.batch * shape.heads * shape.queries;
    let set = || -> Result<Set<T>, DeviceError> {
        Ok(Set {
            q: device.upload(&q)?,
            k: device.upload(&k)?,
            v: device.upload(&v)?,
            out: device.alloc_zeroed(of_queries)?,
            log_sum_exp: device.alloc_zeroed(logs)?,
            d_out: device.upload(&d_out)?,
            dq: device.alloc_zeroed(of_queries)?,
            dk: device.alloc_zeroed(of_keys)?,
            dv: device.alloc_zeroed(of_keys)?,
        })
    };
    let mut sets = (0..count).map(|_| set()).collect::<Result<Vec<_>, _>>()?;
    for set in &mut sets {
        forward(device, set, shape)?;
        backward(device, set, shape)?;
    }
    let relative_error =
        check(shape, [&q, &k, &v, &d_out], &sets[0]).with_context(|| format!("{} {shape}", T::NAME))?;
    let on = device.clone();
    let launch = move |set: &mut Set<T>| Ok(backward(&on, set, shape)?);
    Ok((timed(device, sets, launch, relative_error)?, names.join(" + ")))
}

fn shapes(shape: Shape) -> [[usize; 4]; 2] {
    let Shape { batch, queries, length, heads, key_heads, head_size, .. } = shape;
    [[batch, queries, heads, head_size], [batch, length, key_heads, head_size]]
}

fn forward<T: Real>(device: &Device, set: &mut Set<T>, shape: Shape) -> Result<(), AttentionError> {
    let [of_queries, of_keys] = shapes(shape);
    let (k, v) = (Tensor::new(&set.k, of_keys)?, Tensor::new(&set.v, of_keys)?);
    let q = Tensor::new(&set.q, of_queries)?;
    let call = Attention::new(TensorMut::new(&mut set.out, of_queries)?, q, k, v);
    let call = if shape.causal { call.causal(Causal::TopLeft) } else { call };
    let call = if let Some(keys) = shape.window { call.sliding_window(keys) } else { call };
    call.log_sum_exp(&mut set.log_sum_exp).run(device)
}

fn backward<T: Real>(device: &Device, set: &mut Set<T>, shape: Shape) -> Result<(), AttentionError> {
    let [of_queries, of_keys] = shapes(shape);
    let gradients = Gradients {
        q: TensorMut::new(&mut set.dq, of_queries)?,
        k: TensorMut::new(&mut set.dk, of_keys)?,
        v: TensorMut::new(&mut set.dv, of_keys)?,
    };
    let forward = Forward {
        q: Tensor::new(&set.q, of_queries)?,
        k: Tensor::new(&set.k, of_keys)?,
        v: Tensor::new(&set.v, of_keys)?,
        out: Tensor::new(&set.out, of_queries)?,
        log_sum_exp: (&set.log_sum_exp).into(),
    };
    let call = Backward::new(gradients, Tensor::new(&set.d_out, of_queries)?, forward);
    let call = if shape.causal { call.causal(Causal::TopLeft) } else { call };
    let call = if let Some(keys) = shape.window { call.sliding_window(keys) } else { call };
    call.run(device)
}

/// Compares the gradients of the last head's last queries and of some of its keys with f64. Returns the error of the former,
/// as [`Timed::relative_error`] defines it.
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
