//! Prints what this machine has for running kernels, what is missing, and which environment variables are wrong; these fail.

use std::process::ExitCode;

fn main() -> ExitCode {
    let report = ferrowarp::device::doctor();
    print!("{report}");
    if report.contains("\nwrong: ") { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
