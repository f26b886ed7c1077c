//! Times sums, means, maxima, cumulative sums and transposes: `cargo bench axis`.
//!
//! Measures every shape of `benches/src/axis.rs` in `bf16` and `f32`, with random normal numbers. The result is checked
//! first. On a GPU the time is the device's: events around CUDA graphs whose launches rotate through cold sets of matrices.
//! The medians go into `axis.json` in criterion's folder. Without a GPU, small shapes are timed on the CPU.
//!
//! `--serve` lets `benches/peers/axis.py` time them in turns with others: it sends `prepare NAME TYPE ROWSxCOLS`, where NAME
//! is for example `sum-rows`, `max-columns`, `cumsum` or `transpose`.
//!
//! `cargo bench axis -- bf16` selects ids that contain the word, such as `sum-rows/bf16/32768x1024`.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use ferrowarp::device::Device;
use ferrowarp_benches::axis::{Kind, TYPES, prepare};
use ferrowarp_benches::contest::{Bench, Contender, GBS, RowsAndCols, shape_from_words};
use ferrowarp_benches::matmul::Type;
use ferrowarp_benches::serve::Prepared;

fn main() -> ExitCode {
    Bench { name: "axis", unit: GBS, contenders, prepare: prepared, rungs: Vec::new }.main()
}

fn contenders(device: &Device) -> Vec<Contender<RowsAndCols>> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        for dtype in TYPES {
            for &[rows, cols] in kind.shapes(device.is_cuda()) {
                all.push(Contender {
                    id: format!("{}/{}/{rows}x{cols}", kind.name(), dtype.name()),
                    name: kind.name(),
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
        Kind::from_name(name).with_context(|| format!("no operation {name}; pass sum-rows or cumsum"))?;
    prepare(device, kind, ty, shape_from_words(shape)?)
}
