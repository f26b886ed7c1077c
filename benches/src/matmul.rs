//! Timed matrix multiplications.
//!
//! `benches/peers/matmul.py` holds the same table of shapes.

use std::time::Instant;

use anyhow::Context as _;
use cuda_std::half::bf16;
use ferrowarp::device::{Buffer, Device, DeviceError};
use ferrowarp::matmul::{KernelChoice, Matmul, Precision, run_rung};
use ferrowarp::softmax::DeviceProfile;
use ferrowarp::{Element, Error, Tensor};
use ferrowarp_cases::matmul::oracle::{Ends, bound};
use ferrowarp_cases::reference::{Number, Sum};
use gpu_kernels::ladders::matmul::RUNGS;

use crate::contest::{self, Contender, TFLOPS, Type, Unit, of_type};
use crate::timed::{self, Prepared, Timed, normal};

mod shape;
mod sweep;

pub use shape::{Ending, Layout, Shape};
pub use sweep::sweep;

/// `cargo bench matmul`.
pub struct Bench;

const fn shape(m: usize, n: usize, k: usize) -> Shape {
    Shape { m, n, k, layout: Layout::Kk, batch: 1, ending: Ending::Plain }
}

/// The shapes for a GPU: squares, the layers of transformers, few rows, and odd extents.
const SHAPES: [Shape; 40] = [
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

/// The crate `matrixmultiply`, a peer on a CPU.
const PEER: &str = "matrixmultiply";

/// Checked results.
const CHECKED: usize = 256;

fn shapes(device: &Device) -> &'static [Shape] {
    if device.is_cuda() { &SHAPES } else { &CPU_SHAPES }
}

impl contest::Bench for Bench {
    type Shape = Shape;
    const NAME: &'static str = "matmul";
    const UNIT: Unit = TFLOPS;
    const TYPES: &'static [Type] = &Type::ALL;

    fn contenders(device: &Device) -> anyhow::Result<Vec<Contender<Shape>>> {
        let at = |name: &'static str, dtype: Type| {
            let of = move |&shape: &Shape| Contender { name: name.to_owned(), dtype, shape };
            shapes(device).iter().map(of)
        };
        let peer = at(PEER, Type::F32).filter(|_| !device.is_cuda());
        Ok(Type::ALL.into_iter().flat_map(|ty| at(Self::NAME, ty)).chain(peer).collect())
    }

    fn id(Contender { name, dtype, shape }: &Contender<Shape>) -> String {
        let end = if name == Self::NAME { String::new() } else { format!("/{name}") };
        format!("{}/{shape}{end}", dtype.name())
    }

    fn work(&Contender { shape: Shape { m, n, k, batch, .. }, .. }: &Contender<Shape>) -> f64 {
        2.0 * m as f64 * n as f64 * k as f64 * batch as f64
    }

    fn rungs() -> Vec<&'static str> {
        RUNGS.iter().map(|rung| rung.name).collect()
    }

    /// The name is `matmul`, a rung, a peer, or kernels to use instead of the chosen ones: a displayed [`KernelChoice`]
    /// without spaces.
    fn prepare(device: &Device, contender: &Contender<Shape>) -> anyhow::Result<Prepared> {
        let (name, shape) = (contender.name.as_str(), contender.shape);
        if name == PEER {
            return Ok((Box::new(MatrixMultiply(shape)), PEER.to_owned()));
        }
        if let Some(rung) = RUNGS.iter().find(|rung| rung.name == name) {
            let on = device.clone();
            let launch = move |set: &mut Set<bf16>| {
                Ok(run_rung(&on, rung, set.out.view_mut(), set.a.view(), set.b.view())?)
            };
            let timed = prepare_launch(device, Type::Bf16, shape, launch)?;
            return Ok((timed, rung.kernel.meta.name.to_owned()));
        }
        of_type!(contender.dtype, prepare_as(device, contender))
    }
}

/// The matrices of one launch.
struct Set<T> {
    a: Tensor<T>,
    b: Tensor<T>,
    bias: Buffer<T>,
    out: Tensor<T>,
}

fn prepare_as<T: Number>(device: &Device, contender: &Contender<Shape>) -> anyhow::Result<Prepared> {
    let &Contender { ref name, dtype, shape } = contender;
    let (problem, profile) = (shape.problem(dtype), DeviceProfile::from(device));
    let is_ours = name == <Bench as contest::Bench>::NAME;
    let choice = if is_ours {
        KernelChoice::<T>::new(&profile, &problem)?
    } else {
        let choices = KernelChoice::<T>::ranked(&profile, &problem).into_iter().map(|(choice, _)| choice);
        let mut named = choices.filter(|choice| choice.to_string().replace(' ', "") == *name);
        named.next().with_context(|| format!("no kernels {name} at {} {shape}", dtype.name()))?
    };
    let (on, by) = (device.clone(), (!is_ours).then_some(choice));
    let launch = move |set: &mut Set<T>| Ok(set.run_by(&on, problem.precision, shape, by)?);
    let kernels = if is_ours { choice.to_string() } else { name.clone() };
    Ok((prepare_launch(device, dtype, shape, launch)?, kernels))
}

impl<T: Element> Set<T> {
    /// Runs the operation with its own choice of kernels, or another one.
    fn run_by(
        &mut self,
        device: &Device,
        precision: Precision,
        shape: Shape,
        by: Option<KernelChoice<T>>,
    ) -> Result<(), Error> {
        let Self { a, b, bias, out } = self;
        let mut matmul = Matmul::new().precision(precision).activation(shape.ending.activation());
        if shape.ending != Ending::Plain {
            matmul = matmul.bias(&*bias);
        }
        let [of_a, of_b] = shape.layout.are_transposed();
        let (a, b) = (if of_a { a.t() } else { a.view() }, if of_b { b.t() } else { b.view() });
        matmul.run_by(device, out.view_mut(), a, b, by)
    }
}

/// The operands on the host.
struct Operands<T> {
    ty: Type,
    shape: Shape,
    a: Vec<T>,
    b: Vec<T>,
    bias: Vec<T>,
}

impl<T: Number> Operands<T> {
    fn new(ty: Type, shape: Shape) -> Self {
        let Shape { m, n, k, batch, .. } = shape;
        let (a, b) = (normal(batch * m * k, 1), normal(batch * n * k, 2));
        Self { ty, shape, a, b, bias: normal(n, 3) }
    }

    /// Bytes of a set.
    fn bytes(&self) -> usize {
        (self.a.len() + self.b.len() + self.shape.batch * self.shape.m * self.shape.n) * size_of::<T>()
    }

    fn set(&self, device: &Device) -> anyhow::Result<Set<T>> {
        let Shape { m, n, k, layout, batch, .. } = self.shape;
        let stored = |is_transposed, [rows, cols]: [usize; 2]| -> ferrowarp::Shape {
            let [rows, cols] = if is_transposed { [cols, rows] } else { [rows, cols] };
            if batch == 1 { [rows, cols].into() } else { [batch, rows, cols].into() }
        };
        let [of_a, of_b] = layout.are_transposed();
        Ok(Set {
            a: device.tensor(&self.a, stored(of_a, [m, k]))?,
            b: device.tensor(&self.b, stored(of_b, [k, n]))?,
            bias: device.upload(&self.bias)?,
            out: Tensor::zeros(device, stored(false, [m, n]))?,
        })
    }

    /// Compares results spread over the matrices with f64.
    fn check(&self, set: &Set<T>) -> anyhow::Result<f64> {
        let Shape { m, n, k, layout, batch, ending } = self.shape;
        let operand_error = match self.ty {
            // Both operands are rounded to 11 bits.
            Type::Tf32 => 2f64.powi(-10) + 2f64.powi(-22),
            Type::F32 => 3.0 * 2f64.powi(-22),
            Type::Bf16 | Type::F16 => 0.0,
        };
        let out = set.out.to_vec()?;
        let all = batch * m * n;
        let at = (0..CHECKED).map(|i| i * (all - 1) / (CHECKED - 1));
        let [of_a, of_b] = layout.are_transposed();
        let expected = |at: usize| {
            let (matrix, row, col) = (at / (m * n), at / n % m, at % n);
            let term = |term: usize| {
                let a = matrix * m * k + if of_a { term * m + row } else { row * k + term };
                let b = matrix * k * n + if of_b { col * k + term } else { term * n + col };
                f64::from(self.a[a].value()) * f64::from(self.b[b].value())
            };
            let sum = (0..k).map(term).fold(Sum::default(), Sum::and);
            let bias = if ending == Ending::Plain { 0.0 } else { self.bias[col].value().into() };
            let ends = Ends { scale: 1.0, bias, activation: ending.activation(), ..Ends::default() };
            (out[at], bound::<T>(k, sum, operand_error, ends))
        };
        let (got, bounds): (Vec<_>, Vec<_>) = at.map(expected).unzip();
        timed::check("result", &got, &bounds).with_context(|| format!("{} {}", self.ty.name(), self.shape))
    }
}

/// Prepares and checks a launch on sets of matrices.
fn prepare_launch<T: Number>(
    device: &Device,
    ty: Type,
    shape: Shape,
    launch: impl Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync + 'static,
) -> anyhow::Result<Box<dyn Timed>> {
    let operands = Operands::<T>::new(ty, shape);
    timed::prepared(device, operands.bytes(), || operands.set(device), launch, |set| operands.check(set))
}

/// A multiplication with the crate `matrixmultiply`, on all cores.
struct MatrixMultiply(Shape);

impl Timed for MatrixMultiply {
    fn time(&mut self) -> Result<f64, DeviceError> {
        let Shape { m, n, k, .. } = self.0;
        let numbers = |len: usize| (0..len).map(|i| (i % 17) as f32 - 8.0).collect::<Vec<_>>();
        let (a, b, mut out) = (numbers(m * k), numbers(n * k), vec![0.0f32; m * n]);
        let start = Instant::now();
        // SAFETY: the slices have these shapes, and B is the transpose of `[n, k]`.
        unsafe {
            let (a, b, out) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
            matrixmultiply::sgemm(m, k, n, 1.0, a, k as isize, 1, b, 1, k as isize, 0.0, out, n as isize, 1);
        }
        Ok(start.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::{assert_prepared, assert_shapes_of_peers};

    #[test]
    fn the_peers_have_the_same_shapes() {
        assert_shapes_of_peers("matmul.py", &["--list-shapes"], SHAPES.iter().map(Shape::to_string));
    }

    #[test]
    fn a_wrong_result_is_not_timed() {
        let prepared = prepare_launch::<f32>(&Device::cpu(), Type::F32, shape(8, 8, 8), |_| Ok(()));
        let error = format!("{:#}", prepared.err().unwrap());
        assert!(error.contains("f32 8x8x8: result[0] is 0e0, not "), "{error}");
        assert_prepared::<Bench>(["matmul".to_owned()].into_iter(), Type::F32, "8x8x8");
    }
}
