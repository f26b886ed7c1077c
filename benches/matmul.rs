//! Times matrix multiplications: `cargo bench matmul`.
//!
//! Every shape of `benches/src/matmul.rs` in every type, `[m, k]` by the transpose of `[n, k]`, of random normal numbers. The
//! result is checked before it is timed. On a GPU the time is the device's own, by events around CUDA graphs whose launches
//! take cold sets of matrices in turns, and the medians go into `matmul.json` in criterion's folder with clocks and power.
//! Without a GPU it times small shapes on the CPU, in `f32` against the crate `matrixmultiply`.
//!
//! A GPU's clock depends on what ran before, so contenders are to be timed in turns. `--serve` lets another program do that,
//! `benches/peers/matmul.py`: it reads requests such as `prepare NAME TYPE M N K` and `time NAME` from standard input, and
//! answers each with a line: error and kernels, seconds, or `error` and what went wrong. NAME is `matmul` or a rung of the ladder.
//!
//! `--sweep N` times the N kernels that the model of [`KernelChoice`] ranks first at each shape, for `matmul-sweep.json`: to
//! see where the model errs.
//!
//! `cargo bench matmul -- bf16` takes the types and shapes that have the word in their id, such as `bf16/4096x4096x4096`.

use std::process::{Command, ExitCode};

use anyhow::{Context as _, anyhow, bail};
use cuda_std::half::{bf16, f16};
use ferrowarp::device::{Device, DeviceChoice, open};
use ferrowarp::matmul::{KernelChoice, Problem, Real};
use ferrowarp::softmax::DeviceProfile;
use ferrowarp_benches::exit_code;
use ferrowarp_benches::matmul::{
    CPU_SHAPES, MatmulEntry, SHAPES, Shape, Timed, Type, prepare, prepare_kernels, prepare_rung, problem,
    sweep,
};
use ferrowarp_benches::results::{Results, median};
use ferrowarp_benches::serve::{Prepared, serve};
use gpu_kernels::matmul::ladder::RUNGS;

/// Batches whose median is taken.
const SAMPLES: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_server = arguments.iter().any(|argument| argument == "--serve");
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let sweep_at = arguments.iter().position(|argument| argument == "--sweep");
    let sweep_most = sweep_at.and_then(|at| arguments.get(at + 1)?.parse().ok());
    let words = arguments.iter().enumerate().filter(|(i, _)| sweep_at.is_none_or(|at| *i != at + 1));
    let mut words = words.map(|(_, word)| word.as_str()).filter(|word| !word.starts_with("--"));
    let filter = words.next().unwrap_or_default();
    // The name of the bench is what `cargo bench` itself selects by.
    let filter = if filter == "matmul" { "" } else { filter };
    let (device, why) = match open(DeviceChoice::Auto) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("cannot bench: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    eprintln!("{why}");
    exit_code(match (is_server, sweep_at, sweep_most) {
        (true, ..) => serve(|name, words| prepared(&device, name, words), rungs).map(|()| Vec::new()),
        (_, Some(_), Some(most)) => sweep_all(&device, filter, most),
        (_, Some(_), None) => Err(anyhow!("--sweep needs a number of kernels, such as --sweep 20")),
        _ => run(&device, filter, is_test),
    })
}

/// The shapes that have `filter` in their ids, on this device.
fn selected(device: &Device, filter: &str) -> Vec<(Type, Shape)> {
    let shapes: &[Shape] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
    let all = Type::ALL.into_iter().flat_map(|ty| shapes.iter().map(move |&shape| (ty, shape)));
    all.filter(|(ty, shape)| format!("{}/{shape}", ty.name()).contains(filter)).collect()
}

/// Times the first `most` kernels at each shape; what failed.
fn sweep_all(device: &Device, filter: &str, most: usize) -> anyhow::Result<Vec<String>> {
    let mut results = Results::new(device)?;
    let mut failed = Vec::new();
    for (ty, shape) in selected(device, filter) {
        match sweep(device, ty, shape, most) {
            Ok(entries) => {
                let least = entries.iter().map(|entry| entry.microseconds).fold(f64::INFINITY, f64::min);
                if let Some((first, best)) =
                    entries.first().zip(entries.iter().find(|entry| entry.microseconds == least))
                {
                    let id = format!("{}/{shape}", ty.name());
                    let over = first.microseconds / least;
                    println!(
                        "{id:30} {:10.2} us {} ({over:.2} x {least:.2} us {})",
                        first.microseconds, first.kernels, best.kernels
                    );
                }
                results.entries.extend(entries);
            }
            Err(error) => failed.push(format!("{}/{shape}: {error:#}", ty.name())),
        }
    }
    eprintln!("wrote {}", results.write("matmul-sweep.json")?.display());
    Ok(failed)
}

/// Times all that has `filter` in its id; what failed.
fn run(device: &Device, filter: &str, is_test: bool) -> anyhow::Result<Vec<String>> {
    let mut results = Results::new(device)?;
    let mut failed = Vec::new();
    for (ty, shape) in selected(device, filter) {
        let entry = entry(device, ty, shape, if is_test { 1 } else { SAMPLES });
        let id = format!("{}/{shape}", ty.name());
        match (&entry.error, entry.microseconds) {
            (Some(error), _) => failed.push(format!("{id}: {error}")),
            (None, time) => print(&id, shape, time.unwrap_or_default(), entry.kernels.as_deref()),
        }
        results.entries.push(entry);
        if !device.is_cuda() && ty == Type::F32 && !is_test {
            let seconds = matrixmultiply(shape);
            print(&format!("matrixmultiply/{shape}"), shape, seconds * 1e6, None);
        }
    }
    if !is_test {
        eprintln!("wrote {}", results.write("matmul.json")?.display());
    }
    Ok(failed)
}

fn print(id: &str, Shape { m, n, k }: Shape, microseconds: f64, kernels: Option<&str>) {
    let flops = 2.0 * (m * n * k) as f64 / microseconds / 1e6;
    println!("{id:40} {microseconds:12.2} us {flops:10.4} TFLOP/s  {}", kernels.unwrap_or_default());
}

fn entry(device: &Device, dtype: Type, shape @ Shape { m, n, k }: Shape, samples: usize) -> MatmulEntry {
    let mut entry = MatmulEntry {
        name: "matmul".to_owned(),
        dtype,
        m,
        n,
        k,
        kernels: None,
        microseconds: None,
        samples: 0,
        sets: 0,
        relative_error: None,
        clock_and_power: None,
        error: None,
    };
    let timed = || -> anyhow::Result<(String, Box<dyn Timed>, Vec<f64>)> {
        let kernels = kernels(device, dtype, shape)?;
        let mut timed = prepare(device, dtype, shape)?;
        let times = (0..samples).map(|_| timed.time()).collect::<Result<_, _>>()?;
        Ok((kernels, timed, times))
    };
    match timed() {
        Ok((kernels, timed, times)) => {
            entry.kernels = Some(kernels);
            entry.microseconds = Some(median(&times) * 1e6);
            (entry.samples, entry.sets) = (times.len(), timed.sets());
            entry.relative_error = Some(timed.relative_error());
            entry.clock_and_power = device.is_cuda().then(clock_and_power).flatten();
        }
        Err(error) => entry.error = Some(format!("{error:#}")),
    }
    entry
}

/// The kernels that the operation chooses.
fn kernels(device: &Device, ty: Type, shape: Shape) -> anyhow::Result<String> {
    fn chosen<T: Real>(device: &Device, problem: &Problem) -> anyhow::Result<String> {
        Ok(KernelChoice::<T>::new(&DeviceProfile::from(device), problem)?.to_string())
    }
    let problem = problem(ty, shape);
    match ty {
        Type::Bf16 => chosen::<bf16>(device, &problem),
        Type::F16 => chosen::<f16>(device, &problem),
        Type::Tf32 | Type::F32 => chosen::<f32>(device, &problem),
    }
}

/// What `nvidia-smi` reports of the first GPU.
fn clock_and_power() -> Option<[f64; 2]> {
    let query = ["--query-gpu=clocks.sm,power.draw", "--format=csv,noheader,nounits", "--id=0"];
    let output = Command::new("nvidia-smi").args(query).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (clock, power) = text.trim().split_once(',')?;
    Some([clock.trim().parse().ok()?, power.trim().parse().ok()?])
}

/// What a request asks to be prepared: a type, and the rows, columns and terms.
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

/// The names of the rungs, if they are asked for.
fn rungs(request: &str) -> Option<String> {
    let names = || RUNGS.iter().map(|rung| rung.name).collect::<Vec<_>>().join(" ");
    (request == "rungs").then(names)
}

/// Seconds of one multiplication by the crate `matrixmultiply`, on all cores.
fn matrixmultiply(Shape { m, n, k }: Shape) -> f64 {
    let numbers = |len: usize| (0..len).map(|i| (i % 17) as f32 - 8.0).collect::<Vec<_>>();
    let (a, b, mut out) = (numbers(m * k), numbers(n * k), vec![0.0f32; m * n]);
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let start = std::time::Instant::now();
        // SAFETY: the slices have these shapes, and B is the transpose of `[n, k]`.
        unsafe {
            let (a, b, out) = (a.as_ptr(), b.as_ptr(), out.as_mut_ptr());
            matrixmultiply::sgemm(m, k, n, 1.0, a, k as isize, 1, b, 1, k as isize, 0.0, out, n as isize, 1);
        }
        times.push(start.elapsed().as_secs_f64());
    }
    median(&times)
}
