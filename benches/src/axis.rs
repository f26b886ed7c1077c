//! Timed sums, cumulative sums, transposes and copies: shapes, and our launches.
//!
//! `benches/peers/axis.py` holds the same table of shapes.

use anyhow::{Context as _, bail, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::axis::{CastTo, choices};
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::{
    Cast, CumulativeSum, Element, Error, Reduce, Reduction, TensorView, TensorViewMut, Transpose,
};
use ferrowarp_cases::reference::Number;
use gpu_kernels::axis::{AxisKernels, TransposeKernels as _};

use crate::matmul::Type;
use crate::serve::Prepared;
use crate::timed::{count_of_sets, normal, timed};

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

/// The types of the matrices.
pub const TYPES: [Type; 2] = [Type::Bf16, Type::F32];

/// The timed operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A result for each row.
    Rows(Reduction),
    /// A result for each column.
    Columns(Reduction),
    /// Cumulative sums of the rows.
    Scan,
    /// The transpose.
    Transpose,
    /// A copy.
    Cast,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 9] = [
        Kind::Rows(Reduction::Sum),
        Kind::Rows(Reduction::Mean),
        Kind::Rows(Reduction::Max),
        Kind::Columns(Reduction::Sum),
        Kind::Columns(Reduction::Mean),
        Kind::Columns(Reduction::Max),
        Kind::Scan,
        Kind::Transpose,
        Kind::Cast,
    ];

    /// Its name in ids.
    pub fn name(self) -> String {
        let word = |operation: Reduction| format!("{operation:?}").to_lowercase();
        match self {
            Kind::Rows(operation) => format!("{}-rows", word(operation)),
            Kind::Columns(operation) => format!("{}-columns", word(operation)),
            Kind::Scan => "cumsum".to_owned(),
            Kind::Transpose => "transpose".to_owned(),
            Kind::Cast => "cast".to_owned(),
        }
    }

    /// The kind of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The shapes to time it at.
    pub fn shapes(self, is_gpu: bool) -> &'static [[usize; 2]] {
        match self {
            _ if !is_gpu => &ON_CPU,
            Kind::Rows(_) => &REDUCTIONS,
            Kind::Columns(_) => &OF_COLUMNS,
            Kind::Scan => &SCANS,
            Kind::Transpose | Kind::Cast => &TRANSPOSES,
        }
    }

    /// Elements of the output.
    fn outputs(self, [rows, cols]: [usize; 2]) -> usize {
        match self {
            Kind::Rows(_) => rows,
            Kind::Columns(_) => cols,
            Kind::Scan | Kind::Transpose | Kind::Cast => rows * cols,
        }
    }

    /// The bytes that it must read and write at least.
    pub fn bytes(self, ty: Type, [rows, cols]: [usize; 2]) -> f64 {
        ((rows * cols + self.outputs([rows, cols])) * ty.bytes()) as f64
    }
}

/// The operands of one launch.
struct Set<T> {
    inp: Buffer<T>,
    out: Buffer<T>,
}

/// Prepares and checks the operation at a shape: ready to be timed, and its kernel.
///
/// # Errors
/// There is not enough memory, a launch failed, or a result is wrong.
pub fn prepare(device: &Device, kind: Kind, ty: Type, shape: [usize; 2]) -> anyhow::Result<Prepared> {
    match ty {
        Type::Bf16 => prepare_as::<bf16>(device, kind, shape),
        Type::F16 => prepare_as::<f16>(device, kind, shape),
        Type::F32 => prepare_as::<f32>(device, kind, shape),
        Type::Tf32 => bail!("no matrix of {}; pass bf16, f16 or f32", ty.name()),
    }
}

fn prepare_as<T: Number + Element>(
    device: &Device,
    kind: Kind,
    shape: [usize; 2],
) -> anyhow::Result<Prepared> {
    let [rows, cols] = shape;
    let (len, outputs) = (rows * cols, kind.outputs(shape));
    let count = count_of_sets(device, (len + outputs) * size_of::<T>())?;
    // At most 2^22 different normal numbers, repeated.
    let inp: Vec<T> = normal::<T>(len.min(1 << 22), 1).into_iter().cycle().take(len).collect();
    let set = || -> Result<Set<T>, DeviceError> {
        let (inp, out) = (device.upload(&inp)?, device.alloc_zeroed(outputs)?);
        Ok(Set { inp, out })
    };
    let mut sets = (0..count).map(|_| set()).collect::<Result<Vec<_>, _>>()?;
    let on = device.clone();
    let launch = move |set: &mut Set<T>| Ok(run::<T>(&on, kind, set, shape)?);
    for set in &mut sets {
        launch(set)?;
    }
    check(kind, &inp, &sets[0].out.to_vec()?, shape).with_context(|| format!("{} {rows}x{cols}", T::NAME))?;
    let blocks = choices(device.limits())[0];
    let name = match kind {
        Kind::Rows(_) => T::rows(blocks).meta.name,
        Kind::Columns(_) => <T as AxisKernels>::columns(blocks).meta.name,
        Kind::Scan => {
            let by = CumulativeSum::choices::<T>(device.limits(), cols).next().context("no kernel")?;
            by.kernels::<T>()[0].name
        }
        Kind::Transpose if size_of::<T>() == 2 => u16::transpose(blocks).meta.name,
        Kind::Transpose => u32::transpose(blocks).meta.name,
        Kind::Cast => <T as CastTo<T>>::CAST.meta.name,
    };
    Ok((timed(device, sets, launch, 0.0)?, name.to_owned()))
}

fn run<T: Number + Element>(
    device: &Device,
    kind: Kind,
    set: &mut Set<T>,
    shape @ [rows, cols]: [usize; 2],
) -> Result<(), Error> {
    let (inp, out) = (TensorView::new(&set.inp, shape)?, &mut set.out);
    match kind {
        Kind::Rows(operation) => Reduce::rows(operation).run_into(device, out, inp),
        Kind::Columns(operation) => Reduce::columns(operation).run_into(device, out, inp),
        Kind::Scan => CumulativeSum::new().run_into(device, TensorViewMut::new(out, shape)?, inp),
        Kind::Transpose => Transpose::new().run_into(device, TensorViewMut::new(out, [cols, rows])?, inp),
        Kind::Cast => Cast::new().run_into(device, TensorViewMut::new(out, shape)?, inp),
    }
}

/// The maximum error of a sum, relative to the sum of the absolute values. A rounded result may be off by another 2^-8.
const ALLOWED: f64 = 1e-4;

/// Compares the last row or column with f64.
fn check<T: Number>(kind: Kind, inp: &[T], out: &[T], [rows, cols]: [usize; 2]) -> anyhow::Result<()> {
    let value = |x: &T| f64::from(x.value());
    let last_row = || inp[inp.len() - cols..].iter().map(value);
    let last_column = || inp[cols - 1..].iter().step_by(cols).map(value);
    let is_near = |what: usize, got: f64, want: f64, size: f64| {
        let allowed = ALLOWED * size + want.abs() / 256.0;
        ensure!((got - want).abs() <= allowed, "result {what} is {got:e}, not {want:e}");
        Ok(())
    };
    let last = out.len() - 1;
    let reduced = |operation: Reduction, all: &mut dyn Iterator<Item = f64>, len: usize| {
        let (mut sum, mut size, mut max) = (0.0, 0.0, f64::NEG_INFINITY);
        all.for_each(|x| (sum, size, max) = (sum + x, size + x.abs(), max.max(x)));
        match operation {
            Reduction::Sum => is_near(last, value(&out[last]), sum, size),
            Reduction::Mean => is_near(last, value(&out[last]), sum / len as f64, size / len as f64),
            Reduction::Max => is_near(last, value(&out[last]), max, 0.0),
            Reduction::Min => bail!("minima are not timed"),
        }
    };
    match kind {
        Kind::Rows(operation) => reduced(operation, &mut last_row(), cols),
        Kind::Columns(operation) => reduced(operation, &mut last_column(), rows),
        Kind::Scan => {
            let (mut sum, mut size) = (0.0, 0.0);
            for (i, x) in last_row().enumerate() {
                (sum, size) = (sum + x, size + x.abs());
                let at = out.len() - cols + i;
                is_near(at, value(&out[at]), sum, size)?;
            }
            Ok(())
        }
        Kind::Cast => last_row().enumerate().try_for_each(|(col, x)| {
            let at = out.len() - cols + col;
            is_near(at, value(&out[at]), x, 0.0)
        }),
        Kind::Transpose => last_column().enumerate().try_for_each(|(row, x)| {
            let at = (cols - 1) * rows + row;
            is_near(at, value(&out[at]), x, 0.0)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::assert_shapes_of_peers;

    #[test]
    fn the_peers_have_the_same_shapes() {
        let of_kind = |kind: Kind| {
            let line = move |[rows, cols]: &[usize; 2]| format!("{} {rows}x{cols}\n", kind.name());
            kind.shapes(true).iter().map(line).collect::<String>()
        };
        let ours: String = Kind::ALL.into_iter().map(of_kind).collect();
        assert_shapes_of_peers("axis.py", &ours);
    }

    #[test]
    fn every_kind_is_prepared_and_a_wrong_result_is_found() {
        for kind in Kind::ALL {
            assert_eq!(Kind::from_name(&kind.name()), Some(kind));
            assert!(prepare(&Device::cpu(), kind, Type::Bf16, [3, 40]).is_ok(), "{kind:?}");
        }
        let error = check(Kind::Scan, &[1.0f32, 2.0], &[1.0, 4.0], [1, 2]).unwrap_err().to_string();
        assert_eq!(error, "result 1 is 4e0, not 3e0");
        assert!(check(Kind::Transpose, &[1.0f32, 2.0, 3.0, 4.0], &[1.0, 3.0, 4.0, 2.0], [2, 2]).is_err());
        assert!(check(Kind::ALL[2], &[1.0f32, 2.0], &[1.0], [1, 2]).is_err());
    }
}
