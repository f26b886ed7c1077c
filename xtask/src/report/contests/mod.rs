//! `cargo xtask report norm`, `report axis` and `report attention`: write runs of benches/peers/norm.py, axis.py and
//! attention.py, in which contenders took turns, into `docs/results/`.

pub mod ladder;
mod subjects;

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::report::figures;
use crate::report::peaks::{self, Check};
use crate::report::softmax::tables::time;
use crate::report::softmax::targets::geometric_mean;
use crate::report::{self, Run, row, stale, stem, times};
use crate::workspace;

pub use subjects::{ATTENTION, AXIS, NORM};

/// The files to merge.
#[derive(clap::Args)]
pub struct Merged {
    /// What the script wrote; again for every further run of the same commit and machine. Contenders are compared with ours of their run
    #[arg(long, value_name = "FILE")]
    runs: Vec<PathBuf>,
}

/// A row of the README's table.
pub struct Shown {
    /// The first cell.
    pub name: &'static str,
    /// The problem whose time it shows, for the first type that was timed: fields and values.
    pub at: &'static [(&'static str, &'static str)],
    /// The fields that all problems of its means have in common with that one.
    pub shared: &'static [&'static str],
}

/// The subject of a page.
pub struct Subject {
    /// The stem of its files.
    pub name: &'static str,
    pub title: &'static str,
    /// The meaning of a row of the tables.
    about: &'static str,
    /// The peers by their names in the files and on the pages, without `copy`.
    peers: &'static [(&'static str, &'static str)],
    /// The fields that determine an entry's table, in addition to its type.
    tables: &'static [&'static str],
    /// The fields that determine a row.
    rows: &'static [&'static str],
    /// The unit of [`Self::work`].
    unit: &'static str,
    /// The minimum bytes moved, or operations, for the rate.
    work: fn(&Entry) -> f64,
    sources: &'static [&'static str],
    /// Its rows in the README.
    pub shown: &'static [Shown],
}

/// The committed file.
pub type Results = report::Results<Entry>;

/// One contender at one problem: a time, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    name: String,
    dtype: String,
    /// The index of the run's file: only entries of the same one are compared.
    #[serde(default)]
    run: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernels: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    microseconds: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    clock_and_power: Option<[f64; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    relative_error: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// The problem, and further fields of the script.
    #[serde(flatten)]
    other: BTreeMap<String, Value>,
}

impl report::Entry for Entry {
    const RUN: &'static str = "contenders'";

    /// Each is compared with entries of its own run.
    fn is_replaced_by(&self, _: &Self) -> bool {
        false
    }
}

impl Entry {
    fn number(&self, field: &str) -> f64 {
        match self.other.get(field) {
            Some(Value::Bool(is)) => f64::from(u8::from(*is)),
            value => value.and_then(Value::as_f64).unwrap_or(f64::NAN),
        }
    }

    fn text(&self, field: &str) -> String {
        match self.other.get(field) {
            Some(Value::String(text)) => text.clone(),
            value => value.map(Value::to_string).unwrap_or_default(),
        }
    }

    fn element_bytes(&self) -> f64 {
        if self.dtype == "f32" { 4.0 } else { 2.0 }
    }

    /// Its values of these fields, as one key.
    fn of(&self, fields: &[&str]) -> Vec<String> {
        fields.iter().map(|field| self.text(field)).collect()
    }

    /// Whether it is ours: it has the operation's or the norm's own name.
    fn is_ours(&self) -> bool {
        self.name == "attention" || self.name == self.text("norm") || self.name == self.text("operation")
    }

    /// The rate in the unit of the subject.
    fn rate(&self, subject: &Subject) -> Option<f64> {
        Some((subject.work)(self) / self.microseconds? / 1e3)
    }
}

/// Runs the command.
pub fn run(subject: &Subject, merged: &Merged) -> anyhow::Result<()> {
    let folder = workspace::root().join("docs/results");
    let mut results: Option<Results> = None;
    for (number, path) in merged.runs.iter().enumerate() {
        let mut run: Run<Entry> = Run::read(path)?;
        run.entries.iter_mut().for_each(|entry| entry.run = number);
        let (ours, peers): (Vec<Entry>, Vec<Entry>) = run.entries.into_iter().partition(Entry::is_ours);
        let run = Results::merge(Run { entries: ours, ..run }, None)?;
        let run = Results { peers, ..run };
        results = Some(match results {
            Some(before) => before.with(run)?,
            None => run,
        });
    }
    if let Some(results) = &results {
        results.write(&folder.join(format!("{}.json", stem(subject.name, &results.machine))))?;
    }
    let merged = report::merged(&folder, subject.name)?;
    ensure!(!merged.is_empty(), "docs/results has no {}.json; give --runs", subject.name);
    for path in &merged {
        let results = Results::read_and_date(path, subject.sources)?;
        check(subject, &results)?;
        let name = format!("results/{}.md", stem(subject.name, &results.machine));
        workspace::write(&workspace::root().join("docs").join(&name), &page(subject, &results)?)?;
        println!("written to docs/{name}");
    }
    figures::update_readme()
}

/// Checks that no rate exceeds the GPU's peak. Less data than a cache holds may partly come from there.
fn check(subject: &Subject, results: &Results) -> anyhow::Result<()> {
    let Some(peaks) = peaks::of(&results.machine) else { return Ok(()) };
    let mut check = Check::default();
    for entry in results.ours.iter().chain(&results.peers) {
        let told = || format!("{}, {} {:?}", entry.name, entry.dtype, entry.of(subject.rows));
        let (peak, counts) = match subject.unit {
            "GB/s" => (peaks.gigabytes_per_second, (subject.work)(entry) > 100e6),
            _ => (peaks.tensor_tflops, true),
        };
        if let Some(rate) = entry.rate(subject).filter(|_| counts) {
            check.rate(told, rate, peak, subject.unit);
        }
    }
    check.finish()
}

/// Our entry at a problem, and the others' in the same run.
struct Contest<'a> {
    ours: &'a Entry,
    others: Vec<&'a Entry>,
}

impl Contest<'_> {
    /// The time of another contender divided by ours.
    fn lead(&self, name: &str) -> Option<f64> {
        let other = self.others.iter().find(|entry| entry.name == name)?;
        Some(other.microseconds? / self.ours.microseconds?)
    }

    /// Our error, and the smallest of the peers'.
    fn errors(&self, subject: &Subject) -> Option<[f64; 2]> {
        let is_peer = |entry: &&&Entry| subject.peers.iter().any(|(name, _)| *name == entry.name);
        let errors = self.others.iter().filter(is_peer).filter_map(|entry| entry.relative_error);
        Some([self.ours.relative_error?, errors.min_by(f64::total_cmp)?])
    }

    /// The same for the fastest peer.
    fn least(&self, subject: &Subject) -> Option<(f64, &'static str)> {
        let leads = subject.peers.iter().filter_map(|(name, shown)| Some((self.lead(name)?, *shown)));
        leads.min_by(|a, b| a.0.total_cmp(&b.0))
    }
}

/// Rows of the README's table: operation, time, rate, PyTorch, the closest other peer.
pub fn readme_rows(subject: &Subject, results: &Results) -> String {
    let tables = contests(subject, results);
    let all: Vec<&Contest<'_>> = tables.iter().flat_map(|(_, contests)| contests).collect();
    let rows = subject.shown.iter().filter_map(|Shown { name, at, shared }| {
        let is_at = |entry: &Entry| at.iter().all(|(field, value)| entry.text(field) == *value);
        let flagship =
            all.iter().find(|contest| is_at(contest.ours) && contest.ours.text("inputs") != "large")?;
        let rate = flagship.ours.rate(subject)?;
        let of_means = |dtype: &str| {
            let is_it = |contest: &&&Contest<'_>| {
                contest.ours.dtype == dtype && contest.ours.of(shared) == flagship.ours.of(shared)
            };
            all.iter().filter(is_it).copied().collect::<Vec<_>>()
        };
        let mean = |peer: &str, dtype: &str| {
            geometric_mean(&of_means(dtype).iter().filter_map(|c| c.lead(peer)).collect::<Vec<_>>())
        };
        let dtypes: Vec<&str> =
            ["bf16", "f32"].into_iter().filter(|dtype| !of_means(dtype).is_empty()).collect();
        let means = |peer: &str| {
            let means = dtypes.iter().filter_map(|dtype| mean(peer, dtype));
            means.map(|mean| times(Some(mean))).collect::<Vec<_>>().join(" / ")
        };
        let (torch, others) = subject.peers.split_first()?;
        let timed =
            others.iter().filter_map(|(peer, shown)| Some((mean(peer, dtypes.first()?)?, *peer, *shown)));
        let closest = timed.min_by(|a, b| a.0.total_cmp(&b.0));
        Some(row(&[
            (*name).to_owned(),
            time(flagship.ours.microseconds?),
            format!("{rate:.0} {}", subject.unit),
            means(torch.0),
            closest.map_or_else(String::new, |(_, peer, shown)| format!("{shown} {}", means(peer))),
        ]))
    });
    rows.collect()
}

/// The contests of each table, in the order of the run.
fn contests<'a>(subject: &Subject, results: &'a Results) -> Vec<(String, Vec<Contest<'a>>)> {
    let mut tables: Vec<(String, Vec<Contest<'a>>)> = Vec::new();
    let fields = [subject.tables, subject.rows].concat();
    for ours in &results.ours {
        let is_there = |other: &&Entry| {
            other.run == ours.run && other.dtype == ours.dtype && other.of(&fields) == ours.of(&fields)
        };
        let contest = Contest { ours, others: results.peers.iter().filter(is_there).collect() };
        let fields = subject.tables.iter().filter_map(|field| match ours.other.get(*field)? {
            Value::Bool(is) => is.then(|| (*field).to_owned()),
            Value::String(text) => (text != "normal").then(|| text.clone()),
            value => Some(format!("{} {value}", field.replace('_', " "))),
        });
        let title = fields.chain([ours.dtype.clone()]).collect::<Vec<_>>().join(", ");
        match tables.iter_mut().find(|(known, _)| *known == title) {
            Some((_, contests)) => contests.push(contest),
            None => tables.push((title, vec![contest])),
        }
    }
    tables
}

/// The page of a machine.
fn page(subject: &Subject, results: &Results) -> anyhow::Result<String> {
    let tables = contests(subject, results);
    let cells = |cells: &[&str]| cells.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>();
    let head = |first: &[&str], left: usize| {
        let line =
            (0..first.len()).map(|i| if i < left { "---" } else { "---:" }.to_owned()).collect::<Vec<_>>();
        row(&cells(first)) + &row(&line)
    };
    let Subject { name, title, about, .. } = subject;
    let mut text = format!(
        "# {title} on an {}: all figures\n\n{}.\n\n{about} L2 is cold. The contenders of a problem take turns, and each time is the median of \
         the rounds, by events around CUDA graphs. A ratio is the other one's time over ours: over 1 means that ours is faster. Written by `cargo \
         xtask report {name}`.\n\n",
        results.machine,
        results.provenance(),
    );
    if !results.changed_since.is_empty() {
        text += &format!("{}\n\n", stale::note(&results.changed_since));
    }
    let has_errors =
        tables.iter().flat_map(|(_, contests)| contests).any(|contest| contest.errors(subject).is_some());
    let told = if has_errors { ", and our error over the least of the peers" } else { "" };
    text += &format!("## Summary\n\nThe fastest peer's time over ours{told}.\n\n");
    let columns = ["", "geometric mean", "least", "at", "problems", "largest error"];
    text += &head(&columns[..columns.len() - usize::from(!has_errors)], 1);
    for (title, contests) in &tables {
        let leads: Vec<(f64, String)> = contests
            .iter()
            .filter_map(|contest| {
                Some((contest.least(subject)?.0, contest.ours.of(subject.rows).join(" x ")))
            })
            .collect();
        let Some((least, at)) = leads.iter().min_by(|a, b| a.0.total_cmp(&b.0)) else { continue };
        let errors = contests.iter().filter_map(|contest| contest.errors(subject));
        let worst =
            errors.map(|[ours, peer]| ours / peer).filter(|ratio| ratio.is_finite()).max_by(f64::total_cmp);
        let ratios: Vec<f64> = leads.iter().map(|(lead, _)| *lead).collect();
        let mean = geometric_mean(&ratios).context("a table without times")?;
        let mut cells =
            vec![title.clone(), times(Some(mean)), times(Some(*least)), at.clone(), leads.len().to_string()];
        cells.extend(has_errors.then(|| times(worst)));
        text += &row(&cells);
    }
    for (title, contests) in &tables {
        let rows = subject.rows.join(" x ");
        let has_time = |name: &str| contests.iter().any(|contest| contest.lead(name).is_some());
        let peers = subject.peers.iter().filter(|(name, _)| has_time(name));
        let (names, shown): (Vec<&str>, Vec<&str>) = peers.copied().unzip();
        let errors: &[&str] = if has_errors { &["error / a peer's"] } else { &[] };
        let copy: &[&str] = if has_time("copy") { &["copy"] } else { &[] };
        let columns =
            [&[rows.as_str(), "kernel", "time", subject.unit][..], &shown, copy, errors, &["clock", "power"]]
                .concat();
        text += &format!("\n## {title}\n\n{}", head(&columns, 2));
        for contest in contests {
            let ours = contest.ours;
            let kernel = ours.kernels.as_ref().map_or_else(String::new, |kernel| format!("`{kernel}`"));
            let shown = ours.microseconds.map_or_else(|| "failed".to_owned(), time);
            let rate = ours.rate(subject).map_or_else(String::new, |rate| format!("{rate:.0}"));
            let mut line = vec![ours.of(subject.rows).join(" x "), kernel, shown, rate];
            line.extend(names.iter().chain(copy).map(|name| times(contest.lead(name))));
            if has_errors {
                let errors = contest.errors(subject);
                line.push(errors.map_or_else(String::new, |[ours, peer]| format!("{ours:.2e} / {peer:.2e}")));
            }
            let [clock, power] =
                ours.clock_and_power.map_or([String::new(), String::new()], |[clock, power]| {
                    [format!("{clock:.0} MHz"), format!("{power:.0} W")]
                });
            line.extend([clock, power]);
            text += &row(&line);
        }
    }
    let mut failures: BTreeMap<String, usize> = BTreeMap::new();
    for entry in results.ours.iter().chain(&results.peers) {
        if let Some(error) = &entry.error {
            *failures.entry(format!("{}: {error}", entry.name)).or_default() += 1;
        }
    }
    let failed: String =
        failures.iter().map(|(what, count)| format!("- {what} ({count} problems)\n")).collect();
    if !failed.is_empty() {
        text += &format!("\n## What failed or was left out\n\n{failed}");
    }
    Ok(text)
}
