//! Timed sums, cumulative sums, transposes and copies.
//!
//! `benches/peers/axis.py` holds the same table of shapes.

use anyhow::{Context as _, bail};
use ferrowarp::axis::{CastTo, choices};
use ferrowarp::device::{Buffer, Device};
use ferrowarp::{Cast, CumulativeSum, Error, Reduce, Reduction, TensorView, TensorViewMut, Transpose};
use ferrowarp_cases::axis::Operand;
use ferrowarp_cases::compare::Bound;
use ferrowarp_cases::reference::Number;
use gpu_kernels::axis::{AxisKernels, TransposeKernels as _};

use crate::contest::{self, Contender, GBS, Type, Unit, of_type};
use crate::shapes::Shape;
use crate::timed::{self, Prepared, normal};

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

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A result for each row.
    Rows(Reduction),
    /// A result for each column.
    Columns(Reduction),
    /// Cumulative sums of the rows.
    Scan,
    Transpose,
    /// A copy.
    Cast,
}

impl Kind {
    fn of_name(name: &str) -> anyhow::Result<Self> {
        let kind = KINDS.iter().find(|(known, ..)| *known == name).map(|(_, kind, _)| *kind);
        kind.with_context(|| format!("no operation {name}; pass sum-rows or cumsum"))
    }

    /// Elements of the output.
    fn outputs(self, shape: Shape) -> usize {
        match self {
            Kind::Rows(_) => shape.rows,
            Kind::Columns(_) => shape.cols,
            Kind::Scan | Kind::Transpose | Kind::Cast => shape.len(),
        }
    }
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
        let outputs = Kind::of_name(name).map_or(0, |kind| kind.outputs(*shape));
        ((shape.len() + outputs) * dtype.bytes()) as f64
    }

    fn prepare(
        device: &Device,
        Contender { name, dtype, shape }: &Contender<Shape>,
    ) -> anyhow::Result<Prepared> {
        let kind = Kind::of_name(name)?;
        of_type!(dtype, prepare_as(device, kind, *shape)).with_context(|| format!("{} {shape}", dtype.name()))
    }
}

/// The operands of one launch.
struct Set<T> {
    inp: Buffer<T>,
    out: Buffer<T>,
}

fn prepare_as<T: Number>(device: &Device, kind: Kind, shape: Shape) -> anyhow::Result<Prepared> {
    let (len, outputs) = (shape.len(), kind.outputs(shape));
    // At most 2^22 different normal numbers, repeated.
    let inp: Vec<T> = normal::<T>(len.min(1 << 22), 1).into_iter().cycle().take(len).collect();
    let set = || Ok(Set { inp: device.upload(&inp)?, out: device.alloc_zeroed(outputs)? });
    let on = device.clone();
    let launch = move |set: &mut Set<T>| Ok(run::<T>(&on, kind, set, shape)?);
    let check = |set: &Set<T>| check(kind, &inp, &set.out.to_vec()?, shape);
    let blocks = choices(device.limits())[0];
    let name = match kind {
        Kind::Rows(_) => T::rows(blocks).meta.name,
        Kind::Columns(_) => <T as AxisKernels>::columns(blocks).meta.name,
        Kind::Scan => {
            let by = CumulativeSum::choices::<T>(device.limits(), shape.cols).next().context("no kernel")?;
            by.kernels::<T>()[0].name
        }
        Kind::Transpose if size_of::<T>() == 2 => u16::transpose(blocks).meta.name,
        Kind::Transpose => u32::transpose(blocks).meta.name,
        Kind::Cast => <T as CastTo<T>>::CAST.meta.name,
    };
    let timed = timed::prepared(device, (len + outputs) * size_of::<T>(), set, launch, check)?;
    Ok((timed, name.to_owned()))
}

fn run<T: Number>(
    device: &Device,
    kind: Kind,
    set: &mut Set<T>,
    Shape { rows, cols }: Shape,
) -> Result<(), Error> {
    let shape = [rows, cols];
    let (inp, out) = (TensorView::new(&set.inp, shape)?, &mut set.out);
    match kind {
        Kind::Rows(operation) => Reduce::rows(operation).run_into(device, out, inp),
        Kind::Columns(operation) => Reduce::columns(operation).run_into(device, out, inp),
        Kind::Scan => CumulativeSum::new().run_into(device, TensorViewMut::new(out, shape)?, inp),
        Kind::Transpose => Transpose::new().run_into(device, TensorViewMut::new(out, [cols, rows])?, inp),
        Kind::Cast => Cast::new().run_into(device, TensorViewMut::new(out, shape)?, inp),
    }
}

/// Compares the last row or column with f64.
fn check<T: Number>(kind: Kind, inp: &[T], out: &[T], Shape { cols, .. }: Shape) -> anyhow::Result<f64> {
    let row = inp[inp.len() - cols..].to_vec();
    let column = || inp[cols - 1..].iter().step_by(cols).copied().collect::<Vec<_>>();
    let exact = |all: Vec<T>| all.into_iter().map(|x| Bound::exact(x.value().into())).collect();
    // The oracles of sums, for one row or column.
    let reduced =
        |of: Vec<T>, operation| Operand::dense([1, of.len()], (operation, true, false), of).expected_reduce();
    let bounds: Vec<Bound> = match kind {
        Kind::Rows(Reduction::Min) | Kind::Columns(Reduction::Min) => bail!("minima are not timed"),
        Kind::Rows(operation) => reduced(row, operation),
        Kind::Columns(operation) => reduced(column(), operation),
        Kind::Scan => Operand::dense([1, cols], (Reduction::Sum, true, false), row).expected_scan(),
        Kind::Transpose => exact(column()),
        Kind::Cast => exact(row),
    };
    timed::check("the end", &out[out.len() - bounds.len()..], &bounds)?;
    Ok(0.0)
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
    fn every_kind_is_prepared_and_a_wrong_result_is_found() {
        assert_prepared::<Bench>(KINDS.iter().map(|(name, ..)| (*name).to_owned()), Type::Bf16, "3x40");
        let shape = |rows, cols| Shape { rows, cols };
        let error = check(Kind::Scan, &[1.0f32, 2.0], &[1.0, 4.0], shape(1, 2)).unwrap_err().to_string();
        assert!(error.starts_with("the end[1] is 4e0, not 3e0"), "{error}");
        let numbers = [1.0f32, 2.0, 3.0, 4.0];
        assert!(check(Kind::Transpose, &numbers, &[1.0, 3.0, 4.0, 2.0], shape(2, 2)).is_err());
        assert!(check(Kind::Rows(Reduction::Max), &[1.0f32, 2.0], &[1.0], shape(1, 2)).is_err());
    }
}
