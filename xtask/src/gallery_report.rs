//! `cargo xtask report gallery`: one run of the gallery on a GPU and its peers, into `docs/gallery`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::measure::with_section;
use crate::report::{self, Files, Run};
use crate::{
    gallery_ncu as profile, gallery_overtake as overtake, gallery_report_chart as chart,
    gallery_report_tables as tables, gallery_roofline as roofline, gallery_systems as systems,
    gallery_timeline as timeline, gallery_waves as waves, workspace,
};

/// The committed file.
pub type Results = report::Results<Entry>;

/// One rung on one problem: a time, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    pub name: String,
    pub lesson: String,
    #[serde(default)]
    pub title: String,
    #[serde(default)]
    pub idea: String,
    #[serde(default)]
    pub axis: String,
    #[serde(default)]
    pub is_log: bool,
    pub measure: String,
    pub at: f64,
    pub problem: String,
    #[serde(default)]
    pub kernels: Vec<String>,
    pub bytes: f64,
    #[serde(default)]
    pub flop: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_loaded: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors_stored: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_conflicts: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub divergent_branches: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resident_blocks: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<Counted>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profiled: Option<Profiled>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microseconds: Option<f64>,
    #[serde(default)]
    pub samples: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lacking: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeline: Option<timeline::Columns>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What the emulator counted of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    pub launches: usize,
    pub requests: u64,
    pub sectors_loaded: u64,
    pub sectors_stored: u64,
    pub atomics: u64,
    pub wavefronts: u64,
    pub bank_conflicts: u64,
    pub local: u64,
    pub constant: u64,
    pub divergent_branches: u64,
    pub efficiency: f64,
    pub instructions: u64,
}

/// What Nsight Compute counted of the same run on a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profiled {
    pub sectors_loaded: f64,
    pub sectors_stored: f64,
    pub bank_conflicts: f64,
    pub divergent_branches: f64,
}

impl report::Entry for Entry {
    const RUN: &'static str = "gallery";

    fn is_replaced_by(&self, later: &Self) -> bool {
        (&self.lesson, &self.name) == (&later.lesson, &later.name) && self.problem == later.problem
    }
}

impl Entry {
    /// What the rung is judged by, in the unit of [`Self::unit`].
    pub fn value(&self) -> Option<f64> {
        let time = self.microseconds?;
        Some(match self.measure.as_str() {
            "bytes" => self.bytes / time / 1e3,
            "flops" => self.flop / time / 1e3,
            _ => time,
        })
    }

    /// What was reached of what the clocks of the device allow, in percent.
    pub fn percent_of_peak(&self) -> Option<f64> {
        let peak = self.peak.filter(|_| self.measure != "time")?;
        Some(100.0 * 1e9 * self.value()? / peak)
    }

    /// One for tests, of a lesson of copies.
    #[cfg(test)]
    pub fn of_test(name: &str, at: f64, microseconds: Option<f64>) -> Self {
        Self {
            name: name.to_owned(),
            lesson: "copies".to_owned(),
            title: "Copies".to_owned(),
            idea: "copies".to_owned(),
            axis: "bytes".to_owned(),
            is_log: false,
            measure: "bytes".to_owned(),
            at,
            problem: format!("{at} bytes"),
            kernels: Vec::new(),
            bytes: 1e6,
            flop: 0.0,
            peak: None,
            sectors_loaded: None,
            sectors_stored: None,
            bank_conflicts: None,
            divergent_branches: None,
            blocks: None,
            resident_blocks: None,
            counted: None,
            profiled: None,
            microseconds,
            samples: 1,
            lacking: None,
            timeline: None,
            error: None,
        }
    }

    /// The unit of [`Self::value`].
    pub fn unit(&self) -> &'static str {
        match self.measure.as_str() {
            "bytes" => "GB/s",
            "flops" => "GFLOP/s",
            _ => "us",
        }
    }
}

/// The lessons of the entries, in their order.
pub fn lessons(entries: &[Entry]) -> Vec<String> {
    let mut lessons: Vec<String> = Vec::new();
    for entry in entries {
        if !lessons.contains(&entry.lesson) {
            lessons.push(entry.lesson.clone());
        }
    }
    lessons
}

/// What to merge.
#[derive(clap::Args)]
pub struct Merged {
    #[command(flatten)]
    files: Files,

    /// What `cargo xtask gallery --count` left in target/gallery
    #[arg(long, value_name = "FILE")]
    counts: Option<PathBuf>,

    /// What Nsight Compute counted of the same trials: the gallery-counts of the bundle's run.sh
    #[arg(long, value_name = "FILE", requires = "counts")]
    ncu: Option<PathBuf>,

    #[command(flatten)]
    roofline: roofline::RooflineFiles,
}

/// Runs the command. Where nothing was ever merged, the pages say so.
pub fn run(Merged { files, counts, ncu, roofline }: &Merged) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    let merged = docs.join("results/gallery.json");
    let results = match files.runs()? {
        Some(results) => {
            results.write(&merged)?;
            Some(results)
        }
        None if merged.is_file() => Some(Results::read(&merged)?),
        None => None,
    };
    let kept = docs.join("results/gallery-counts.json");
    let counted = match counts {
        Some(counts) => {
            let mut counted = Results::merge(Run::read(counts)?, None)?;
            if let Some(ncu) = ncu {
                profile::merge(&mut counted.ours, ncu)?;
            }
            counted.write(&kept)?;
            Some(counted)
        }
        None if kept.is_file() => Some(Results::read(&kept)?),
        None => None,
    };
    let pages = docs.join("gallery");
    let copied = results.as_ref().and_then(roofline::best_copy);
    let roofline = roofline.merged(&docs.join("results"), copied)?;
    for lesson in systems::lessons(&pages)? {
        let name = format!("{lesson}.md");
        let page = pages.join(&name);
        let text = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        let section = match &results {
            Some(results) => section(results, &lesson, &pages)?,
            None => NOT_MEASURED.to_owned(),
        };
        let of_lesson = |entry: &&Entry| entry.lesson == lesson;
        let counts: Vec<&Entry> =
            counted.iter().flat_map(|counted| &counted.ours).filter(of_lesson).collect();
        let (counts, section) = match (&*lesson, &roofline) {
            ("roofline", Some(roofline)) => roofline.sections(&pages)?,
            _ => (counts_section(&counts), section),
        };
        let mut text = with_section(&name, &text, "counts", &counts)?;
        text = with_section(&name, &text, "results", &section)?;
        let ours = results.as_ref().map_or(&[][..], |results| &results.ours);
        let machine = results.as_ref().map_or("", |results| &results.machine);
        if lesson == "vector_add" {
            text = with_section(&name, &text, "overtake", &overtake::section(ours, machine, &pages)?)?;
        }
        if lesson == "matmul" {
            text = with_section(&name, &text, "waves", &waves::section(ours, machine, &pages)?)?;
        }
        workspace::write(&page, &text)?;
    }
    workspace::write(&pages.join("README.md"), &systems::index(&pages)?)?;
    println!("written to docs/gallery");
    Ok(())
}

pub const NOT_MEASURED: &str = "Not measured on a GPU yet.\n";

/// The counts of a lesson.
fn counts_section(entries: &[&Entry]) -> String {
    tables::counts(entries).unwrap_or_else(|| "Not counted yet.\n".to_owned())
}

/// The table of a lesson, and its picture, which it draws.
fn section(results: &Results, lesson: &str, pages: &Path) -> anyhow::Result<String> {
    let entries = results.ours.iter().chain(&results.peers);
    let entries: Vec<&Entry> = entries.filter(|entry| entry.lesson == lesson).collect();
    if entries.is_empty() {
        return Ok(NOT_MEASURED.to_owned());
    }
    let whence = results.provenance();
    let drawn = match timeline::draw(&entries, &results.machine)? {
        None => chart::draw(&entries, &results.machine)?,
        drawn => drawn,
    };
    let picture = match drawn {
        Some(svg) => {
            workspace::write(&pages.join(format!("{lesson}.svg")), &svg)?;
            format!("\n![{}]({lesson}.svg)\n", entries[0].title)
        }
        None => String::new(),
    };
    let told = match timeline::table(&entries)? {
        told if told.is_empty() => told,
        told => format!("\n{told}"),
    };
    Ok(format!("{}{told}{picture}\nMeasured on: {whence}.\n", tables::table(&entries)))
}
