//! Times random problems of every operation: `cargo bench random -- --seed N --problems K`.
//!
//! Each problem of every operation is drawn from the seed: its shape (half of them those of models), type, layout in memory, mask,
//! and what follows it. The result is checked first. On a GPU the time is the device's: CUDA graphs whose launches rotate
//! through cold sets of operands. `--family NAME` draws problems of one family. Without a GPU
//! the problems are small, and run on the CPU executor.
//!
//! `--every` times all kernels that can do each problem, and prints a line of JSON. `--model FILE` reads such lines about
//! matrix multiplications, and compares what the model chooses now with the fastest, without a GPU.
//!
//! With `--serve` it lets `benches/peers/random.py` time the problems in turns with PyTorch.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferrowarp_benches::random::main()
}
