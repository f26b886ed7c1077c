//! Times attention: `cargo bench attention`.
//!
//! Measures every shape of `benches/src/attention.rs` in `bf16` and `f16`, with random normal numbers. The result is checked
//! first. On a GPU the time is the device's: events around CUDA graphs whose launches rotate through cold sets of tensors.
//! The medians go into `attention.json` in criterion's folder. Without a GPU, small shapes are timed on the CPU.
//!
//! A GPU's clock depends on what ran before, so contenders should be timed in turns. `--serve` lets
//! `benches/peers/attention.py` do that: the bench reads `prepare NAME TYPE SHAPE` and `time NAME` from standard input, and
//! answers with a line: error and kernel, seconds, or `error` and the reason. NAME is `attention`, a rung of the ladder, or a
//! kernel to use instead of the chosen one.
//!
//! On a GPU, the rungs of the ladder are timed, too, at the shape [`RUNG_SHAPE`].
//!
//! `cargo bench attention -- bf16` selects ids that contain the word, such as `bf16/4x4096x16x16x128-causal`: type, batch,
//! length, heads, key heads, head size.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use ferrowarp::device::Device;
use ferrowarp_benches::attention::{CPU_SHAPES, RUNG_SHAPE, SHAPES, Shape, TYPES, prepare, prepare_rung};
use ferrowarp_benches::contest::{Bench, Contender, TFLOPS};
use ferrowarp_benches::matmul::Type;
use ferrowarp_benches::serve::Prepared;
use gpu_kernels::ladders::attention::RUNGS;

fn main() -> ExitCode {
    let rungs = || RUNGS.iter().map(|rung| rung.name).collect();
    Bench { name: "attention", unit: TFLOPS, contenders, prepare: prepared, rungs }.main()
}

fn contenders(device: &Device) -> Vec<Contender<Shape>> {
    let shapes: &[Shape] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
    let of_type = |dtype: Type| {
        shapes.iter().map(move |&shape| Contender {
            id: format!("{}/{shape}", dtype.name()),
            name: "attention".to_owned(),
            dtype,
            shape,
            work: shape.operations(),
            prepare: Box::new(move |device| prepare(device, dtype, shape, None)),
        })
    };
    let rungs = RUNGS.iter().filter(|_| device.is_cuda()).map(|rung| Contender {
        id: format!("bf16/{RUNG_SHAPE}/{}", rung.name),
        name: rung.name.to_owned(),
        dtype: Type::Bf16,
        shape: RUNG_SHAPE,
        work: RUNG_SHAPE.operations(),
        prepare: Box::new(move |device| prepare_rung(device, rung, RUNG_SHAPE)),
    });
    TYPES.into_iter().flat_map(of_type).chain(rungs).collect()
}

/// Prepares a request's type and shape.
fn prepared(device: &Device, name: &str, words: &[&str]) -> anyhow::Result<Prepared> {
    let [ty, shape] = words else { bail!("send `prepare NAME TYPE SHAPE`") };
    let ty = Type::from_name(ty).with_context(|| format!("no type {ty}; pass bf16 or f16"))?;
    let shape = Shape::from_words(shape)?;
    match RUNGS.iter().find(|rung| rung.name == name) {
        Some(rung) => prepare_rung(device, rung, shape),
        None => prepare(device, ty, shape, Some(name).filter(|name| *name != "attention")),
    }
}
