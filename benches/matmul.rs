//! Times matrix multiplications: `cargo bench matmul`.
//!
//! Measures every shape of `benches/src/matmul.rs` in every type: `[m, k]` times the transpose of `[n, k]`, with random
//! normal numbers. The result is checked first. On a GPU the time is the device's: events around CUDA graphs whose launches
//! rotate through cold sets of matrices. The medians go into `matmul.json` in criterion's folder, with clocks and power.
//! Without a GPU, small shapes are timed on the CPU, in `f32` against the crate `matrixmultiply`.
//!
//! A GPU's clock depends on what ran before, so contenders should be timed in turns. `--serve` lets
//! `benches/peers/matmul.py` do that: the bench reads `prepare NAME TYPE M N K` and `time NAME` from standard input, and
//! answers with a line: error and kernels, seconds, or `error` and the reason. NAME is `matmul` or a rung of the ladder.
//!
//! `--sweep N` times the N kernels that the model of [`KernelChoice`] ranks first at each shape, for `matmul-sweep.json`.
//!
//! `cargo bench matmul -- bf16` selects ids that contain the word, such as `bf16/4096x4096x4096`.

use std::process::ExitCode;

use anyhow::{Context as _, anyhow, bail};
use cuda_std::half::{bf16, f16};
use ferrowarp::Element;
use ferrowarp::device::{Device, DeviceError};
use ferrowarp::matmul::{KernelChoice, Problem};
use ferrowarp::softmax::DeviceProfile;
use ferrowarp_benches::contest::{Bench, Contender, TFLOPS};
use ferrowarp_benches::matmul::{
    CPU_SHAPES, SHAPES, Shape, Timed, Type, prepare, prepare_kernels, prepare_rung, problem, sweep,
};
use ferrowarp_benches::results::Results;
use ferrowarp_benches::serve::Prepared;
use gpu_kernels::ladders::matmul::ladder::RUNGS;

fn main() -> ExitCode {
    let rungs = || RUNGS.iter().map(|rung| rung.name).collect();
    let bench = Bench { name: "matmul", unit: TFLOPS, contenders, prepare: prepared, rungs };
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(at) = arguments.iter().position(|argument| argument == "--sweep") else { return bench.main() };
    let most = arguments.get(at + 1).and_then(|most| most.parse().ok());
    let words = arguments.iter().enumerate().filter(|(i, _)| *i != at + 1);
    let filter = bench.filter(words.map(|(_, word)| word.as_str()));
    bench.on_device(|device| {
        let most = most.ok_or_else(|| anyhow!("--sweep needs a number of kernels, such as --sweep 20"))?;
        sweep_all(device, filter, most)
    })
}

fn shapes(device: &Device) -> &'static [Shape] {
    if device.is_cuda() { &SHAPES } else { &CPU_SHAPES }
}

fn contenders(device: &Device) -> Vec<Contender<Shape>> {
    let contender = |ty: Type, shape: Shape| Contender {
        id: format!("{}/{shape}", ty.name()),
        name: "matmul".to_owned(),
        dtype: ty,
        shape,
        work: shape.operations(),
        prepare: Box::new(move |device| Ok((prepare(device, ty, shape)?, kernels(device, ty, shape)?))),
    };
    let ours =
        Type::ALL.into_iter().flat_map(|ty| shapes(device).iter().map(move |&shape| contender(ty, shape)));
    let peers = CPU_SHAPES.iter().filter(|_| !device.is_cuda()).map(|&shape| Contender {
        id: format!("f32/{shape}/matrixmultiply"),
        name: "matrixmultiply".to_owned(),
        prepare: Box::new(move |_| Ok((Box::new(MatrixMultiply(shape)), "matrixmultiply".to_owned()))),
        ..contender(Type::F32, shape)
    });
    ours.chain(peers).collect()
}

/// Times the `most` first-ranked kernels at each shape. Returns the failures.
fn sweep_all(device: &Device, filter: &str, most: usize) -> anyhow::Result<Vec<String>> {
    let mut results = Results::new(device)?;
    let mut failed = Vec::new();
    let of_type =
        |ty: Type| shapes(device).iter().map(move |&shape| (ty, shape, format!("{}/{shape}", ty.name())));
    for (ty, shape, id) in Type::ALL.into_iter().flat_map(of_type).filter(|(.., id)| id.contains(filter)) {
        match sweep(device, ty, shape, most) {
            Ok(entries) => {
                let least = entries.iter().map(|entry| entry.microseconds).fold(f64::INFINITY, f64::min);
                if let Some((first, best)) =
                    entries.first().zip(entries.iter().find(|entry| entry.microseconds == least))
                {
                    let over = first.microseconds / least;
                    println!(
                        "{id:30} {:10.2} us {} ({over:.2} x {least:.2} us {})",
                        first.microseconds, first.kernels, best.kernels
                    );
                }
                results.entries.extend(entries);
            }
            Err(error) => failed.push(format!("{id}: {error:#}")),
        }
    }
    eprintln!("wrote {}", results.write("matmul-sweep.json")?.display());
    Ok(failed)
}

/// The kernels that the operation chooses.
fn kernels(device: &Device, ty: Type, shape: Shape) -> anyhow::Result<String> {
    fn chosen<T: Element>(device: &Device, problem: &Problem) -> anyhow::Result<String> {
        Ok(KernelChoice::<T>::new(&DeviceProfile::from(device), problem)?.to_string())
    }
    let problem = problem(ty, shape);
    match ty {
        Type::Bf16 => chosen::<bf16>(device, &problem),
        Type::F16 => chosen::<f16>(device, &problem),
        Type::Tf32 | Type::F32 => chosen::<f32>(device, &problem),
    }
}

/// Prepares a request's type, rows, columns and terms.
fn prepared(device: &Device, name: &str, words: &[&str]) -> anyhow::Result<Prepared> {
    let [ty, m, n, k] = words else { bail!("send `prepare NAME TYPE M N K`") };
    let ty = Type::from_name(ty).with_context(|| format!("no type {ty}; pass bf16, f16, tf32 or f32"))?;
    let shape = Shape { m: m.parse()?, n: n.parse()?, k: k.parse()? };
    Ok(match RUNGS.iter().find(|rung| rung.name == name) {
        Some(rung) => (prepare_rung(device, rung, shape)?, rung.kernel.meta.name.to_owned()),
        None if name != "matmul" => (prepare_kernels(device, ty, shape, name)?, name.to_owned()),
        None => (prepare(device, ty, shape)?, kernels(device, ty, shape)?),
    })
}

/// A multiplication with the crate `matrixmultiply`, on all cores.
struct MatrixMultiply(Shape);

impl Timed for MatrixMultiply {
    fn time(&mut self) -> Result<f64, DeviceError> {
        let Shape { m, n, k } = self.0;
        let numbers = |len: usize| (0..len).map(|i| (i % 17) as f32 - 8.0).collect::<Vec<_>>();
        let (a, b, mut out) = (numbers(m * k), numbers(n * k), vec![0.0f32; m * n]);
        let start = std::time::Instant::now();
        // SAFETY: the slices have these shapes, and B is the transpose of `[n, k]`.
        unsafe {
            let (a, b, out) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
            matrixmultiply::sgemm(m, k, n, 1.0, a, k as isize, 1, b, 1, k as isize, 0.0, out, n as isize, 1);
        }
        Ok(start.elapsed().as_secs_f64())
    }

    fn sets(&self) -> usize {
        1
    }

    fn relative_error(&self) -> f64 {
        0.0
    }
}
