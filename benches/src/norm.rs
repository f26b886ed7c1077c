//! Timed norms: shapes, and our launches.
//!
//! `benches/peers/norm.py` holds the same table of shapes.

use anyhow::{Context as _, bail, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::norm::{Backward, Forward, GradientOutputs, Norm, Outputs, Statistics};
use ferrowarp::{Element, Error, TensorView, TensorViewMut};
use ferrowarp_cases::reference::Number;

use crate::matmul::Type;
use crate::serve::Prepared;
use crate::timed::{count_of_sets, normal, timed};

/// Rows and columns for a GPU: the widths of language models, and some that are not a multiple of a vector.
pub const SHAPES: [[usize; 2]; 20] = [
    [32768, 256],
    [32768, 512],
    [32768, 768],
    [32768, 1024],
    [32768, 1536],
    [32768, 2048],
    [32768, 3072],
    [32768, 4096],
    [32768, 5120],
    [16384, 6144],
    [16384, 8192],
    [8192, 12288],
    [8192, 16384],
    [4096, 32768],
    [2048, 65536],
    [1024, 4096],
    [64, 4096],
    [4096, 1023],
    [4096, 4097],
    [8, 8192],
];

/// Rows and columns for the CPU.
pub const CPU_SHAPES: [[usize; 2]; 2] = [[64, 768], [8, 4097]];

/// The types of the matrices.
pub const TYPES: [Type; 2] = [Type::Bf16, Type::F32];

/// The operation: with a weight, and for LayerNorm a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    is_centred: bool,
    is_backward: bool,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 4] = [
        Kind { is_centred: false, is_backward: false },
        Kind { is_centred: true, is_backward: false },
        Kind { is_centred: false, is_backward: true },
        Kind { is_centred: true, is_backward: true },
    ];

    /// Its name in ids.
    pub const fn name(self) -> &'static str {
        match (self.is_centred, self.is_backward) {
            (false, false) => "rms",
            (true, false) => "layer",
            (false, true) => "rms-backward",
            (true, true) => "layer-backward",
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The bytes of the matrices that it must read and write at least.
    pub fn bytes(self, ty: Type, [rows, cols]: [usize; 2]) -> f64 {
        (self.matrices() * rows * cols * ty.bytes()) as f64
    }

    fn matrices(self) -> usize {
        if self.is_backward { 3 } else { 2 }
    }
}

/// The operands of one launch. In the forward pass, `d_inp` is the output.
struct Set<T> {
    inp: Buffer<T>,
    d_out: Buffer<T>,
    d_inp: Buffer<T>,
    weight: Buffer<T>,
    bias: Buffer<T>,
    d_weight: Buffer<T>,
    d_bias: Buffer<T>,
    mean: Buffer<f32>,
    rstd: Buffer<f32>,
}

/// Prepares and checks the norm at a shape. Returns it ready to be timed, and its kernel.
///
/// # Errors
/// There is not enough memory, a launch failed, or a result is wrong.
pub fn prepare(device: &Device, kind: Kind, ty: Type, shape: [usize; 2]) -> anyhow::Result<Prepared> {
    match ty {
        Type::Bf16 => prepare_as::<bf16>(device, kind, shape),
        Type::F16 => prepare_as::<f16>(device, kind, shape),
        Type::F32 => prepare_as::<f32>(device, kind, shape),
        Type::Tf32 => bail!("no norm of {}; pass bf16, f16 or f32", ty.name()),
    }
}

fn prepare_as<T: Number + Element>(
    device: &Device,
    kind: Kind,
    shape: [usize; 2],
) -> anyhow::Result<Prepared> {
    let [rows, cols] = shape;
    let len = rows * cols;
    let count = count_of_sets(device, kind.matrices() * len * size_of::<T>())?;
    let (inp, d_out, weight) = (normal::<T>(len, 1), normal::<T>(len, 2), normal::<T>(cols, 3));
    let of_backward = if kind.is_backward { len } else { 0 };
    let set = || -> Result<Set<T>, DeviceError> {
        Ok(Set {
            inp: device.upload(&inp)?,
            d_out: device.upload(&d_out[..of_backward])?,
            d_inp: device.alloc_zeroed(len)?,
            weight: device.upload(&weight)?,
            bias: device.upload(&weight)?,
            d_weight: device.alloc_zeroed(cols)?,
            d_bias: device.alloc_zeroed(cols)?,
            mean: device.alloc_zeroed(rows)?,
            rstd: device.alloc_zeroed(rows)?,
        })
    };
    let mut sets = (0..count).map(|_| set()).collect::<Result<Vec<_>, _>>()?;
    // The backward pass reads the forward pass's output.
    for set in &mut sets {
        forward(device, kind, set, shape)?;
    }
    let out = sets[0].d_inp.to_vec()?;
    check(kind, [&inp, &weight], &out, cols).with_context(|| format!("{} {rows}x{cols}", T::NAME))?;
    let name = if kind.is_backward {
        Backward::<T>::choices(device.limits(), cols, true).next().map(|by| by.meta())
    } else {
        let is_aligned = cols.is_multiple_of(16 / size_of::<T>());
        let (limits, multiprocessors) = (device.limits(), device.multiprocessors());
        Forward::<T>::choices(limits, multiprocessors, shape, is_aligned).next().map(|by| by.meta())
    };
    let name = name.context("no kernel")?.name;
    let on = device.clone();
    let launch = move |set: &mut Set<T>| {
        let run = if kind.is_backward { backward::<T> } else { forward::<T> };
        Ok(run(&on, kind, set, shape)?)
    };
    for set in &mut sets {
        launch(set)?;
    }
    Ok((timed(device, sets, launch, 0.0)?, name.to_owned()))
}

fn forward<T: Element>(
    device: &Device,
    kind: Kind,
    set: &mut Set<T>,
    shape: [usize; 2],
) -> Result<(), Error> {
    let inp = TensorView::new(&set.inp, shape)?;
    let outputs = Outputs::new(TensorViewMut::new(&mut set.d_inp, shape)?).rstd(&mut set.rstd);
    if kind.is_centred {
        let norm = Norm::layer().weight(&set.weight).bias(&set.bias);
        norm.run_into(device, outputs.mean(&mut set.mean), inp)
    } else {
        Norm::rms().weight(&set.weight).run_into(device, outputs, inp)
    }
}

fn backward<T: Element>(
    device: &Device,
    kind: Kind,
    set: &mut Set<T>,
    shape: [usize; 2],
) -> Result<(), Error> {
    let (inp, d_out) = (TensorView::new(&set.inp, shape)?, TensorView::new(&set.d_out, shape)?);
    let outputs = GradientOutputs::new(TensorViewMut::new(&mut set.d_inp, shape)?).weight(&mut set.d_weight);
    if kind.is_centred {
        let (norm, statistics) = (Norm::layer().weight(&set.weight), Statistics::layer(&set.mean, &set.rstd));
        norm.backward_into(device, outputs.bias(&mut set.d_bias), d_out, inp, statistics)
    } else {
        let norm = Norm::rms().weight(&set.weight);
        norm.backward_into(device, outputs, d_out, inp, Statistics::rms(&set.rstd))
    }
}

/// The maximum difference between a result and its f64 value.
const ALLOWED: f64 = 0.05;

/// Compares the last row of a forward pass with f64. The gradients have tests of their own.
fn check<T: Number>(kind: Kind, [inp, weight]: [&[T]; 2], out: &[T], cols: usize) -> anyhow::Result<()> {
    let value = |x: &T| f64::from(x.value());
    let x: Vec<f64> = inp[inp.len() - cols..].iter().map(value).collect();
    let mean = if kind.is_centred { x.iter().sum::<f64>() / cols as f64 } else { 0.0 };
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / cols as f64;
    let epsilon = if kind.is_centred { 1e-5 } else { 1e-6 };
    for (col, got) in out[out.len() - cols..].iter().map(value).enumerate() {
        let scaled = (x[col] - mean) / (variance + epsilon).sqrt() * value(&weight[col]);
        let want = scaled + if kind.is_centred { value(&weight[col]) } else { 0.0 };
        ensure!((got - want).abs() <= ALLOWED * want.abs().max(1.0), "column {col} is {got:e}, not {want:e}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::assert_shapes_of_peers;

    #[test]
    fn the_peers_have_the_same_shapes() {
        let ours: String = SHAPES.iter().map(|[rows, cols]| format!("{rows}x{cols}\n")).collect();
        assert_shapes_of_peers("norm.py", &ours);
    }

    #[test]
    fn every_kind_is_prepared_and_a_wrong_result_is_found() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(kind.name()), Some(kind));
            assert!(prepare(&Device::cpu(), kind, Type::Bf16, [3, 40]).is_ok(), "{kind:?}");
        }
        let (x, wrong) = ([1.0f32, -1.0], [0.5f32, 0.5]);
        let error = check(Kind::ALL[0], [&x, &[1.0, 1.0]], &wrong, 2).unwrap_err().to_string();
        assert!(error.starts_with("column 0 is 5e-1, not "), "{error}");
    }
}
