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

fn main() -> ExitCode {
    ferrowarp_benches::contest::main::<ferrowarp_benches::axis::Bench>()
}
