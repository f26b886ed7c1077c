//! The judge of `cargo xtask learn`: runs a learner's kernel on problems drawn from a seed, on the CPU executor in shuffled
//! orders of its threads and as PTX on the emulator, compares with an oracle, and counts what its warps do.

mod difference;
mod explain;
pub mod judge;
pub mod predictions;
mod problem;
pub mod ptx;
mod puzzles;
mod rules;
mod run;
mod spread;
pub mod text;
pub mod workspace;

use std::path::Path;
use std::process::ExitCode;

use cuda_std::launch::{KernelMeta, kernels_in};
use judge::State;
pub use problem::Puzzle;
pub use puzzles::{PUZZLES, puzzle};

/// The line that [`judge_program`] prints before the verdict, after what the kernel prints.
pub const VERDICT: &str = "----- verdict -----";

/// The kernel of this name in this program.
pub fn kernel(name: &str) -> Option<&'static KernelMeta> {
    kernels_in("").into_iter().find(|meta| meta.name == name)
}

/// The program that judges the kernel linked into it: `judge NUMBER SEED PTX`, where PTX is a file or `-`. Its exit status is
/// that of `exit_code`.
pub fn judge_program() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [number, seed, ptx] = &arguments[..] else { return usage() };
    let (Ok(number), Ok(seed)) = (number.parse(), seed.parse()) else { return usage() };
    let Some(puzzle) = puzzle(number) else { return usage() };
    let Some(meta) = kernel(puzzle.name) else {
        println!("wrong: the file has no kernel `{}`; `reset` gives the file back as it was", puzzle.name);
        return exit_code(State::Wrong);
    };
    let ptx = match (ptx != "-").then(|| ptx::Ptx::read(Path::new(ptx))).transpose() {
        Ok(ptx) => ptx,
        Err(error) => {
            println!("nothing is counted: {error:#}");
            None
        }
    };
    let verdict = judge::judge(puzzle, meta, ptx.as_ref(), seed);
    println!("\n{VERDICT}\n{}", verdict.text);
    exit_code(verdict.state)
}

fn usage() -> ExitCode {
    eprintln!("error: expected judge NUMBER SEED PTX; cargo xtask learn starts this program");
    ExitCode::FAILURE
}

/// The exit status for a verdict: 10 wrong, 11 right, 12 good.
fn exit_code(state: State) -> ExitCode {
    ExitCode::from(10 + state as u8)
}
