//! Timed sums, cumulative sums, transposes and copies.
//!
//! `benches/peers/axis.py` holds the same table of shapes.

use anyhow::Context as _;
use ferrowarp::Reduction;
use ferrowarp::device::Device;
use ferrowarp_cases::reference::Number;

use crate::contest::{self, Contender, GBS, Type, Unit, of_type};
use crate::random::axis::{Axis, Kind};
use crate::random::{Pace, ready};
use crate::shapes::Shape;
use crate::timed::Prepared;

/// `cargo bench axis`.
pub struct Bench;

/// Rows and columns of reductions on a GPU.
const REDUCTIONS: [[usize; 2]; 6] =
    [[131_072, 256], [32_768, 1024], [4096, 4096], [16_384, 8192], [1024, 131_072], [1, 1 << 28]];
/// The same for column results. The last matrix is narrow.
const OF_COLUMNS: [[usize; 2]; 6] =
    [[131_072, 256], [32_768, 1024], [4096, 4096], [16_384, 8192], [1024, 131_072], [1 << 24, 16]];
/// Rows and columns of cumulative sums on a GPU.
const SCANS: [[usize; 2]; 3] = [[4096, 4096], [64, 1 << 20], [1, 1 << 28]];
/// Rows and columns of transposes and copies on a GPU.
const TRANSPOSES: [[usize; 2]; 3] = [[4096, 4096], [16_384, 16_384], [8191, 4097]];
/// Rows and columns for the CPU.
const ON_CPU: [[usize; 2]; 2] = [[64, 768], [8, 4097]];

/// The timed operations, and their shapes on a GPU.
const KINDS: [(&str, Kind, &[[usize; 2]]); 9] = [
    ("sum-rows", Kind::Rows(Reduction::Sum), &REDUCTIONS),
    ("mean-rows", Kind::Rows(Reduction::Mean), &REDUCTIONS),
    ("max-rows", Kind::Rows(Reduction::Max), &REDUCTIONS),
    ("sum-columns", Kind::Columns(Reduction::Sum), &OF_COLUMNS),
    ("mean-columns", Kind::Columns(Reduction::Mean), &OF_COLUMNS),
    ("max-columns", Kind::Columns(Reduction::Max), &OF_COLUMNS),
    ("cumsum", Kind::Scan, &SCANS),
    ("transpose", Kind::Transpose, &TRANSPOSES),
    ("cast", Kind::Cast, &TRANSPOSES),
];

fn kind_of(name: &str) -> anyhow::Result<Kind> {
    let kind = KINDS.iter().find(|(known, ..)| *known == name).map(|(_, kind, _)| *kind);
    kind.with_context(|| format!("no operation {name}; pass sum-rows or cumsum"))
}

impl contest::Bench for Bench {
    type Shape = Shape;
    const NAME: &'static str = "axis";
    const UNIT: Unit = GBS;
    const TYPES: &'static [Type] = &[Type::Bf16, Type::F32, Type::F16];

    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Shape>>> {
        let mut all = Vec::new();
        for (name, _, shapes) in KINDS {
            for dtype in [Type::Bf16, Type::F32] {
                let shapes: &[[usize; 2]] = if device.is_cuda() { shapes } else { &ON_CPU };
                let of = |&[rows, cols]: &[usize; 2]| Contender {
                    name: name.to_owned(),
                    dtype,
                    shape: Shape { rows, cols },
                };
                all.extend(shapes.iter().map(of));
            }
        }
        Ok(all)
    }

    /// The bytes that it must read and write at least.
    fn work(Contender { name, dtype, shape }: &Contender<Shape>) -> f64 {
        let outputs = kind_of(name).map_or(0, |kind| kind.out([shape.rows, shape.cols]).len);
        ((shape.len() + outputs) * dtype.bytes()) as f64
    }

    fn prepare(
        device: &Device,
        Contender { name, dtype, shape }: &Contender<Shape>,
    ) -> anyhow::Result<Prepared> {
        let kind = kind_of(name)?;
        of_type!(dtype, prepare_as(device, kind, *shape)).with_context(|| format!("{} {shape}", dtype.name()))
    }
}

fn prepare_as<T: Number>(device: &Device, kind: Kind, shape: Shape) -> anyhow::Result<Prepared> {
    ready(device, Axis::<T>::new(device, kind, [shape.rows, shape.cols])?, None, Pace::OF_LIST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::{assert_prepared, assert_shapes_of_peers};

    #[test]
    fn the_peers_have_the_same_shapes() {
        let of_kind = |&(name, _, shapes): &(&'static str, Kind, &'static [[usize; 2]])| {
            shapes.iter().map(move |[rows, cols]| format!("{name} {rows}x{cols}"))
        };
        assert_shapes_of_peers("axis.py", &["--list-shapes"], KINDS.iter().flat_map(of_kind));
    }

    #[test]
    fn every_kind_is_prepared() {
        assert_prepared::<Bench>(KINDS.iter().map(|(name, ..)| (*name).to_owned()), Type::Bf16, "3x40");
    }
}
