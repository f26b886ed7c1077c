//! The tables of a matmul run: every figure, and the steps of the ladder.

use std::fmt::Write as _;

use crate::report::matmul::{COPY, Contest, DTYPES, Entry, PEERS, Results};
use crate::report::softmax::tables::{percent, time};
use crate::report::softmax::targets::geometric_mean;
use crate::report::stale;
use crate::report::{row, times};

/// Rows of A up to which memory bandwidth limits the speed.
const FEW: usize = 64;

/// The sections of the ladder's page, by name.
pub fn ladder(all: &[Results]) -> Vec<(String, String)> {
    let Some(results) = all.first() else { return Vec::new() };
    let rungs = rungs(results);
    let mut sections: Vec<(String, String)> = Vec::new();
    for (i, name) in rungs.iter().enumerate() {
        let below = i.checked_sub(1).map(|i| rungs[i]);
        sections.push(((*name).to_owned(), rung(results, name, below)));
    }
    let has_f32 = |results: &Results| !results.contests("f32").is_empty();
    let has_copy = |results: &Results| results.peers.iter().any(|entry| entry.name == COPY);
    sections.push(("three_products".to_owned(), of_first(all, has_f32, three_products)));
    sections.push(("few_rows".to_owned(), of_first(all, has_copy, few_rows)));
    sections.push(("measured".to_owned(), format!("Measured on: {}.\n", results.provenance())));
    sections
}

/// A section of the first GPU that has figures for it. The page names the GPU if it is not that of the other sections.
fn of_first(
    all: &[Results],
    has_it: impl Fn(&Results) -> bool,
    section: impl Fn(&Results) -> String,
) -> String {
    match all.iter().position(has_it) {
        Some(i) if i > 0 => format!("Measured on: {}.\n\n", all[i].provenance()) + &section(&all[i]),
        _ => section(&all[0]),
    }
}

/// The names of the rungs, lowest first.
fn rungs(results: &Results) -> Vec<&str> {
    let mut names: Vec<&str> =
        results.ours.iter().filter(|entry| entry.is_rung()).map(|entry| entry.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn head(cells: &[&str], left: usize) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
    let lines: Vec<String> =
        (0..cells.len()).map(|i| if i < left { "---" } else { "---:" }.to_owned()).collect();
    row(&cells) + &row(&lines)
}

fn time_of(entry: &Entry) -> String {
    entry.microseconds.map_or_else(|| "failed".to_owned(), time)
}

fn tflops(entry: &Entry) -> String {
    entry.tflops().map_or_else(String::new, |rate| {
        if rate < 99.5 { format!("{rate:.1}") } else { format!("{rate:.0}") }
    })
}

/// The table of one rung.
fn rung(results: &Results, name: &str, below: Option<&str>) -> String {
    let over = below
        .map_or_else(String::new, |below| format!("times as fast as {}", below.get(..3).unwrap_or(below)));
    let mut text = head(&["bf16", "time", "TFLOP/s", &over, "cuBLASLt's time over it", "clock", "power"], 1);
    for contest in results.contests("bf16") {
        let Some(entry) = contest.of(name) else { continue };
        let Some(microseconds) = entry.microseconds else {
            text += &row(&[
                entry.shape(),
                "failed".to_owned(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
            continue;
        };
        let step = below.and_then(|below| contest.ratio(below, name));
        let [clock, power] = clock_and_power(entry);
        text += &row(&[
            entry.shape(),
            time(microseconds),
            tflops(entry),
            times(step),
            times(contest.ratio(PEERS[0].0, name)),
            clock,
            power,
        ]);
    }
    text
}

fn clock_and_power(entry: &Entry) -> [String; 2] {
    match entry.clock_and_power {
        Some([clock, power]) => [format!("{clock:.0} MHz"), format!("{power:.0} W")],
        None => [String::new(), String::new()],
    }
}

/// `f32` as three multiplications, against the FP32 units.
fn three_products(results: &Results) -> String {
    let mut text =
        head(&["f32", "time", "TFLOP/s", "cuBLASLt's time over it", "error", "cuBLASLt's error"], 1);
    let large = |contest: &Contest<'_>| contest.ours.extents().iter().all(|&extent| extent >= 1024);
    for contest in results.contests("f32").iter().filter(|contest| large(contest)) {
        let error = |entry: Option<&Entry>| {
            entry
                .and_then(|entry| entry.relative_error)
                .map_or_else(String::new, |error| format!("{error:.1e}"))
        };
        text += &row(&[
            contest.ours.shape(),
            time_of(contest.ours),
            tflops(contest.ours),
            times(contest.lead(PEERS[0].0)),
            error(Some(contest.ours)),
            error(contest.of(PEERS[0].0)),
        ]);
    }
    text + "\nThe error is the root of the mean square of the differences from `f64`, over that of the results.\n"
}

/// Multiplications with few rows, against a copy.
fn few_rows(results: &Results) -> String {
    let mut text =
        head(&["shape", "dtype", "time", "GB/s", "of the copy's GB/s", "cuBLASLt's time over it"], 2);
    for dtype in DTYPES {
        for contest in results.contests(dtype).iter().filter(|contest| contest.ours.m <= FEW) {
            let rate = contest.ours.gigabytes_per_second();
            text += &row(&[
                contest.ours.shape(),
                dtype.to_owned(),
                time_of(contest.ours),
                rate.map_or_else(String::new, |rate| format!("{rate:.0}")),
                percent(contest.share_of_copy()),
                times(contest.lead(PEERS[0].0)),
            ]);
        }
    }
    text
}

/// Whether a shape is in a group.
type IsIn = fn(&Entry) -> bool;

/// Groups of shapes with their own means.
const GROUPS: [(&str, IsIn); 4] = [
    ("all shapes", |_| true),
    ("squares from 1024", |entry| {
        entry.m == entry.n && entry.n == entry.k && entry.m >= 1024 && entry.m % 512 == 0
    }),
    ("few rows, up to 64", |entry| entry.m <= FEW),
    ("rows not at 16 bytes", |entry| !entry.k.is_multiple_of(8) || !entry.n.is_multiple_of(8)),
];

/// The page with every figure.
pub fn full(results: &Results) -> String {
    let mut text = format!(
        "# Matrix multiplication on an {}: all figures\n\n{}.",
        results.machine,
        results.provenance()
    );
    if !results.changed_since.is_empty() {
        let _ = write!(text, " {}", stale::note(&results.changed_since));
    }
    text += "\n\n`out[m, n] = A[m, k] B[n, k]^T` of normal random numbers, with a cold L2. A shape's contenders take turns, and each \
             time is the median of the rounds, by events around CUDA graphs. A ratio is the peer's time over ours: over 1 means \
             that ours is faster. Clock and power are those of `nvidia-smi` right after our turn. Of `f32`, the peers use the \
             FP32 units, and ours takes three products of TF32. cuBLASLt is the fastest of up to eight algorithms that its \
             heuristics propose, with 32 MiB of workspace. Written by `cargo xtask report matmul`.\n";
    let _ = writeln!(
        text,
        "\n![TFLOP/s of squares](../{}.svg)\n",
        crate::report::stem("matmul", &results.machine)
    );
    text +=
        "## Summary\n\nThe fastest peer's time over ours: geometric mean, least, and number of shapes.\n\n";
    text += &head(&["dtype", "shapes", "mean", "least", "at", "shapes compared"], 2);
    for dtype in DTYPES {
        let contests = results.contests(dtype);
        for (name, is_in) in GROUPS {
            let of_group = contests.iter().filter(|contest| is_in(contest.ours));
            let leads: Vec<(f64, String)> = of_group
                .filter_map(|contest| Some((contest.least_lead()?.0, contest.ours.shape())))
                .collect();
            let Some(least) = leads.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
            let mean = geometric_mean(&leads.iter().map(|lead| lead.0).collect::<Vec<_>>());
            text += &row(&[
                dtype.to_owned(),
                name.to_owned(),
                times(mean),
                times(Some(least.0)),
                least.1.clone(),
                leads.len().to_string(),
            ]);
        }
    }
    for dtype in DTYPES {
        let contests = results.contests(dtype);
        if !contests.is_empty() {
            let _ = write!(text, "\n## {dtype}\n\n{}", of_type(&contests));
        }
    }
    text += "\n## Few rows\n\n";
    text += &few_rows(results);
    text += "\nBandwidth counts every matrix once, and that of the copy counts B once for reading and once for writing.\n";
    let rungs = rungs(results);
    if !rungs.is_empty() {
        text += "\n## The ladder\n\n";
        text += &head(&["bf16", "rung", "time", "TFLOP/s", "cuBLASLt's time over it"], 2);
        for contest in results.contests("bf16") {
            for entry in rungs.iter().filter_map(|name| contest.of(name)) {
                let lead = contest.ratio(PEERS[0].0, &entry.name);
                text +=
                    &row(&[entry.shape(), entry.name.clone(), time_of(entry), tflops(entry), times(lead)]);
            }
        }
    }
    let mut failures = String::new();
    for entry in results.ours.iter().chain(&results.peers) {
        if let Some(error) = entry
            .error
            .as_deref()
            .filter(|error| !error.contains("for at most") && !error.contains("for 16-bit"))
        {
            let first = error.lines().next().unwrap_or_default();
            let _ = writeln!(failures, "- {}, {} {}: {first}", entry.name, entry.dtype, entry.shape());
        }
    }
    let failures = if failures.is_empty() { "Nothing.\n" } else { &failures };
    let _ = write!(text, "\n## What failed or was left out\n\n{failures}");
    text
}

/// Every shape of a type.
fn of_type(contests: &[Contest<'_>]) -> String {
    let has = |name: &str| contests.iter().any(|contest| contest.lead(name).is_some());
    let peers: Vec<(&str, &str)> = PEERS.into_iter().filter(|(name, _)| has(name)).collect();
    let mut names = vec!["shape", "kernels", "time", "TFLOP/s"];
    names.extend(peers.iter().map(|(_, shown)| *shown));
    names.extend(["clock", "power"]);
    let mut text = head(&names, 2);
    for contest in contests {
        let ours = contest.ours;
        let kernels = ours.kernels.as_deref().unwrap_or_default();
        let mut cells = vec![ours.shape(), format!("`{kernels}`"), time_of(ours), tflops(ours)];
        cells.extend(peers.iter().map(|(name, _)| times(contest.lead(name))));
        cells.extend(clock_and_power(ours));
        text += &row(&cells);
    }
    text
}
