//! `ulp` at a few inputs: every float function runs as both back ends compile it, on the emulator.

use std::path::Path;
use std::process::Command;

use serde::Deserialize;

#[derive(Deserialize)]
struct Report {
    rows: Vec<Row>,
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "a failure shows all of it")]
struct Row {
    function: String,
    float: String,
    by: String,
    error: f64,
    worst: String,
}

/// What is rounded once, or not at all, wherever it runs.
const EXACT: [&str; 16] = [
    "sqrt",
    "floor",
    "ceil",
    "round",
    "trunc",
    "fract",
    "abs",
    "signum",
    "saturate",
    "remainder",
    "rem_euclid",
    "quotient",
    "copysign",
    "mul_add_minus_one",
    "ldexp",
    "scale_by_n",
];

#[test]
fn every_function_runs_and_exact_ones_are_exact() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ulp");
    let json = folder.join("ulp.json");
    let ulp = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_ulp")).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let [folder, file] = [&folder, &json].map(|path| path.to_str().unwrap());
    ulp(&["pack", "--out", folder]);
    ulp(&["run", folder, "--device", "emulator", "--json", file]);
    let report: Report = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    for by in ["nvvm", "llvm", "executor"] {
        assert!(report.rows.iter().filter(|row| row.by == by).count() > 70, "{by}");
    }
    for row in report.rows.iter().filter(|row| EXACT.contains(&row.function.as_str())) {
        // Halves of units are rounded, and `f64` is judged in `f64`.
        let most = if row.float == "f32" { 0.5 } else { 0.0 };
        assert!(row.error <= most, "{row:?}");
    }
}
