//! Runs every case of the table on the host and writes down what it makes: `differ-native-crates FILE`.

#[path = "../record.rs"]
mod record;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

/// What outputs hold before.
const SOILED: u8 = 0xab;

fn main() -> ExitCode {
    let Some(file) = std::env::args_os().nth(1) else {
        eprintln!("error: give the file to write the cases to");
        return ExitCode::FAILURE;
    };
    let mut all = Vec::new();
    for entry in differ_crates::table() {
        for (number, input) in (entry.cases)() {
            let mut output = vec![SOILED; entry.output];
            if catch_unwind(AssertUnwindSafe(|| (entry.run)(&input, number, &mut output))).is_err() {
                eprintln!(
                    "error: {} panics in case {number}, which nothing can be compared to",
                    entry.kernel
                );
                return ExitCode::FAILURE;
            }
            record::write(&mut all, entry.kernel, number, &input, &output);
        }
    }
    match std::fs::write(&file, all) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: writing {}: {error}", file.display());
            ExitCode::FAILURE
        }
    }
}
