//! Matrix multiplication, and the rungs of its ladder.

use crate::chart::{Chart, Guide};
use crate::pages::charts::{bars, lines};
use crate::pages::rows::TURNS;
use crate::report::{
    Contest, Results, Subject, Timed, clock_and_power, ladder, number_of, or_empty, peaks, percent, table,
    time, times,
};

/// The page about the ladder.
const PAGE: &str = "docs/matmul-ladder.md";

/// The types, in the order of the tables.
const DTYPES: [&str; 4] = ["bf16", "f16", "tf32", "f32"];

/// The peer in the tables of the ladder.
const CUBLAS: &str = "cublaslt";

/// Rows of A up to which memory bandwidth limits the speed.
const FEW: f64 = 64.0;

/// The square of the chart's title and bars.
const SQUARE: [(&str, &str); 3] = [("m", "8192"), ("n", "8192"), ("k", "8192")];

pub const MATMUL: Subject = Subject {
    name: "matmul",
    title: "Matrix multiplication",
    about: "`out[m, n] = A[m, k] B[n, k]^T` of normal random numbers. The contenders of a problem take turns. Clock and power are those \
            of `nvidia-smi` right after our turn. Of `f32`, the peers use the FP32 units, and ours takes three products of TF32. \
            cuBLASLt is the fastest of up to eight algorithms that its heuristics propose, with 32 MiB of workspace. An error is the \
            root of the mean square of the differences from `f64`, over that of the results. The copy reads and writes B.",
    is_ours: |entry| entry.name == "matmul",
    peers: &[(CUBLAS, "cuBLASLt"), ("torch", "PyTorch"), ("triton", "Triton"), ("compile", "torch.compile")],
    rows: &["m", "n", "k"],
    groups: &[
        ("squares from 1024", |entry| {
            let [m, n, k] = extents(entry);
            m == n && n == k && m >= 1024.0 && m % 512.0 == 0.0
        }),
        ("few rows, up to 64", is_few),
        ("rows not at 16 bytes", |entry| {
            let [_, n, k] = extents(entry);
            k % 8.0 != 0.0 || n % 8.0 != 0.0
        }),
    ],
    unit: "TFLOP/s",
    work: |entry| 2.0 * extents(entry).iter().product::<f64>() / 1e3,
    bytes: |entry| {
        let [m, n, k] = extents(entry);
        entry.element_bytes() * if entry.name == "copy" { 2.0 * n * k } else { m * k + n * k + m * n }
    },
    cached: 64e6,
    peak: |entry, peaks| match (entry.text("dtype").as_str(), is_own(entry)) {
        ("f32", false) => peaks.fp32_tflops,
        // Three TF32 multiplications.
        ("f32", true) => peaks.tensor_tflops / 6.0,
        ("tf32", _) => peaks.tensor_tflops / 2.0,
        _ => peaks.tensor_tflops,
    },
    sources: &["gpu-kernels/ladders/src/matmul", "gpu-kernels/matmul/src", "host/src/matmul"],
    charts: &[("", "TFLOP/s of squares", chart)],
    more: |results| {
        format!(
            "\n## Few rows\n\n{}\nBandwidth counts every matrix once, and that of the copy counts B once for reading and once for \
             writing.\n{}",
            few_rows(results),
            all_rungs(results)
        )
    },
    sections: |all| {
        let results = &all[0];
        let mut sections = ladder(PAGE, "", results, |name, below| rung(results, name, below))?;
        let has_f32 = |entry: &Timed| entry.text("dtype") == "f32";
        for (name, section) in [
            ("three_products", of_first(all, has_f32, three_products)),
            ("few_rows", of_first(all, |entry| entry.name == "copy", few_rows)),
            ("measured", format!("Measured on: {}.\n", results.provenance())),
        ] {
            sections.push((PAGE, name.to_owned(), section));
        }
        Ok(sections)
    },
    ..TURNS
};

/// Whether it is the operation or a rung.
pub fn is_own(entry: &Timed) -> bool {
    entry.name == "matmul" || entry.is_rung()
}

fn extents(entry: &Timed) -> [f64; 3] {
    ["m", "n", "k"].map(|extent| entry.number(extent))
}

fn is_few(entry: &Timed) -> bool {
    entry.number("m") <= FEW
}

fn contests<'a>(results: &'a Results, dtype: &str) -> Vec<Contest<'a>> {
    let tables = MATMUL.contests(results);
    tables.into_iter().find(|(title, _)| title == dtype).map_or_else(Vec::new, |(_, contests)| contests)
}

fn shape(entry: &Timed) -> String {
    MATMUL.problem(entry)
}

fn time_of(entry: &Timed) -> String {
    entry.microseconds.map_or_else(|| "failed".to_owned(), time)
}

/// A section of the first GPU that has figures for it. The page names the GPU if it is not that of the other sections.
fn of_first(all: &[Results], is_it: fn(&Timed) -> bool, section: fn(&Results) -> String) -> String {
    match all.iter().position(|results| results.all().any(is_it)) {
        Some(i) if i > 0 => format!("Measured on: {}.\n\n", all[i].provenance()) + &section(&all[i]),
        _ => section(&all[0]),
    }
}

/// The table of one rung.
fn rung(results: &Results, name: &str, below: Option<&str>) -> String {
    let over = or_empty(below, |below| format!("times as fast as {}", below.get(..3).unwrap_or(below)));
    let header = ["bf16", "time", "TFLOP/s", &over, "cuBLASLt's time over it", "clock", "power"];
    let rows = contests(results, "bf16");
    let rows = rows.iter().filter_map(|contest| {
        let entry = contest.entry(name)?;
        let figures = [
            shape(entry),
            time_of(entry),
            number_of(MATMUL.rate(entry)),
            times(below.and_then(|below| contest.ratio(below, name))),
            times(contest.ratio(CUBLAS, name)),
        ];
        Some([&figures[..], &clock_and_power(entry)].concat())
    });
    table(&header, 1, &rows.collect::<Vec<_>>())
}

/// The rungs at each shape.
fn all_rungs(results: &Results) -> String {
    let mut names: Vec<&str> = results.ours.iter().map(|entry| entry.name.as_str()).collect();
    names.retain(|name| *name != "matmul");
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return String::new();
    }
    let contests = contests(results, "bf16");
    let at = |contest: &Contest<'_>, name: &&str| {
        let entry = contest.entry(name)?;
        let lead = times(contest.ratio(CUBLAS, name));
        Some(vec![shape(entry), (*name).to_owned(), time_of(entry), number_of(MATMUL.rate(entry)), lead])
    };
    let rows = contests.iter().flat_map(|contest| names.iter().filter_map(|name| at(contest, name)));
    let header = ["bf16", "rung", "time", "TFLOP/s", "cuBLASLt's time over it"];
    format!("\n## The ladder\n\n{}", table(&header, 2, &rows.collect::<Vec<_>>()))
}

/// `f32` as three multiplications, against the FP32 units.
fn three_products(results: &Results) -> String {
    let header = ["f32", "time", "TFLOP/s", "cuBLASLt's time over it", "error", "cuBLASLt's error"];
    let contests = contests(results, "f32");
    let large =
        contests.iter().filter(|contest| extents(contest.ours).iter().all(|&extent| extent >= 1024.0));
    let rows = large.map(|contest| {
        let error = |entry: Option<&Timed>| {
            or_empty(entry.and_then(|entry| entry.figure("relative_error")), |error| format!("{error:.1e}"))
        };
        vec![
            shape(contest.ours),
            time_of(contest.ours),
            number_of(MATMUL.rate(contest.ours)),
            times(contest.lead(CUBLAS)),
            error(Some(contest.ours)),
            error(contest.entry(CUBLAS)),
        ]
    });
    table(&header, 1, &rows.collect::<Vec<_>>())
        + "\nThe error is the root of the mean square of the differences from `f64`, over that of the results.\n"
}

/// Multiplications with few rows, against a copy.
fn few_rows(results: &Results) -> String {
    let header = ["shape", "dtype", "time", "GB/s", "of the copy's GB/s", "cuBLASLt's time over it"];
    let mut rows = Vec::new();
    for dtype in DTYPES {
        for contest in contests(results, dtype).iter().filter(|contest| is_few(contest.ours)) {
            rows.push(vec![
                shape(contest.ours),
                dtype.to_owned(),
                time_of(contest.ours),
                or_empty(MATMUL.bandwidth(contest.ours), |rate| format!("{rate:.0}")),
                percent(contest.share_of_copy(&MATMUL)),
                times(contest.lead(CUBLAS)),
            ]);
        }
    }
    table(&header, 2, &rows)
}

/// Lines for the operation and each peer at squares, and a bar for each rung.
fn chart(results: &Results) -> anyhow::Result<String> {
    let large = contests(results, "bf16");
    let at = large.iter().find(|contest| contest.ours.is_at(&SQUARE));
    let title = at.and_then(|contest| {
        let (lead, peer) = contest.least(&MATMUL)?;
        let rate = MATMUL.rate(contest.ours)?;
        Some(format!(
            "At 8192^3 in bf16 Ferrowarp reaches {rate:.0} TFLOP/s, {lead:.2} times the speed of {peer}"
        ))
    });
    let squares = |dtype: &'static str| {
        let is_here = move |entry: &Timed| {
            let [m, n, k] = extents(entry);
            entry.text("dtype") == dtype && m == n && n == k && m % 512.0 == 0.0 && !entry.is_rung()
        };
        let roof = peaks::of(&results.machine).map(|peaks| match dtype {
            "f32" => ("FP32 units", peaks.fp32_tflops),
            _ => ("tensor cores", peaks.tensor_tflops),
        });
        let roof =
            roof.map(|(name, peak)| Guide::Roof(format!("{name}, datasheet: {peak:.0} TFLOP/s"), peak));
        let caption = format!("Squares in {dtype}");
        lines(
            &MATMUL,
            results,
            &caption,
            ("m", "rows, columns and terms"),
            roof.into_iter().collect(),
            &is_here,
        )
    };
    let rungs = bars(results, "TFLOP/s", "The ladder at 8192^3 in bf16", |entry| {
        let is_here = entry.is_at(&SQUARE) && entry.text("dtype") == "bf16";
        let rate = MATMUL.rate(entry).filter(|_| is_here && entry.name != "copy")?;
        Some((MATMUL.shown(&entry.name), rate, format!("{rate:.0}")))
    });
    let panels = [squares("bf16"), rungs, squares("f32")].into_iter().flatten().collect();
    let title = title.unwrap_or_else(|| "TFLOP/s of square matrices".to_owned());
    Ok(Chart { title, subtitle: results.subtitle(""), columns: 1, panels }.svg()?)
}
