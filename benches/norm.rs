//! Times RMSNorm and LayerNorm, forward and backward: `cargo bench norm`.
//!
//! Measures every shape of `benches/src/norm.rs` in `bf16` and `f32`, with random normal numbers. The result is checked
//! first. On a GPU the time is the device's: events around CUDA graphs that rotate through cold sets of matrices. The
//! medians go into `norm.json` in criterion's folder. Without a GPU, small shapes are timed on the CPU.
//!
//! `--serve` lets `benches/peers/norm.py` time them in turns with others: it sends `prepare NAME TYPE ROWSxCOLS`. NAME is
//! `rms`, `rms-backward`, `layer` or `layer-backward`.
//!
//! `cargo bench norm -- bf16` selects ids that contain the word, such as `rms/bf16/32768x4096`.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use ferrowarp::device::Device;
use ferrowarp_benches::contest::{Bench, Contender, GBS, RowsAndCols, shape_from_words};
use ferrowarp_benches::matmul::Type;
use ferrowarp_benches::norm::{CPU_SHAPES, Kind, SHAPES, TYPES, prepare};
use ferrowarp_benches::serve::Prepared;

fn main() -> ExitCode {
    Bench { name: "norm", unit: GBS, contenders, prepare: prepared, rungs: Vec::new }.main()
}

fn contenders(device: &Device) -> Vec<Contender<RowsAndCols>> {
    let shapes: &[[usize; 2]] = if device.is_cuda() { &SHAPES } else { &CPU_SHAPES };
    let mut all = Vec::new();
    for kind in Kind::ALL {
        for dtype in TYPES {
            for &[rows, cols] in shapes {
                all.push(Contender {
                    id: format!("{}/{}/{rows}x{cols}", kind.name(), dtype.name()),
                    name: kind.name().to_owned(),
                    dtype,
                    shape: RowsAndCols { rows, cols },
                    work: kind.bytes(dtype, [rows, cols]),
                    prepare: Box::new(move |device| prepare(device, kind, dtype, [rows, cols])),
                });
            }
        }
    }
    all
}

/// Prepares a request's type, rows and columns.
fn prepared(device: &Device, name: &str, words: &[&str]) -> anyhow::Result<Prepared> {
    let [ty, shape] = words else { bail!("send `prepare NAME TYPE ROWSxCOLS`") };
    let ty = Type::from_name(ty).with_context(|| format!("no type {ty}; pass bf16, f16 or f32"))?;
    let kind =
        Kind::from_name(name).with_context(|| format!("no norm {name}; pass rms or layer-backward"))?;
    prepare(device, kind, ty, shape_from_words(shape)?)
}
