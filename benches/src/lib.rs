//! Shared parts of the benches: shapes, rotating buffers, timing by graphs, timed training, and the file of medians.

pub mod attention;
pub mod axis;
pub mod collective;
pub mod contest;
pub mod gallery;
pub mod matmul;
pub mod mlp;
pub mod norm;
pub mod random;
pub mod results;
pub mod roofline;
pub mod rotation;
pub mod serve;
pub mod shapes;
pub mod softmax;
pub mod timed;

use std::process::ExitCode;

/// The exit code of a bench. Prints its failures.
pub fn exit_code(result: anyhow::Result<Vec<String>>) -> ExitCode {
    match result {
        Ok(failed) if failed.is_empty() => return ExitCode::SUCCESS,
        Ok(failed) => eprintln!("{} of the benches failed:\n  {}", failed.len(), failed.join("\n  ")),
        Err(error) => eprintln!("the bench broke off: {error:#}"),
    }
    ExitCode::FAILURE
}
