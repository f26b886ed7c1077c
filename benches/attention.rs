//! Times attention: `cargo bench attention`.
//!
//! Every shape of `benches/src/attention.rs` in `bf16` and `f16`, of random normal numbers. The result is checked before it is
//! timed. On a GPU the time is the device's own, by events around CUDA graphs whose launches take cold sets of tensors in
//! turns, and the medians go into `attention.json` in criterion's folder. Without a GPU it times small shapes on the CPU.
//!
//! A GPU's clock depends on what ran before, so contenders are to be timed in turns. `--serve` lets another program do that,
//! `benches/peers/attention.py`: it reads requests such as `prepare NAME TYPE SHAPE` and `time NAME` from standard input, and
//! answers each with a line: error and kernel, seconds, or `error` and what went wrong. NAME is `attention` or a rung of the ladder.
//!
//! On a GPU the rungs of the ladder are timed, too, at the shape [`RUNG_SHAPE`].
//!
//! `cargo bench attention -- bf16` takes the types and shapes that have the word in their id, such as
//! `bf16/4x4096x16x16x128-causal`: batch, length, heads, key heads, head size.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use ferrowarp::device::{Device, DeviceChoice, open};
use ferrowarp_benches::attention::{
    AttentionEntry, CPU_SHAPES, RUNG_SHAPE, SHAPES, Shape, TYPES, prepare, prepare_rung,
};
use ferrowarp_benches::exit_code;
use ferrowarp_benches::matmul::Type;
use ferrowarp_benches::results::{Results, median};
use ferrowarp_benches::serve::{Prepared, serve};
use gpu_kernels::attention::ladder::{RUNGS, Rung};

/// Batches whose median is taken.
const SAMPLES: usize = 10;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_server = arguments.iter().any(|argument| argument == "--serve");
    let is_test = arguments.iter().any(|argument| argument == "--test");
    let filter = arguments.iter().find(|argument| !argument.starts_with("--")).map_or("", String::as_str);
    // The name of the bench is what `cargo bench` itself selects by.
    let filter = if filter == "attention" { "" } else { filter };
    let (device, why) = match open(DeviceChoice::Auto) {
        Ok(found) => found,
        Err(error) => {
            eprintln!("cannot bench: {error:#}");
            return ExitCode::FAILURE;
        }
    };
    eprintln!("{why}");
    exit_code(if is_server {
        serve(|name, words| prepared(&device, name, words), rungs).map(|()| Vec::new())
    } else {
        run(&device, filter, is_test)
    })
}

/// What a request asks to be prepared: a type and a shape.
fn prepared(device: &Device, name: &str, words: &[&str]) -> anyhow::Result<Prepared> {
    let [ty, shape] = words else { bail!("send `prepare NAME TYPE SHAPE`") };
    let ty = Type::from_name(ty).with_context(|| format!("no type {ty}; pass bf16 or f16"))?;
    let shape = Shape::from_words(shape)?;
    match RUNGS.iter().find(|rung| rung.name == name) {
        Some(rung) => prepare_rung(device, rung, shape),
        None => prepare(device, ty, shape),
    }
}

/// The names of the rungs, if they are asked for.
fn rungs(request: &str) -> Option<String> {
    let names = || RUNGS.iter().map(|rung| rung.name).collect::<Vec<_>>().join(" ");
    (request == "rungs").then(names)
}

/// What is timed: the operation in a type, or a rung, at a shape.
struct Contender {
    id: String,
    dtype: Type,
    shape: Shape,
    rung: Option<&'static Rung>,
}

/// Everything that has `filter` in its id.
fn contenders(device: &Device, filter: &str) -> Vec<Contender> {
    let shapes: &[Shape] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
    let of_type = |dtype: Type| {
        let contender =
            move |&shape| Contender { id: format!("{}/{shape}", dtype.name()), dtype, shape, rung: None };
        shapes.iter().map(contender)
    };
    let rungs = RUNGS.iter().filter(|_| device.is_cuda()).map(|rung| Contender {
        id: format!("bf16/{RUNG_SHAPE}/{}", rung.name),
        dtype: Type::Bf16,
        shape: RUNG_SHAPE,
        rung: Some(rung),
    });
    let all = TYPES.into_iter().flat_map(of_type).chain(rungs);
    all.filter(|contender| contender.id.contains(filter)).collect()
}

/// Times all that has `filter` in its id; what failed.
fn run(device: &Device, filter: &str, is_test: bool) -> anyhow::Result<Vec<String>> {
    let mut results = Results::new(device)?;
    let mut failed = Vec::new();
    for contender in contenders(device, filter) {
        let entry = entry(device, &contender, if is_test { 1 } else { SAMPLES });
        let Contender { id, shape, .. } = contender;
        match (&entry.error, entry.microseconds) {
            (Some(error), _) => failed.push(format!("{id}: {error}")),
            (None, time) => {
                let (time, kernel) = (time.unwrap_or_default(), entry.kernels.as_deref().unwrap_or_default());
                let speed = shape.operations() / time / 1e6;
                println!("{id:40} {time:12.2} us {speed:10.4} TFLOP/s  {kernel}");
            }
        }
        results.entries.push(entry);
    }
    if !is_test {
        eprintln!("wrote {}", results.write("attention.json")?.display());
    }
    Ok(failed)
}

fn entry(device: &Device, contender: &Contender, samples: usize) -> AttentionEntry {
    let &Contender { dtype, shape, rung, .. } = contender;
    let mut entry = AttentionEntry {
        name: rung.map_or("attention", |rung| rung.name).to_owned(),
        dtype,
        shape,
        kernels: None,
        microseconds: None,
        samples: 0,
        sets: 0,
        relative_error: None,
        error: None,
    };
    let timed = || -> anyhow::Result<(Prepared, Vec<f64>)> {
        let mut prepared = match rung {
            Some(rung) => prepare_rung(device, rung, shape)?,
            None => prepare(device, dtype, shape)?,
        };
        let times = (0..samples).map(|_| prepared.0.time()).collect::<Result<_, _>>()?;
        Ok((prepared, times))
    };
    match timed() {
        Ok(((timed, kernel), times)) => {
            entry.kernels = Some(kernel);
            entry.microseconds = Some(median(&times) * 1e6);
            (entry.samples, entry.sets) = (times.len(), timed.sets());
            entry.relative_error = Some(timed.relative_error());
        }
        Err(error) => entry.error = Some(format!("{error:#}")),
    }
    entry
}
