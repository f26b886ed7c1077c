//! Timed matrix multiplications.
//!
//! `benches/peers/matmul.py` holds the same table of shapes.

use std::time::Instant;

use anyhow::Context as _;
use cuda_std::half::bf16;
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::matmul::run_rung;
use ferrowarp::{TensorView, TensorViewMut};
use ferrowarp_cases::random::bench::Problem;
use ferrowarp_cases::reference::Number;
use gpu_kernels::ladders::matmul::RUNGS;

use crate::contest::{self, Contender, TFLOPS, Type, Unit, of_type};
use crate::random::matmul::{Matmul, Set};
use crate::random::{Instead, Pace, ready};
use crate::timed::{Prepared, Timed};

mod shape;

pub use shape::{Ending, Layout, Shape};

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

    /// The name is `matmul`, a rung, a peer, or kernels to use instead of the chosen ones: a displayed
    /// [`ferrowarp::matmul::KernelChoice`] without spaces.
    fn prepare(device: &Device, contender: &Contender<Shape>) -> anyhow::Result<Prepared> {
        let (name, shape) = (contender.name.as_str(), contender.shape);
        if name == PEER {
            return Ok((Box::new(MatrixMultiply(shape)), PEER.to_owned()));
        }
        if let Some(rung) = RUNGS.iter().find(|rung| rung.name == name) {
            let Shape { m, n, k, .. } = shape;
            let launch = move |on: &Device, Set { a, b, out, .. }: &mut Set<bf16>| {
                let (a, b) = (TensorView::new(&*a, [m, k])?, TensorView::new(&*b, [n, k])?);
                run_rung(on, rung, TensorViewMut::new(out, [m, n])?, a, b)
            };
            let operation = Matmul::<bf16>::new(device, &problem(Type::Bf16, shape))?;
            return ready(device, Instead(operation, launch), None, Pace::OF_LIST);
        }
        of_type!(contender.dtype, prepare_as(device, contender))
            .with_context(|| format!("{} {shape}", contender.dtype.name()))
    }
}

/// The multiplication of a shape, as a problem.
fn problem(dtype: Type, shape: Shape) -> Problem {
    Problem { family: String::new(), dtype, operation: shape.operation() }
}

fn prepare_as<T: Number>(device: &Device, contender: &Contender<Shape>) -> anyhow::Result<Prepared> {
    let name = &contender.name;
    let operation = Matmul::<T>::new(device, &problem(contender.dtype, contender.shape))?;
    let by = if name == <Bench as contest::Bench>::NAME {
        None
    } else {
        let mut ranked = operation.ranked().into_iter().map(|(choice, _)| choice);
        let named = ranked.find(|choice| choice.to_string().replace(' ', "") == *name);
        Some(named.with_context(|| format!("no kernels {name}"))?)
    };
    ready(device, operation, by, Pace::OF_LIST)
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
    fn a_multiplication_is_prepared() {
        assert_prepared::<Bench>(["matmul".to_owned()].into_iter(), Type::F32, "8x8x8");
    }
}
