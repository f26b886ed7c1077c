//! Softmax and the other operations along the last axis, and the rungs of the softmax ladder.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::chart::{Chart, Guide};
use crate::pages::charts::{dots, lines};
use crate::pages::operations::{check_run, operation};
use crate::pages::rows::TURNS;
use crate::pages::{profiles, targets};
use crate::report::peaks::{self, Check};
use crate::report::{
    Contest, Files, IN_CACHE, Results, Section, Subject, Timed, ladder, merged, number_of, or_empty, percent,
    stale, stem, table, time, times,
};

/// The page in `docs` with the short tables, and the one about the ladder.
const PAGE: &str = "docs/softmax.md";
const LADDER: &str = "docs/softmax-ladder.md";

pub const SOFTMAX: Subject = Subject {
    name: "softmax",
    title: "Softmax",
    about: "Matrices of normal random numbers. Bandwidth counts every matrix once. The copy is the fastest one of the same number of \
            bytes: by a kernel of ours, or the driver's memcpy, which PyTorch's clone calls.",
    is_ours: |entry| operation(&entry.text("op")).is_some() && !entry.is_rung(),
    peers: &[
        ("torch eager", "PyTorch"),
        ("torch.compile", "torch.compile"),
        ("triton", "Triton"),
        ("quack", "QuACK"),
        ("flashinfer", "FlashInfer"),
    ],
    tables: &["op"],
    work: bytes,
    bytes,
    cached: 0.0,
    check,
    sources: &[
        "gpu-kernels/ladders/src/softmax",
        "gpu-kernels/softmax/src",
        "host/src/softmax/in_registers.rs",
        "host/src/softmax/kernel_choice.rs",
        "host/src/softmax/row_kernel.rs",
        "host/src/softmax/staged.rs",
    ],
    charts: &[("", "GB/s against width", widths), ("-shapes", "GB/s at other shapes", shapes)],
    more: |results| {
        format!("{}{}{}", targets::section(&SOFTMAX, results), profiles::section(results), all_rungs(results))
    },
    sections,
    ..TURNS
};

fn bytes(entry: &Timed) -> f64 {
    let matrices = operation(&entry.text("op")).map_or(2.0, |operation| operation.matrices);
    matrices * entry.element_bytes() * entry.number("rows") * entry.number("cols")
}

/// The files of a run.
#[derive(clap::Args)]
pub struct Merged {
    #[command(flatten)]
    files: Files,
    /// What the step `missed` of the bundle's run.sh wrote in that run, or later of the same commit on the same machine
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

impl Merged {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let new = match self.files.runs()? {
            Some(mut results) => {
                if let Some(path) = &self.profile {
                    results.profiles = profiles::read(path)?;
                }
                keep_measured(&mut results);
                check_run(&results)?;
                Some(results)
            }
            None => self.profile.as_ref().map(|path| profiled(path)).transpose()?,
        };
        SOFTMAX.run(new)
    }
}

/// The figures of a profile's machine and commit, with it.
fn profiled(profile: &Path) -> anyhow::Result<Results> {
    let profiles = profiles::read(profile)?;
    let text = std::fs::read_to_string(profile).with_context(|| format!("reading {}", profile.display()))?;
    let head = text.split("====").next().unwrap_or_default();
    for path in merged(SOFTMAX.name)? {
        let results = Results::read(&path)?;
        if head.contains(&results.machine) && head.contains(&format!("commit {}", results.commit)) {
            return Ok(Results { profiles, ..results });
        }
    }
    bail!(
        "{} is of a machine and commit without figures in docs/results:\n{head}\nGive --ours and --peers of that run",
        profile.display()
    )
}

/// Several files of a run may contain a peer: one may have measured what another had no time for, or did not find installed.
pub fn keep_measured(results: &mut Results) {
    let measured: Vec<Timed> =
        results.peers.iter().filter(|entry| entry.microseconds.is_some()).cloned().collect();
    let of = |entry: &Timed| (entry.name.clone(), entry.of(&["op", "dtype", "rows", "cols"]));
    let is_measured = |entry: &Timed| measured.iter().any(|other| of(entry) == of(other));
    results.peers.retain(|entry| entry.microseconds.is_some() || !is_measured(entry));
    results.missing.retain(|name, _| !measured.iter().any(|entry| entry.name == *name));
}

/// From this many bytes, a copy takes much longer than its launch, and its rate is a roof.
const LARGE: f64 = 64e6;

/// Checks that an operation that reads a matrix and writes one is not faster than a copy.
fn check(results: &Results, check: &mut Check) {
    for contest in SOFTMAX.contests(results).iter().flat_map(|(_, contests)| contests) {
        let op = contest.ours.text("op");
        let is_even = operation(&op).is_some_and(|operation| operation.matrices == 2.0);
        if let Some(share) = contest.share_of_copy(&SOFTMAX)
            && is_even
            && bytes(contest.ours) >= LARGE
        {
            check.share(|| format!("{op} {} against the best copy", SOFTMAX.problem(contest.ours)), share);
        }
    }
}

/// The shapes of the short table.
const SHORT: [&str; 8] = [
    "4096 x 256",
    "4096 x 1024",
    "4096 x 4096",
    "4096 x 12672",
    "4096 x 2047",
    "131072 x 1024",
    "8192 x 32768",
    "2048 x 131072",
];

/// The shapes at which the page of the ladder shows each rung, if timed: not every rung supports every width.
const RUNGS_AT: [&str; 5] = ["4096 x 1024", "4096 x 4096", "4096 x 12672", "8192 x 32768", "2048 x 131072"];

fn sections(all: &[Results]) -> anyhow::Result<Vec<Section>> {
    let results = &all[0];
    let mut sections =
        ladder(LADDER, "", results, |name, below| steps(results, name, below.map(|it| (it, short(it)))))?;
    let measured = format!("Measured on: {}.\n", results.provenance());
    sections.extend([
        (LADDER, "softmax".to_owned(), steps(results, "softmax", None)),
        (LADDER, "measured".to_owned(), measured),
        (PAGE, "softmax".to_owned(), section(results, &all[1..])),
    ]);
    Ok(sections)
}

/// `k4` of `k4_warp_shuffle`.
fn short(name: &str) -> &str {
    name.split_once('_').map_or(name, |(short, _)| short)
}

/// The table of a rung, or of the operation, on the page of the ladder.
fn steps(results: &Results, name: &str, below: Option<(&str, &str)>) -> String {
    let contests = table_of(results, "softmax, f32");
    let rows = RUNGS_AT.iter().filter_map(|shape| {
        let contest = contests.iter().find(|contest| SOFTMAX.problem(contest.ours) == *shape)?;
        let entry = contest.entry(name)?;
        let last = if name == "softmax" {
            percent(contest.share_of_copy(&SOFTMAX))
        } else {
            times(below.and_then(|(below, _)| contest.ratio(below, name)))
        };
        Some(vec![(*shape).to_owned(), time(entry.microseconds?), number_of(SOFTMAX.rate(entry)), last])
    });
    let mut rows: Vec<Vec<String>> = rows.collect();
    if rows.is_empty() {
        rows.push(["not measured", "", "", ""].map(str::to_owned).to_vec());
    }
    let over = match (name, below) {
        ("softmax", _) => "of the best copy".to_owned(),
        (_, below) => or_empty(below, |(_, short)| format!("times as fast as {short}")),
    };
    table(&["f32", short(name), "GB/s", &over], 1, &rows)
}

fn table_of<'a>(results: &'a Results, title: &str) -> Vec<Contest<'a>> {
    let tables = SOFTMAX.contests(results);
    tables.into_iter().find(|(known, _)| known == title).map_or_else(Vec::new, |(_, contests)| contests)
}

/// The section of the page on the operations; `others` are the figures of other GPUs.
fn section(results: &Results, others: &[Results]) -> String {
    let mut header = vec!["softmax of", "dtype", "ours", "GB/s", "of the best copy"];
    header.extend(SOFTMAX.peers[..4].iter().map(|(_, shown)| *shown));
    let mut rows = Vec::new();
    for shape in SHORT {
        for dtype in ["f32", "bf16"] {
            let contests = table_of(results, &format!("softmax, {dtype}"));
            let Some(contest) = contests.iter().find(|it| SOFTMAX.problem(it.ours) == shape) else {
                continue;
            };
            let mut line = vec![
                shape.to_owned(),
                dtype.to_owned(),
                or_empty(contest.ours.microseconds, time),
                number_of(SOFTMAX.rate(contest.ours)),
                percent(contest.share_of_copy(&SOFTMAX)),
            ];
            line.extend(SOFTMAX.peers[..4].iter().map(|(name, _)| times(contest.lead(name))));
            rows.push(line);
        }
    }
    let mut text = format!(
        "![GB/s against width](softmax.svg)\n\n{}\nThe columns of the peers are their time divided by ours.\n\n{}\n{}",
        table(&header, 2, &rows),
        SOFTMAX.summary(results),
        one_shape(results)
    );
    for other in others {
        let (machine, stem) = (&other.machine, stem(SOFTMAX.name, &other.machine));
        text += &format!("\nThe same on an {machine}: [results/{stem}.md](results/{stem}.md).\n");
    }
    let note = stale::note(&results.changed_since);
    text + &format!(
        "\n{}. L2 is cold. Every shape and ratio is in [results/softmax.md](results/softmax.md).{}{note}\n",
        results.provenance(),
        if note.is_empty() { "" } else { " " }
    )
}

/// The rungs at one shape, each with its gain over the one below; rungs for wider rows at the first of their shapes.
fn one_shape(results: &Results) -> String {
    let is_here = |entry: &&Timed| SOFTMAX.problem(entry) == RUNGS_AT[1];
    let mut shown: Vec<&Timed> = Vec::new();
    for entry in results.ours.iter().filter(|entry| entry.is_rung() && entry.microseconds.is_some()) {
        match shown.iter_mut().find(|known| known.name == entry.name) {
            Some(known) if is_here(&entry) => *known = entry,
            Some(_) => {}
            None => shown.push(entry),
        }
    }
    let rows = shown.iter().enumerate().map(|(i, entry)| {
        let below = i.checked_sub(1).map(|i| shown[i]).filter(is_here).filter(|_| is_here(entry));
        let step = below.and_then(|below| Some(below.microseconds? / entry.microseconds?));
        let at = if is_here(entry) { String::new() } else { format!(", at {}", SOFTMAX.problem(entry)) };
        let name = format!("{}{at}", entry.name);
        vec![name, or_empty(entry.microseconds, time), number_of(SOFTMAX.rate(entry)), times(step)]
    });
    let first = format!("rung, f32 at {}", RUNGS_AT[1]);
    table(&[&first, "time", "GB/s", "step"], 1, &rows.collect::<Vec<_>>())
}

/// All rungs by width, in GB/s.
fn all_rungs(results: &Results) -> String {
    let rungs = || results.ours.iter().filter(|entry| entry.is_rung());
    let unique = |of: &dyn Fn(&Timed) -> String| {
        let mut found: Vec<String> = Vec::new();
        for text in rungs().map(of) {
            if !found.contains(&text) {
                found.push(text);
            }
        }
        found
    };
    let (names, shapes) = (unique(&|entry| entry.name.clone()), unique(&|entry| SOFTMAX.problem(entry)));
    let rows = shapes.iter().map(|shape| {
        let cell = |name: &String| {
            let entry = rungs().find(|entry| entry.name == *name && SOFTMAX.problem(entry) == *shape);
            number_of(entry.and_then(|entry| SOFTMAX.rate(entry)))
        };
        [vec![shape.clone()], names.iter().map(cell).collect()].concat()
    });
    let header = [vec!["shape".to_owned()], names.clone()].concat();
    format!("\n## The ladder, f32, GB/s\n\n{}", table(&header, 0, &rows.collect::<Vec<_>>()))
}

/// Whether the entry belongs to the chart over widths, not to that of other shapes.
fn is_of_widths(entry: &Timed) -> bool {
    let cols = entry.number("cols");
    entry.number("rows") == 4096.0 && cols <= 12_672.0 && cols % 4.0 == 0.0
}

/// GB/s of f32 against width at 4096 rows: the rungs above, the operation and its peers below.
fn widths(results: &Results) -> anyhow::Result<String> {
    let contests = table_of(results, "softmax, f32");
    let is_here = |entry: &Timed| entry.is_at(&[("op", "softmax"), ("dtype", "f32")]) && is_of_widths(entry);
    let copies = contests.iter().filter(|contest| is_here(contest.ours));
    let copies =
        copies.filter_map(|contest| Some((contest.ours.number("cols"), SOFTMAX.bandwidth(contest.copy?)?)));
    let copies: Vec<(f64, f64)> = copies.collect();
    let guides = || {
        let curve =
            (!copies.is_empty()).then(|| Guide::RoofCurve("the best copy".to_owned(), copies.clone()));
        let memory = peaks::of(&results.machine).map(|peaks| peaks.gigabytes_per_second);
        let roof = |name: &str, rate: f64| Guide::Roof(format!("{name}: {:.1} TB/s", rate / 1e3), rate);
        let memory = memory.map(|rate| roof("memory, datasheet", rate));
        let caches = results.peers.iter().filter(|entry| entry.name == IN_CACHE);
        let cache = caches.filter_map(|entry| SOFTMAX.bandwidth(entry)).max_by(f64::total_cmp);
        curve.into_iter().chain(memory).chain(cache.map(|rate| roof("a copy within L2", rate))).collect()
    };
    let x = ("cols", "columns of a row");
    let rungs = lines(
        &SOFTMAX,
        results,
        "The ladder, rung by rung; k9 and k10 take wider rows",
        x,
        guides(),
        &|entry| is_here(entry) && entry.is_rung(),
    );
    let peers = lines(&SOFTMAX, results, "The operation and its peers", x, guides(), &|entry| {
        is_here(entry) && !entry.is_rung() && !entry.name.starts_with("clone")
    });
    let at = contests.iter().find(|contest| SOFTMAX.problem(contest.ours) == RUNGS_AT[1]);
    let title = at.and_then(|contest| {
        let share = percent(Some(contest.share_of_copy(&SOFTMAX)?));
        let climb = contest.lead("k1_naive")?;
        Some(format!(
            "At 4096x4096 softmax reaches {share} of the best copy and is {climb:.0} times as fast as k1"
        ))
    });
    let title = title.unwrap_or_else(|| "GB/s of softmax against the width of its rows".to_owned());
    let panels = [rungs, peers].into_iter().flatten().collect();
    Ok(Chart { title, subtitle: results.subtitle("f32, 4096 rows; "), columns: 1, panels }.svg()?)
}

/// GB/s at other numbers of rows and at odd widths; not at one token's logits, where latency dominates.
fn shapes(results: &Results) -> anyhow::Result<String> {
    let is_here = |entry: &Timed| !is_of_widths(entry) && !targets::is_decode(entry);
    let titles = ["softmax, f32", "softmax, bf16"];
    let panels = titles.iter().filter_map(|title| dots(&SOFTMAX, results, title, &is_here)).collect();
    let contests = titles.iter().flat_map(|title| table_of(results, title));
    let leads = contests.filter(|contest| is_here(contest.ours));
    let leads: Vec<f64> = leads.filter_map(|contest| Some(contest.least(&SOFTMAX)?.0)).collect();
    let won = leads.iter().filter(|lead| **lead >= 1.0).count();
    let title = format!("Softmax is faster than every peer at {won} of {} shapes and types", leads.len());
    let subtitle = results.subtitle("wide, narrow and odd rows, cold L2; ");
    Ok(Chart { title, subtitle, columns: 2, panels }.svg()?)
}
