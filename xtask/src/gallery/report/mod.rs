//! `cargo xtask report gallery`: writes runs of the gallery on a GPU and of its peers into `docs/gallery`.

pub mod chart;
pub mod tables;

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

use crate::gallery;
use crate::gallery::drawings;
pub use crate::gallery::entry::Entry;
use crate::gallery::merge::{Theory, update};
use crate::gallery::ncu as profile;
use crate::gallery::overtake;
use crate::gallery::predictions::{self, Limits, Prediction};
use crate::gallery::roofline;
use crate::gallery::systems;
use crate::gallery::timeline;
use crate::gallery::waves;
use crate::measure::with_section;
use crate::report::peaks::{self, Check};
use crate::report::softmax;
use crate::report::stale;
use crate::report::{self, Files, Run};
use crate::workspace;

/// The committed file.
pub type Results = report::Results<Entry>;

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

/// The input of the pages.
pub struct Gallery {
    /// Ours with their times, and the peers'.
    pub entries: Vec<Entry>,
    pub predictions: Vec<Prediction>,
    pub limits: Limits,
    pub machine: String,
    /// Driver and versions.
    software: String,
    /// The processor of the machine.
    cpu: String,
}

/// One lesson's part.
pub struct Lesson<'a> {
    pub name: &'a str,
    pub entries: Vec<&'a Entry>,
    pub predictions: Vec<&'a Prediction>,
    pub limits: &'a Limits,
    /// The GPU, and the source of the figures.
    pub whence: String,
}

/// Runs the command. Pages state what was never measured.
///
/// # Errors
/// A file cannot be read or written, the gallery's program fails, or a figure is impossible.
pub fn run(Merged { files, counts, ncu, roofline }: &Merged) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    let folder = docs.join("results");
    let merged = folder.join("gallery.json");
    let kept = merged.is_file().then(|| Results::read(&merged)).transpose()?;
    let results = match files.runs()? {
        Some(new) => Some(update(kept, new)?),
        None => kept,
    };
    let counted = counted(&folder.join("gallery-counts.json"), counts.as_deref(), ncu.as_deref())?;
    let gallery = Gallery::new(theory()?, results.as_ref(), &folder);
    let roofline = roofline.merged(&folder, &gallery)?;
    let mut check = Check::default();
    gallery.check(&mut check);
    if let Some(roofline) = &roofline {
        roofline.check(&mut check);
    }
    check.finish()?;
    if let Some(results) = &results {
        results.write(&merged)?;
    }
    let pages = docs.join("gallery");
    for name in systems::lessons(&pages)? {
        write_page(&pages, &name, &gallery, &counted, roofline.as_ref())?;
    }
    workspace::write(&pages.join("README.md"), &systems::index(&pages)?)?;
    drawings::write(&pages)?;
    println!("written to docs/gallery");
    Ok(())
}

/// The trials and predictions of the current table, from the gallery's program.
fn theory() -> anyhow::Result<Theory> {
    let file = workspace::target().join("gallery/theory.json");
    let folder = file.parent().context("the target folder has no parent")?;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut command = gallery::program();
    command.arg("--theory").arg("--out").arg(&file).current_dir(workspace::root());
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "`gallery --theory` failed ({status})");
    Theory::read(&file)
}

/// The committed counts, merged with new ones. Nsight Compute's counts of the same problems are kept.
fn counted(kept: &Path, counts: Option<&Path>, ncu: Option<&Path>) -> anyhow::Result<Vec<Entry>> {
    let before = kept.is_file().then(|| Results::read(kept)).transpose()?;
    let Some(counts) = counts else { return Ok(before.map(|results| results.ours).unwrap_or_default()) };
    let mut counted = Results::merge(Run::read(counts)?, None)?;
    match ncu {
        Some(ncu) => profile::merge(&mut counted.ours, ncu)?,
        None => {
            let before = before.map(|results| results.ours).unwrap_or_default();
            for entry in &mut counted.ours {
                let is_same = |old: &&Entry| report::Entry::is_replaced_by(*old, entry);
                entry.profiled = before.iter().find(is_same).and_then(|old| old.profiled);
            }
        }
    }
    counted.write(kept)?;
    Ok(counted.ours)
}

impl Gallery {
    fn new(theory: Theory, results: Option<&Results>, folder: &Path) -> Self {
        let (ours, peers) = results.map_or((&[][..], &[][..]), |results| (&results.ours, &results.peers));
        let mut entries = theory.with_times(ours);
        let peers: Vec<Entry> = peers.iter().map(|peer| with_its_function(peer, &entries)).collect();
        entries.extend(peers);
        let machine = results.map_or_else(String::new, |results| results.machine.clone());
        let softmax = softmax::Results::read(&folder.join("softmax.json")).ok();
        let softmax = softmax.filter(|softmax| softmax.machine == machine);
        // One value for all pages: the fastest copy of any report.
        let copies = entries.iter().filter(|entry| entry.lesson == "copy_offset").filter_map(Entry::value);
        let copy = copies.chain(softmax.and_then(|softmax| softmax.largest_copy_rate())).reduce(f64::max);
        let limits = Limits { copy, peaks: peaks::of(&machine) };
        let software = results.map_or_else(String::new, |results| {
            let versions = results.versions.iter().map(|(name, version)| format!(", {name} {version}"));
            format!("driver {}{}", results.driver, versions.collect::<String>())
        });
        let cpu = results.and_then(|results| results.cpu.clone()).unwrap_or_default();
        Self { entries, predictions: theory.predictions, limits, machine, software, cpu }
    }

    pub fn lesson<'a>(&'a self, name: &'a str) -> Lesson<'a> {
        let entries: Vec<&Entry> = self.entries.iter().filter(|entry| entry.lesson == name).collect();
        let predictions = self.predictions.iter().filter(|prediction| prediction.lesson == name).collect();
        let mut sources: Vec<&str> = entries.iter().filter_map(|entry| entry.measured.as_deref()).collect();
        sources.sort_unstable();
        sources.dedup();
        let is_of_cpu = entries.iter().all(|entry| !entry.is_of_gpu());
        let whence = match (is_of_cpu, sources.join("; ")) {
            (true, sources) => format!("one core of {}, {sources}", self.cpu),
            (false, sources) => format!("{}, {}, {sources}", self.machine, self.software),
        };
        Lesson { name, entries, predictions, limits: &self.limits, whence }
    }

    /// Checks that no GPU's figure exceeds its datasheet.
    fn check(&self, check: &mut Check) {
        if let Some(copy) = self.limits.copy {
            check.value("the best copy in GB/s", copy, "docs/gallery");
        }
        let Some(peaks) = self.limits.peaks else { return };
        for entry in self.entries.iter().filter(|entry| entry.is_of_gpu()) {
            let what = || format!("{} {} {}", entry.lesson, entry.name, entry.problem);
            let Some(time) = entry.microseconds.filter(|_| entry.lesson != "transfers") else { continue };
            let bytes = entry.memory_bytes.unwrap_or(entry.bytes);
            check.rate(what, bytes / time / 1e3, peaks.gigabytes_per_second, "GB/s");
            check.rate(what, entry.flop / time / 1e6, peaks.fp32_tflops, "TFLOP/s");
            if let Some(percent) = entry.percent_of_peak() {
                check.share(what, percent / 100.0);
            }
        }
    }
}

/// The peer as an entry for its function, for the lesson with two functions: its name contains the function's.
fn with_its_function(peer: &Entry, ours: &[Entry]) -> Entry {
    let is_its = |entry: &&Entry| {
        let function = entry.name.rsplit_once('_').map(|(function, _)| function);
        entry.lesson == "fusion" && function.is_some_and(|function| peer.name.contains(function))
    };
    let found = ours.iter().find(is_its).filter(|_| peer.lesson == "fusion");
    Entry { at: found.map_or(peer.at, |entry| entry.at), ..peer.clone() }
}

/// Longer tables are folded.
const MOST_ROWS: usize = 22;

pub const NOT_MEASURED: &str = "Not measured on a GPU yet.\n";

/// Writes the generated parts of a lesson's page.
fn write_page(
    pages: &Path,
    name: &str,
    gallery: &Gallery,
    counted: &[Entry],
    roofline: Option<&roofline::Placed>,
) -> anyhow::Result<()> {
    let lesson = gallery.lesson(name);
    let file = format!("{name}.md");
    let page = pages.join(&file);
    let mut text = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    let mut put = |section: &str, words: &str| -> anyhow::Result<()> {
        text = with_section(&file, &text, section, words)?;
        Ok(())
    };
    put("path", &systems::path(pages, name)?)?;
    if let ("roofline", Some(roofline)) = (name, roofline) {
        let (counts, results) = roofline.sections(pages)?;
        put("counts", &counts)?;
        put("results", &results)?;
    } else {
        let counts: Vec<&Entry> = counted.iter().filter(|entry| entry.lesson == name).collect();
        put("predictions", &predictions::section(&lesson.predictions, &lesson.entries, lesson.limits))?;
        put("results", &results(&lesson, pages)?)?;
        let has_kernels = lesson.entries.iter().any(|entry| !entry.kernels.is_empty());
        if has_kernels {
            put("counts", &tables::counts(&counts).unwrap_or_else(|| "Not counted yet.\n".to_owned()))?;
        }
    }
    if name == "vector_add" {
        put("overtake", &overtake::section(&gallery.lesson("overtake"), &gallery.machine, pages)?)?;
    }
    if name == "matmul" {
        put("waves", &waves::section(&lesson, pages)?)?;
    }
    workspace::write(&page, &text)
}

/// The sources of a lesson's kernels that have changed since its figures were measured.
fn changed_since(lesson: &Lesson<'_>) -> Vec<String> {
    let commits =
        lesson.entries.iter().filter_map(|entry| entry.measured.as_deref()?.split([' ', ',']).nth(1));
    let mut commits: Vec<&str> = commits.collect();
    commits.sort_unstable();
    commits.dedup();
    let kernels = format!("gpu-kernels/lessons/src/gallery/{}", lesson.name);
    let sources = [format!("{kernels}.rs"), kernels];
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let changed = |commit: &str| stale::changed(workspace::root(), commit, &sources).unwrap_or_default();
    let mut changed: Vec<String> = commits.into_iter().flat_map(changed).collect();
    changed.sort_unstable();
    changed.dedup();
    changed
}

/// The picture of a lesson, which it draws, and its table.
fn results(lesson: &Lesson<'_>, pages: &Path) -> anyhow::Result<String> {
    if lesson.entries.iter().all(|entry| entry.microseconds.is_none()) {
        return Ok(NOT_MEASURED.to_owned());
    }
    let picture = match chart::draw(lesson)? {
        Some(svg) => {
            workspace::write(&pages.join(format!("{}.svg", lesson.name)), &svg)?;
            format!("![{}]({}.svg)\n\n", lesson.entries[0].title, lesson.name)
        }
        None => String::new(),
    };
    let told = match timeline::table(&lesson.entries)? {
        told if told.is_empty() => told,
        told => format!("\n{told}"),
    };
    let note = match stale::note(&changed_since(lesson)) {
        note if note.is_empty() => note,
        note => format!("\n{note}\n"),
    };
    let table = match tables::table(&lesson.entries) {
        table if table.lines().count() > MOST_ROWS => {
            format!("<details>\n<summary>The figures</summary>\n\n{table}\n</details>\n")
        }
        table => table,
    };
    Ok(format!("{picture}{table}{told}\nMeasured on: {}.\n{note}", lesson.whence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_is_compared_with_the_rungs_of_its_function() {
        let of =
            |name: &str, at| Entry { lesson: "fusion".to_owned(), ..Entry::of_test(name, at, Some(1.0)) };
        let ours = [of("sin_cos_parts", 0.0), of("gelu_parts", 1.0), of("gelu_fused", 1.0)];
        assert_eq!(with_its_function(&of("torch eager, gelu", 0.0), &ours).at, 1.0);
        assert_eq!(with_its_function(&of("torch eager, sin_cos", 0.0), &ours).at, 0.0);
        assert_eq!(with_its_function(&Entry::of_test("torch gelu", 7.0, None), &ours).at, 7.0);
    }
}
