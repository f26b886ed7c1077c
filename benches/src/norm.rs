//! Timed norms: RMSNorm and LayerNorm with a weight, LayerNorm also with a bias, and their gradients.
//!
//! `benches/peers/norm.py` holds the same table of shapes.

use anyhow::Context as _;
use ferrowarp::device::{Buffer, Device};
use ferrowarp::norm::{Backward, Forward, GradientOutputs, Norm, Outputs, Statistics};
use ferrowarp::{Element, Error, TensorView, TensorViewMut};
use ferrowarp_cases::norm::Operands;
use ferrowarp_cases::reference::Number;

use crate::contest::{self, Contender, GBS, Type, Unit, of_type};
use crate::shapes::Shape;
use crate::timed::{self, Prepared, normal};

/// `cargo bench norm`.
pub struct Bench;

/// Rows and columns for a GPU: the widths of language models, and some that are not a multiple of a vector.
const SHAPES: [[usize; 2]; 20] = [
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
const CPU_SHAPES: [[usize; 2]; 2] = [[64, 768], [8, 4097]];

/// The norms.
const KINDS: [Kind; 4] = [
    Kind { name: "rms", is_centred: false, is_backward: false },
    Kind { name: "layer", is_centred: true, is_backward: false },
    Kind { name: "rms-backward", is_centred: false, is_backward: true },
    Kind { name: "layer-backward", is_centred: true, is_backward: true },
];

#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    is_centred: bool,
    is_backward: bool,
}

impl Kind {
    fn of_name(name: &str) -> anyhow::Result<Self> {
        let kind = KINDS.into_iter().find(|kind| kind.name == name);
        kind.with_context(|| format!("no norm {name}; pass rms or layer-backward"))
    }
}

/// The matrices that a norm must read and write at least.
fn matrices(name: &str) -> usize {
    if name.ends_with("-backward") { 3 } else { 2 }
}

impl contest::Bench for Bench {
    type Shape = Shape;
    const NAME: &'static str = "norm";
    const UNIT: Unit = GBS;
    const TYPES: &'static [Type] = &[Type::Bf16, Type::F32, Type::F16];

    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Shape>>> {
        let shapes: &[[usize; 2]] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
        let of = |(name, dtype): (&'static str, Type)| {
            let contender = move |&[rows, cols]: &[usize; 2]| Contender {
                name: name.to_owned(),
                dtype,
                shape: Shape { rows, cols },
            };
            shapes.iter().map(contender)
        };
        let types = |kind: Kind| [Type::Bf16, Type::F32].map(|dtype| (kind.name, dtype));
        Ok(KINDS.into_iter().flat_map(types).flat_map(of).collect())
    }

    fn work(Contender { name, dtype, shape }: &Contender<Shape>) -> f64 {
        (matrices(name) * shape.len() * dtype.bytes()) as f64
    }

    fn prepare(
        device: &Device,
        Contender { name, dtype, shape }: &Contender<Shape>,
    ) -> anyhow::Result<Prepared> {
        let kind = Kind::of_name(name)?;
        of_type!(dtype, prepare_as(device, kind, *shape)).with_context(|| format!("{} {shape}", dtype.name()))
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

fn prepare_as<T: Number>(device: &Device, kind: Kind, shape: Shape) -> anyhow::Result<Prepared> {
    let (Shape { rows, cols }, len) = (shape, shape.len());
    let (inp, d_out, weight) = (normal::<T>(len, 1), normal::<T>(len, 2), normal::<T>(cols, 3));
    let of_backward = if kind.is_backward { len } else { 0 };
    let set = || {
        let mut set = Set {
            inp: device.upload(&inp)?,
            d_out: device.upload(&d_out[..of_backward])?,
            d_inp: device.alloc_zeroed(len)?,
            weight: device.upload(&weight)?,
            bias: device.upload(&weight)?,
            d_weight: device.alloc_zeroed(cols)?,
            d_bias: device.alloc_zeroed(cols)?,
            mean: device.alloc_zeroed(rows)?,
            rstd: device.alloc_zeroed(rows)?,
        };
        if kind.is_backward {
            forward(device, kind, &mut set, [rows, cols])?;
        }
        Ok(set)
    };
    let kernel = if kind.is_backward {
        Backward::<T>::choices(device.limits(), cols, true).next().map(|by| by.meta())
    } else {
        let is_aligned = cols.is_multiple_of(16 / size_of::<T>());
        let (limits, multiprocessors) = (device.limits(), device.multiprocessors());
        Forward::<T>::choices(limits, multiprocessors, [rows, cols], is_aligned).next().map(|by| by.meta())
    };
    let on = device.clone();
    let launch = move |set: &mut Set<T>| {
        let run = if kind.is_backward { backward::<T> } else { forward::<T> };
        Ok(run(&on, kind, set, [rows, cols])?)
    };
    let check = |set: &Set<T>| {
        let out = set.d_inp.view(len - cols..)?.to_vec()?;
        check(kind, [&inp[len - cols..], &d_out[len - cols..], &weight], &out)
    };
    let bytes = matrices(kind.name) * len * size_of::<T>();
    let timed = timed::prepared(device, bytes, set, launch, check)?;
    Ok((timed, kernel.context("no kernel")?.name.to_owned()))
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

/// Compares the last row of the result, or of the input's gradient, with f64.
fn check<T: Number>(kind: Kind, [inp, d_out, weight]: [&[T]; 3], out: &[T]) -> anyhow::Result<f64> {
    let zeros = || vec![T::nearest(0.0); inp.len()];
    let [inp, d_out, weight] = [inp, d_out, weight].map(<[T]>::to_vec);
    let bias = if kind.is_centred { weight.clone() } else { zeros() };
    let epsilon = if kind.is_centred { 1e-5 } else { 1e-6 };
    let all = [inp, zeros(), weight, bias, d_out, zeros()];
    let row = Operands::dense([1, out.len()], (kind.is_centred, epsilon), all);
    let expected = if kind.is_backward { row.expected_backward() } else { row.expected_forward() };
    timed::check("the last row", out, &expected[0].1)?;
    Ok(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::{assert_prepared, assert_shapes_of_peers};

    #[test]
    fn the_peers_have_the_same_shapes() {
        let ours = SHAPES.iter().map(|[rows, cols]| format!("{rows}x{cols}"));
        assert_shapes_of_peers("norm.py", &["--list-shapes"], ours);
    }

    #[test]
    fn every_kind_is_prepared_and_a_wrong_result_is_found() {
        let names = || KINDS.iter().map(|kind| kind.name.to_owned());
        assert_prepared::<Bench>(names(), Type::Bf16, "3x40");
        assert_prepared::<Bench>(names(), Type::F32, "3x41");
        let (x, d_out, wrong) = ([1.0f32, -1.0], [0.5f32, 0.25], [0.5f32, 0.5]);
        for kind in KINDS {
            let error = check(kind, [&x, &d_out, &[1.0, 1.0]], &wrong).unwrap_err().to_string();
            assert!(error.starts_with("the last row[0] is 5e-1, not "), "{error}");
        }
    }
}
