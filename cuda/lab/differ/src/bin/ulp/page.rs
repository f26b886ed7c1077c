//! The page `docs/float-accuracy.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, ensure};
use float_kernels::BINARY;

use crate::measure::{Report, Row};

/// Writes the page and the results, those of `path` or, without one, the stored ones.
pub fn write(path: Option<&Path>) -> anyhow::Result<()> {
    let docs =
        Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).context("no repository")?.join("docs");
    let kept = docs.join("results/float-accuracy.json");
    let path = path.unwrap_or(&kept);
    let text = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let report: Report = serde_json::from_slice(&text)
        .with_context(|| format!("{} holds no results of `ulp run`", path.display()))?;
    ensure!(!report.rows.is_empty(), "{} holds no functions", path.display());
    let json = serde_json::to_string_pretty(&report).context("writing the results as JSON")? + "\n";
    for (path, text) in [(kept.clone(), json), (docs.join("float-accuracy.md"), page(&report))] {
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// A table of the page: its title, and a filter for its rows.
type Section = (&'static str, fn(&Row) -> bool);

const SECTIONS: [Section; 5] = [
    ("Functions of one `f32`", |row| row.float == "f32" && !row.is_fast && is_unary(row)),
    ("Approximate functions of `fastmath`, of one `f32`", |row| row.is_fast && is_unary(row)),
    ("Functions of two `f32`", |row| row.float == "f32" && !is_unary(row)),
    ("Functions of one `f64`", |row| row.float == "f64" && is_unary(row)),
    ("Functions of two `f64`", |row| row.float == "f64" && !is_unary(row)),
];

fn is_unary(row: &Row) -> bool {
    !BINARY.iter().any(|binary| binary.name == row.function)
}

fn page(report: &Report) -> String {
    let Report { device, host, cores, date, commit, seconds, rows } = report;
    let mut page = format!(
        "# How exact the float functions are\n\n\
         Errors in units in the last place (ULP) of the exact result, by back end on the GPU, and of the CPU executor. \
         {device}; oracles on {host}, {cores} cores; {seconds} s; {date}, commit {commit}. Default options: no `ftz`, no fast \
         square roots or divisions. Written by `cargo lab ulp page`.\n\n\
         The oracles are functions of `f64` of `std` or of the crate `libm`, evaluated on the host. For functions of one \
         `f32` the GPU evaluates all inputs. Its own function of `f64` picks the worst input of each of 2^18 groups, and the \
         host judges these and every 127th input by the oracle. The executor's are every 127th input. Functions of two \
         numbers and of `f64` are sampled: all pairs of special values, then random ones. For `f64`, the exact result is \
         that of the oracle, which is itself off by up to about 1 ULP, and by much more for Bessel functions of large \
         numbers; on the executor these functions are the host's own.\n\n\
         An error of at most 0.5 is the correctly rounded result. Near a zero of a function the unit is tiny, so that a small \
         absolute error is many units: that is what the Bessel functions and `log_gamma` show. Infinity counts as one unit \
         above the largest number. `_ftz` is held against oracles that take subnormal inputs and results for zero. The \
         last column counts the results that are NaN where the exact result is not, or the reverse, or a zero of the other \
         sign, and gives one.\n"
    );
    // Writing to a String cannot fail.
    for (title, is_in) in SECTIONS {
        let of_section: Vec<&Row> = rows.iter().filter(|row| is_in(row)).collect();
        if of_section.is_empty() {
            continue;
        }
        let _ = write!(
            page,
            "\n## {title}\n\nOn the GPU: {}.\n\n\
             | function | nvvm | llvm | executor | worst on the GPU | other class: nvvm, llvm, executor |\n\
             | --- | ---: | ---: | ---: | --- | --- |\n",
            inputs(&of_section)
        );
        let mut written = BTreeSet::new();
        for row in &of_section {
            if written.insert(&row.function) {
                let of_function: Vec<&Row> =
                    of_section.iter().copied().filter(|other| other.function == row.function).collect();
                let _ = writeln!(page, "{}", line(&row.function, &of_function));
            }
        }
    }
    page
}

/// The number of inputs.
fn inputs(rows: &[&Row]) -> String {
    let on_gpu: Vec<&&Row> = rows.iter().filter(|row| row.by != "executor").collect();
    let least = on_gpu.iter().map(|row| row.inputs).min().unwrap_or_default();
    if !on_gpu.is_empty() && on_gpu.iter().all(|row| row.is_exhaustive) {
        return "exhaustive, all 2^32 inputs".to_owned();
    }
    format!("sampled, {least} inputs")
}

fn line(function: &str, rows: &[&Row]) -> String {
    let by = |name: &str| rows.iter().find(|row| row.by == name);
    let error = |name: &str| by(name).map_or("-".to_owned(), |row| shown(row.error));
    let on_gpu = rows.iter().filter(|row| row.by != "executor");
    let worst = on_gpu.max_by(|a, b| a.error.total_cmp(&b.error)).map_or("", |row| &row.worst);
    let others = ["nvvm", "llvm", "executor"].map(|name| by(name).map_or(0, |row| row.others));
    let example = rows.iter().find(|row| row.others > 0).map(|row| format!(": `{}`", row.other));
    let others = match example {
        Some(example) => format!("{}, {}, {}{example}", others[0], others[1], others[2]),
        None => String::new(),
    };
    let worst = if worst.is_empty() { String::new() } else { format!("`{worst}`") };
    format!(
        "| `{function}` | {} | {} | {} | {worst} | {others} |",
        error("nvvm"),
        error("llvm"),
        error("executor")
    )
}

fn shown(error: f64) -> String {
    match error {
        0.0 => "0".to_owned(),
        _ if error < 1000.0 => format!("{error:.3}"),
        _ => format!("{error:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(function: &str, by: &str, error: f64) -> Row {
        let worst = format!("{function}(1e0) = 2e0, exactly 3e0");
        let (function, by, float) = (function.to_owned(), by.to_owned(), "f32".to_owned());
        Row { function, by, float, error, worst, inputs: 1 << 32, is_exhaustive: true, ..Row::default() }
    }

    #[test]
    fn a_function_is_a_line_with_the_errors_of_all() {
        let mut rows = vec![row("sin", "nvvm", 0.6), row("sin", "llvm", 1234.0), row("sin", "executor", 0.0)];
        rows[2].others = 7;
        rows[2].other = "sin(0e0) = NaN, exactly 0e0".to_owned();
        let page = page(&Report { rows, ..Report::default() });
        let line = "| `sin` | 0.600 | 1.2e3 | 0 | `sin(1e0) = 2e0, exactly 3e0` | 0, 0, 7: `sin(0e0) = NaN, exactly 0e0` |";
        assert!(page.contains(line), "{page}");
        assert!(
            page.contains("exhaustive, all 2^32 inputs") && !page.contains("fastmath`, of one"),
            "{page}"
        );
    }

    #[test]
    fn samples_are_not_called_exhaustive() {
        let mut sampled = row("powf", "nvvm", 0.5);
        (sampled.is_exhaustive, sampled.inputs) = (false, 77);
        assert_eq!(inputs(&[&sampled]), "sampled, 77 inputs");
    }
}
