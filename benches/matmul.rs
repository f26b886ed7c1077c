//! Times matrix multiplications: `cargo bench matmul`.
//!
//! Measures every shape of `benches/src/matmul.rs` in every type: `[m, k]` times the transpose of `[n, k]`, with random
//! normal numbers. The result is checked first. On a GPU the time is the device's: events around CUDA graphs whose launches
//! rotate through cold sets of matrices. The medians go into `matmul.json` in criterion's folder, with clocks and power.
//! Without a GPU, small shapes are timed on the CPU, in `f32` against the crate `matrixmultiply`.
//!
//! A GPU's clock depends on what ran before, so contenders should be timed in turns. `--serve` lets
//! `benches/peers/matmul.py` do that: the bench reads `prepare NAME TYPE M N K` and `time NAME` from standard input, and
//! answers with a line: error and kernels, seconds, or `error` and the reason. NAME is `matmul`, a rung of the ladder, or
//! kernels to use instead of the chosen ones.
//!
//! `cargo bench matmul -- bf16` selects ids that contain the word, such as `bf16/4096x4096x4096`.

use std::process::ExitCode;

use ferrowarp_benches::contest;
use ferrowarp_benches::matmul::Bench;

fn main() -> ExitCode {
    contest::main::<Bench>()
}
