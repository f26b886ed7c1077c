//! Timed norms: RMSNorm and LayerNorm with a weight, LayerNorm also with a bias, and their gradients.
//!
//! `benches/peers/norm.py` holds the same table of shapes.

use anyhow::Context as _;
use ferrowarp::device::Device;
use ferrowarp_cases::place::Place;
use ferrowarp_cases::random::bench::Operation;

use crate::contest::{self, Contender, GBS, Type, Unit};
use crate::random::prepare_listed;
use crate::shapes::Shape;
use crate::timed::Prepared;

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
        let Kind { is_centred: centred, is_backward, .. } = Kind::of_name(name)?;
        let place = || Place::matrix([shape.rows, shape.cols], 0, 0);
        let operation = if is_backward {
            Operation::NormBackward { centred, inp: place(), d_out: place(), d_inp: place() }
        } else {
            Operation::Norm { centred, inp: place(), out: place(), residual: None, sum: None }
        };
        prepare_listed(device, *dtype, operation).with_context(|| format!("{} {shape}", dtype.name()))
    }
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
    fn every_kind_is_prepared() {
        let names = || KINDS.iter().map(|kind| kind.name.to_owned());
        assert_prepared::<Bench>(names(), Type::Bf16, "3x40");
        assert_prepared::<Bench>(names(), Type::F32, "3x41");
    }
}
