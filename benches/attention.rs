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
//! On a GPU, the rungs of the ladder are timed, too, at one shape.
//!
//! `cargo bench attention -- bf16` selects ids that contain the word, such as `bf16/4x4096x16x16x128-causal`: type, batch,
//! length, heads, key heads, head size.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrowarp_benches::contest::main::<ferrowarp_benches::attention::Bench>()
}
