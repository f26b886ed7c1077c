//! The gradients of attention.

use anyhow::ensure;
use ferrowarp::attention::{BackwardBy, BackwardInputs, Element16, GradientOutputs, Outputs};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::{DeviceProfile, Error, Tensor};
use ferrowarp_cases::random::bench;
use ferrowarp_cases::reference::Number;

use super::Operation;
use super::attention::{Common, Inputs};
use super::operands::{Operand, Values, read};
use super::softmax::elements;

/// The gradients of Q, K and V.
pub struct Backward<T> {
    device: Device,
    common: Common<T>,
    d_out: Operand<T>,
}

/// The operands and results of one launch.
pub struct Set<T> {
    q: Buffer<T>,
    k: Buffer<T>,
    v: Buffer<T>,
    out: Buffer<T>,
    log_sum_exp: Tensor<f32>,
    d_out: Buffer<T>,
    dq: Buffer<T>,
    dk: Buffer<T>,
    dv: Buffer<T>,
}

impl<T: Number + Element16> Backward<T> {
    /// Prepares the operands of a drawn problem, or with these `inputs` of a listed one.
    ///
    /// # Errors
    /// There is not enough memory for them.
    pub fn new(device: &Device, drawn: &bench::Attention, inputs: Option<Inputs>) -> anyhow::Result<Self> {
        let d_out = Operand::new(device, &drawn.q, Values::Normal, 4)?;
        Ok(Self { device: device.clone(), common: Common::new(device, drawn, inputs)?, d_out })
    }
}

impl<T: Number + Element16> Operation for Backward<T> {
    type Set = Set<T>;
    type By = BackwardBy;

    fn bytes(&self) -> usize {
        let drawn = &self.common.drawn;
        4 * (elements(&drawn.q) + elements(&drawn.k)) * size_of::<T>()
    }

    fn set(&self) -> anyhow::Result<Set<T>> {
        let (device, Common { drawn, q, k, v, .. }) = (&self.device, &self.common);
        let [batch, queries, heads, _] = drawn.q.shape;
        let mut set = Set {
            q: q.buffer(device)?,
            k: k.buffer(device)?,
            v: v.buffer(device)?,
            out: device.alloc_zeroed(drawn.q.len)?,
            log_sum_exp: Tensor::zeros(device, [batch, heads, queries])?,
            d_out: self.d_out.buffer(device)?,
            dq: device.alloc_zeroed(drawn.q.len)?,
            dk: device.alloc_zeroed(drawn.k.len)?,
            dv: device.alloc_zeroed(drawn.k.len)?,
        };
        let Set { q, k, v, out, log_sum_exp, .. } = &mut set;
        let outputs = Outputs::new(drawn.q.view_mut::<_, 4>(out)?).log_sum_exp(log_sum_exp);
        let (q, k, v) = (drawn.q.view::<_, 4>(q)?, drawn.k.view::<_, 4>(k)?, drawn.k.view::<_, 4>(v)?);
        self.common.attention().run_into(device, outputs, q, k, v)?;
        Ok(set)
    }

    fn run(&self, device: &Device, set: &mut Set<T>, by: Option<BackwardBy>) -> Result<(), Error> {
        let (Set { q, k, v, out, log_sum_exp, d_out, dq, dk, dv }, drawn) = (set, &self.common.drawn);
        let gradients = GradientOutputs::new(
            drawn.q.view_mut::<_, 4>(dq)?,
            drawn.k.view_mut::<_, 4>(dk)?,
            drawn.k.view_mut::<_, 4>(dv)?,
        );
        let inputs = BackwardInputs {
            d_out: drawn.q.view::<_, 4>(d_out)?,
            q: drawn.q.view::<_, 4>(q)?,
            k: drawn.k.view::<_, 4>(k)?,
            v: drawn.k.view::<_, 4>(v)?,
            out: drawn.q.view::<_, 4>(out)?,
            log_sum_exp: log_sum_exp.view(),
        };
        self.common.attention().run_backward_by(device, gradients, inputs, by)
    }

    fn choices(&self) -> Vec<(String, BackwardBy)> {
        let size = self.common.drawn.q.shape[3] as u32;
        let profile = DeviceProfile::from(&self.device);
        // The problems are aligned.
        let all = BackwardBy::choices::<T>(&profile, size, size.is_multiple_of(8));
        let name =
            |by: BackwardBy| by.kernels::<T>().map(|kernel| kernel.name).collect::<Vec<_>>().join(" + ");
        all.map(|by| (name(by), by)).collect()
    }

    /// Compares the gradients of some queries, and those of some keys and values, with f64.
    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let Common { drawn, q, k, v, .. } = &self.common;
        let ([batch, queries, heads, size], [_, keys]) = (drawn.q.shape, drawn.lengths());
        let wide = |row: Vec<T>| -> Vec<f64> { row.iter().map(|x| x.value().into()).collect() };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let scale = 1.0 / (size as f64).sqrt();
        let mut squares = [0.0; 2];
        let reported = self.common.reported();
        // Of a listed shape only the gradients of queries count for the error.
        let all_count = reported.is_none();
        let mut compare = |what: String, got: &[f64], want: &[f64], counts: bool| -> anyhow::Result<()> {
            let largest = want.iter().fold(0.0, |largest: f64, x| largest.max(x.abs()));
            let off = got.iter().zip(want).map(|(got, want)| (got - want).abs());
            // Keeps a NaN.
            let off = off.fold(0.0, |most: f64, off| if off <= most { most } else { off });
            let is_right = off <= self.common.allowed(largest);
            ensure!(is_right, "the gradient of {what} is off by {off:e}, of {largest:e}");
            if !counts {
                return Ok(());
            }
            squares[0] += got.iter().zip(want).map(|(got, want)| (got - want).powi(2)).sum::<f64>();
            squares[1] += dot(want, want);
            Ok(())
        };
        let spread =
            || vec![[0; 3], [batch - 1, queries - 1, heads - 1], [batch / 2, queries / 2, heads / 3]];
        for [entry, query, head] in reported.unwrap_or_else(spread) {
            let (row, key_head) = (wide(q.row([entry, query, head])), self.common.key_head(head));
            let of_out = wide(self.d_out.row([entry, query, head]));
            let seen = self.common.seen(entry, query);
            let with = |row: &[f64], of: &Operand<T>| -> Vec<f64> {
                seen.clone().map(|key| dot(row, &wide(of.row([entry, key, key_head])))).collect()
            };
            let (logits, dp) = (with(&row, k), with(&of_out, v));
            let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let p: Vec<f64> = logits.iter().map(|x| ((x - max) * scale).exp()).collect();
            let sum: f64 = p.iter().sum();
            let delta = dot(&p, &dp) / sum;
            let mut want = vec![0.0; size];
            for (key, (p, dp)) in seen.clone().zip(p.iter().zip(&dp)) {
                let ds = scale * p / sum * (dp - delta);
                want.iter_mut()
                    .zip(wide(k.row([entry, key, key_head])))
                    .for_each(|(want, k)| *want += ds * k);
            }
            let got = wide(read(&set.dq, &drawn.q, [entry, query, head])?);
            compare(format!("query {query}"), &got, &want, true)?;
        }
        let group = heads / drawn.k.shape[2];
        for key in [0, keys / 2] {
            let (entry, key_head) = (batch - 1, drawn.k.shape[2] - 1);
            let (of_key, of_value) =
                (wide(k.row([entry, key, key_head])), wide(v.row([entry, key, key_head])));
            let (mut dk, mut dv) = (vec![0.0; size], vec![0.0; size]);
            for head in key_head * group..(key_head + 1) * group {
                for query in (0..queries).filter(|&query| self.common.seen(entry, query).contains(&key)) {
                    let at = [entry, query, head];
                    let (q, d_out) = (wide(q.row(at)), wide(self.d_out.row(at)));
                    let out = wide(read(&set.out, &drawn.q, at)?);
                    let index = (entry * heads + head) * queries + query;
                    let log = set.log_sum_exp.buffer().view(index..=index)?.to_vec()?[0];
                    let p = (dot(&q, &of_key) * scale - f64::from(log)).exp();
                    let ds = p * (dot(&d_out, &of_value) - dot(&d_out, &out));
                    dk.iter_mut().zip(&q).for_each(|(dk, q)| *dk += scale * ds * q);
                    dv.iter_mut().zip(&d_out).for_each(|(dv, d_out)| *dv += p * d_out);
                }
            }
            let got = wide(read(&set.dk, &drawn.k, [entry, key, key_head])?);
            compare(format!("key {key}"), &got, &dk, all_count)?;
            let got = wide(read(&set.dv, &drawn.k, [entry, key, key_head])?);
            compare(format!("value {key}"), &got, &dv, all_count)?;
        }
        Ok((squares[0] / squares[1]).sqrt())
    }
}
