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

fn main() -> ExitCode {
    ferrowarp_benches::contest::main::<ferrowarp_benches::norm::Bench>()
}
