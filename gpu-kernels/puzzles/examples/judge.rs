//! Judges the reader's kernel: `cargo xtask learn check` builds and starts it.

// The linker keeps the kernels of the crate only if something names it.
use puzzles as _;

fn main() -> std::process::ExitCode {
    ferrowarp_learn::judge_program()
}
