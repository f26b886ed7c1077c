//! Timed matrix multiplications: shapes, contenders, and the launches of both.
//!
//! `benches/peers/matmul.py` holds the same table of shapes.

use std::fmt;

use anyhow::{Context as _, ensure};
use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::matmul::{KernelChoice, Matmul, Precision, Problem, run_rung};
use ferrowarp::softmax::DeviceProfile;
use ferrowarp::{Element, Error, Tensor};
use ferrowarp_cases::reference::Number;
use gpu_kernels::ladders::matmul::ladder::Rung;
use serde::Serialize;

pub use crate::timed::Timed;
use crate::timed::{count_of_sets, normal, timed};

mod sweep;

pub use sweep::{SweepEntry, sweep};

/// A multiplication: `[m, k]` by the transpose of `[n, k]`, as in a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Terms of a sum.
    pub k: usize,
}

impl Shape {
    /// Multiplications and additions.
    pub fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.m, self.n, self.k)
    }
}

const fn shape(m: usize, n: usize, k: usize) -> Shape {
    Shape { m, n, k }
}

/// The shapes for a GPU: squares, the layers of transformers, few rows, and odd extents.
pub const SHAPES: [Shape; 40] = [
    shape(512, 512, 512),
    shape(1024, 1024, 1024),
    shape(1536, 1536, 1536),
    shape(2048, 2048, 2048),
    shape(3072, 3072, 3072),
    shape(4096, 4096, 4096),
    shape(6144, 6144, 6144),
    shape(8192, 8192, 8192),
    shape(12288, 12288, 12288),
    shape(16384, 16384, 16384),
    // Attention and feed-forward layers of 7, 13 and 70 billion parameters, and a vocabulary.
    shape(2048, 12288, 4096),
    shape(2048, 4096, 4096),
    shape(2048, 22016, 4096),
    shape(2048, 4096, 11008),
    shape(4096, 15360, 5120),
    shape(4096, 5120, 13824),
    shape(8192, 10240, 8192),
    shape(8192, 57344, 8192),
    shape(8192, 8192, 28672),
    shape(4096, 32000, 4096),
    shape(8192, 8192, 1024),
    shape(16384, 8192, 4096),
    shape(128, 4096, 4096),
    shape(256, 8192, 8192),
    // 1 to 64 tokens of a decoder.
    shape(1, 4096, 4096),
    shape(1, 28672, 8192),
    shape(8, 4096, 4096),
    shape(8, 28672, 8192),
    shape(16, 4096, 14336),
    shape(16, 8192, 8192),
    shape(32, 4096, 4096),
    shape(32, 28672, 8192),
    shape(64, 4096, 4096),
    shape(64, 8192, 28672),
    // Not divisible by any tile, or only by small ones.
    shape(1000, 1000, 1000),
    shape(1023, 1025, 1027),
    shape(4095, 4097, 4096),
    shape(3333, 2222, 1111),
    shape(4104, 4104, 4104),
    shape(512, 512, 16384),
];

/// The shapes for the CPU.
pub const CPU_SHAPES: [Shape; 5] = [
    shape(64, 64, 64),
    shape(256, 256, 256),
    shape(512, 512, 512),
    shape(1024, 1024, 1024),
    shape(1000, 300, 777),
];

/// The type of the operands and of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// 16 bits with an 8-bit exponent.
    Bf16,
    /// 16 bits with a 5-bit exponent.
    F16,
    /// `f32`, with operands rounded to TF32.
    Tf32,
    /// `f32`, as three products of TF32 on a GPU.
    F32,
}

impl Type {
    /// All types.
    pub const ALL: [Type; 4] = [Type::Bf16, Type::F16, Type::Tf32, Type::F32];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Bf16 => "bf16",
            Type::F16 => "f16",
            Type::Tf32 => "tf32",
            Type::F32 => "f32",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.name() == name)
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Type::Bf16 | Type::F16 => 2,
            Type::Tf32 | Type::F32 => 4,
        }
    }
}

/// The matrices of one launch.
pub struct Set<T> {
    a: Tensor<T>,
    b: Tensor<T>,
    out: Tensor<T>,
}

/// Checked results.
const CHECKED: usize = 256;

/// The problem that a shape's kernel is chosen for.
pub fn problem(ty: Type, Shape { m, n, k }: Shape) -> Problem {
    let precision = if ty == Type::Tf32 { Precision::Tf32 } else { Precision::F32 };
    let [is_aligned, has_whole_lines] = [16, 128].map(|bytes| (k * ty.bytes()).is_multiple_of(bytes));
    Problem {
        b_is_transposed: true,
        precision,
        is_aligned,
        has_whole_lines,
        ..Problem::new(m as u32, n as u32, k as u32)
    }
}

/// Prepares and checks the operation at a shape.
///
/// # Errors
/// There is not enough memory, a launch failed, or a result is wrong.
pub fn prepare(device: &Device, ty: Type, shape: Shape) -> anyhow::Result<Box<dyn Timed>> {
    match ty {
        Type::Bf16 => prepare_as::<bf16>(device, ty, shape),
        Type::F16 => prepare_as::<f16>(device, ty, shape),
        Type::Tf32 | Type::F32 => prepare_as::<f32>(device, ty, shape),
    }
}

fn prepare_as<T: Number>(device: &Device, ty: Type, shape: Shape) -> anyhow::Result<Box<dyn Timed>> {
    let (on, precision) = (device.clone(), problem(ty, shape).precision);
    let launch = move |set: &mut Set<T>| Ok(set.run_by(&on, precision, None)?);
    prepare_launch(device, ty, shape, launch)
}

/// Prepares and checks the operation with the kernels `name`, a displayed [`KernelChoice`] without spaces.
///
/// # Errors
/// Same as for [`prepare`], or the kernels do not support the shape.
pub fn prepare_kernels(
    device: &Device,
    ty: Type,
    shape: Shape,
    name: &str,
) -> anyhow::Result<Box<dyn Timed>> {
    match ty {
        Type::Bf16 => prepare_kernels_as::<bf16>(device, ty, shape, name),
        Type::F16 => prepare_kernels_as::<f16>(device, ty, shape, name),
        Type::Tf32 | Type::F32 => prepare_kernels_as::<f32>(device, ty, shape, name),
    }
}

fn prepare_kernels_as<T: Number>(
    device: &Device,
    ty: Type,
    shape: Shape,
    name: &str,
) -> anyhow::Result<Box<dyn Timed>> {
    let problem = problem(ty, shape);
    let ranked = KernelChoice::<T>::ranked(&DeviceProfile::from(device), &problem);
    let mut choices = ranked.into_iter().map(|(choice, _)| choice);
    let choice = choices.find(|choice| choice.to_string().replace(' ', "") == name);
    let choice = choice.with_context(|| format!("no kernels {name} at {} {shape}", ty.name()))?;
    let on = device.clone();
    let launch = move |set: &mut Set<T>| Ok(set.run_by(&on, problem.precision, Some(choice))?);
    prepare_launch(device, ty, shape, launch)
}

/// Checks a rung of the ladder at a shape, and returns it ready to be timed.
///
/// # Errors
/// Same as for [`prepare`], or the rung does not support the shape.
pub fn prepare_rung(device: &Device, rung: &'static Rung, shape: Shape) -> anyhow::Result<Box<dyn Timed>> {
    let on = device.clone();
    let launch =
        move |set: &mut Set<bf16>| Ok(run_rung(&on, rung, set.out.view_mut(), set.a.view(), set.b.view())?);
    prepare_launch(device, Type::Bf16, shape, launch)
}

impl<T: Element> Set<T> {
    /// Runs the operation with its own choice of kernels, or another one.
    fn run_by(
        &mut self,
        device: &Device,
        precision: Precision,
        by: Option<KernelChoice<T>>,
    ) -> Result<(), Error> {
        let Self { a, b, out } = self;
        Matmul::new().precision(precision).run_by(device, out.view_mut(), a.view(), b.t(), by)
    }
}

/// The operands on the host, and enough sets to leave the cache cold.
type Operands<T> = (Vec<T>, Vec<T>, Vec<Set<T>>);

fn sets<T: Number>(device: &Device, Shape { m, n, k }: Shape) -> anyhow::Result<Operands<T>> {
    let count = count_of_sets(device, (m * k + n * k + m * n) * size_of::<T>())?;
    let (a, b) = (normal::<T>(m * k, 1), normal::<T>(n * k, 2));
    let set = || -> Result<Set<T>, Error> {
        let out = Tensor::zeros(device, [m, n])?;
        Ok(Set { a: device.tensor(&a, [m, k])?, b: device.tensor(&b, [n, k])?, out })
    };
    let sets = (0..count).map(|_| set()).collect::<Result<Vec<_>, _>>()?;
    Ok((a, b, sets))
}

/// Prepares and checks a launch on sets of matrices.
///
/// # Errors
/// Same as for [`prepare`].
pub fn prepare_launch<T: Number>(
    device: &Device,
    ty: Type,
    shape: Shape,
    launch: impl Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> anyhow::Result<Box<dyn Timed>> {
    let (a, b, mut sets) = sets::<T>(device, shape)?;
    launch(&mut sets[0])?;
    let got = sets[0].out.to_vec()?;
    let relative_error =
        check(ty, shape, (&a, &b), &got).with_context(|| format!("{} {shape}", ty.name()))?;
    Ok(timed(device, sets, launch, relative_error)?)
}

/// Compares results spread over the matrix with f64. Returns their error, as [`Timed::relative_error`] defines it.
fn check<T: Number>(
    ty: Type,
    Shape { m, n, k }: Shape,
    (a, b): (&[T], &[T]),
    out: &[T],
) -> anyhow::Result<f64> {
    let operand_error = match ty {
        // Operands may be truncated instead of rounded.
        Type::Tf32 => 2f64.powi(-9),
        Type::F32 => 3.0 * 2f64.powi(-22),
        Type::Bf16 | Type::F16 => 0.0,
    };
    let mut squares = [0.0; 2];
    for i in 0..CHECKED {
        let at = i * (m * n - 1) / (CHECKED - 1);
        let (row, col) = (at / n, at % n);
        let (mut sum, mut magnitude) = (0.0, 0.0);
        for i in 0..k {
            let term = f64::from(a[row * k + i].value()) * f64::from(b[col * k + i].value());
            sum += term;
            magnitude += term.abs();
        }
        let roundings = (16.0 + k as f64 / 8.0) * 2f64.powi(-24);
        let allowed = (roundings + operand_error) * magnitude + T::ROUNDING * sum.abs() * 1.01 + T::SMALLEST;
        let got = f64::from(out[at].value());
        ensure!(
            (got - sum).abs() <= allowed,
            "result ({row}, {col}) is {got:e}, not {sum:e} +- {allowed:.1e}"
        );
        squares[0] += (got - sum).powi(2);
        squares[1] += sum.powi(2);
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
        assert_shapes_of_peers("matmul.py", &ours);
    }

    #[test]
    fn a_wrong_result_is_not_timed() {
        let shape = shape(8, 8, 8);
        let error = prepare_launch::<f32>(&Device::cpu(), Type::F32, shape, |_| Ok(())).err().unwrap();
        assert!(format!("{error:#}").contains("f32 8x8x8: result (0, 0) is 0e0"), "{error:#}");
        assert!(prepare(&Device::cpu(), Type::F32, shape).is_ok());
    }
}
