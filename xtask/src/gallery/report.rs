//! `cargo xtask report gallery`: writes runs of the gallery on a GPU and of its peers into `docs/gallery`.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use ferrowarp_report::gallery::Entry;

use super::page::{Lesson, Limits, NOT_MEASURED, Page, is_of_gpu, is_peer};
use super::{chart, drawings, index, ncu, predictions, roofline, tables, texts, timeline};
use crate::report::peaks::{self, Check};
use crate::report::{self, Files, Run, Timed, with_section};
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
#[derive(Default)]
pub struct Gallery {
    /// Ours with their times, and the peers'.
    pub entries: Vec<Entry>,
    pub limits: Limits,
    machine: String,
    /// Driver and versions.
    software: String,
    /// The processor of the machine.
    cpu: String,
}

impl report::Entry for Entry {
    const RUN: &'static str = "gallery";

    fn is_replaced_by(&self, later: &Self) -> bool {
        (&self.lesson, &self.name, &self.problem, self.at)
            == (&later.lesson, &later.name, &later.problem, later.at)
    }
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
    let gallery = Gallery::new(&plan()?, results.as_ref(), &folder);
    let roofline = roofline.merged(&folder, &gallery.entries, gallery.limits)?;
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
    for name in index::lessons(&pages)? {
        write_page(&pages, &name, &gallery, &counted, roofline.as_ref())?;
    }
    drawings::write(&pages)?;
    texts::write()?;
    println!("written to docs/gallery");
    Ok(())
}

/// The trials of a GPU without their times, from the gallery's program.
fn plan() -> anyhow::Result<Vec<Entry>> {
    let file = workspace::target().join("gallery/theory.json");
    let folder = file.parent().context("the target folder has no parent")?;
    std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut command = workspace::gallery();
    command.arg("--theory").arg("--out").arg(&file).current_dir(workspace::root());
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "`gallery --theory` failed ({status})");
    Ok(Run::read(&file)?.entries)
}

/// Merges the committed figures with `new`, which replaces the figures of the same lessons.
fn update(kept: Option<Results>, mut new: Results) -> anyhow::Result<Results> {
    let source = format!("commit {}, {}", new.commit, new.date);
    for entry in new.ours.iter_mut().chain(&mut new.peers) {
        entry.measured.get_or_insert_with(|| source.clone());
    }
    let Some(kept) = kept else { return Ok(new) };
    ensure!(
        kept.machine == new.machine,
        "the committed figures are those of {}, the new ones of {}; measure on the same machine, or delete the file first",
        kept.machine,
        new.machine
    );
    let keep = |mut old: Vec<Entry>, new: &mut Vec<Entry>| {
        old.retain(|old| !new.iter().any(|new| new.lesson == old.lesson));
        old.append(new);
        *new = old;
    };
    keep(kept.ours, &mut new.ours);
    keep(kept.peers, &mut new.peers);
    for (name, version) in kept.versions {
        new.versions.entry(name).or_insert(version);
    }
    Ok(new)
}

/// The planned entries with their times; bytes, operations and words are from the plan. A rung that is no longer planned is
/// omitted, and one that has not run yet has no time. A host's problem may contain the host's name, so that a rung without
/// kernels has the problems that were measured.
fn with_times(plan: &[Entry], measured: &[Entry]) -> Vec<Entry> {
    let mut merged: Vec<Entry> = Vec::new();
    for plan in plan {
        let of_rung =
            || measured.iter().filter(|entry| (&entry.lesson, &entry.name) == (&plan.lesson, &plan.name));
        let key = |entry: &Entry| (entry.problem.clone(), entry.at);
        let timed = of_rung().find(|entry| key(entry) == key(plan)).cloned();
        match timed {
            Some(Entry { peak, microseconds, samples, lacking, timeline, error, measured, .. }) => {
                merged.push(Entry {
                    peak,
                    microseconds,
                    samples,
                    lacking,
                    timeline,
                    error,
                    measured,
                    ..plan.clone()
                });
            }
            None if plan.kernels.is_empty() && of_rung().count() > 0 => {
                let is_new =
                    |entry: &&Entry| !merged.iter().any(|known| report::Entry::is_replaced_by(known, entry));
                let new: Vec<Entry> = of_rung().filter(is_new).cloned().collect();
                merged.extend(new);
            }
            None => merged.push(plan.clone()),
        }
    }
    merged
}

/// The committed counts, merged with new ones. Nsight Compute's counts of the same problems are kept.
fn counted(kept: &Path, counts: Option<&Path>, ncu: Option<&Path>) -> anyhow::Result<Vec<Entry>> {
    let before = kept.is_file().then(|| Results::read(kept)).transpose()?;
    let before = before.map(|results| results.ours).unwrap_or_default();
    let Some(counts) = counts else { return Ok(before) };
    let mut counted = Results::merge(Run::read(counts)?, None)?;
    for entry in &mut counted.ours {
        let same = before.iter().find(|old| report::Entry::is_replaced_by(*old, entry));
        entry.profiled = same.and_then(|old| old.profiled);
    }
    if let Some(ncu) = ncu {
        ncu::merge(&mut counted.ours, ncu)?;
    }
    counted.write(kept)?;
    Ok(counted.ours)
}

impl Gallery {
    fn new(plan: &[Entry], results: Option<&Results>, folder: &Path) -> Self {
        let Some(results) = results else { return Self { entries: plan.to_vec(), ..Self::default() } };
        let mut entries = with_times(plan, &results.ours);
        let peers: Vec<Entry> = results.peers.iter().map(|peer| with_its_function(peer, &entries)).collect();
        // A peer at a problem that no rung has is compared with nothing.
        let is_compared =
            |peer: &Entry| entries.iter().any(|entry| (&entry.lesson, entry.at) == (&peer.lesson, peer.at));
        entries = [entries.clone(), peers.into_iter().filter(is_compared).collect()].concat();
        let machine = results.machine.clone();
        let softmax = report::Results::<Timed>::read(&folder.join("softmax.json")).ok();
        let softmax = softmax.filter(|softmax| softmax.machine == machine);
        // One value for all pages: the fastest copy of any report.
        let copies = entries.iter().filter(|entry| entry.lesson == "copy_offset");
        let copies = copies.filter_map(|entry| Some(entry.bytes / entry.microseconds? / 1e3));
        let copy = copies.chain(softmax.and_then(|softmax| softmax.largest_copy_rate())).reduce(f64::max);
        let limits = Limits { copy, peaks: peaks::of(&machine) };
        let versions = results.versions.iter().map(|(name, version)| format!(", {name} {version}"));
        let software = format!("driver {}{}", results.driver, versions.collect::<String>());
        let cpu = results.cpu.clone().unwrap_or_default();
        Self { entries, limits, machine, software, cpu }
    }

    fn lesson(&self, pages: &Path, name: &str) -> anyhow::Result<Lesson> {
        let entries: Vec<Entry> = self.entries.iter().filter(|entry| entry.lesson == name).cloned().collect();
        let mut sources: Vec<&str> = entries.iter().filter_map(|entry| entry.measured.as_deref()).collect();
        sources.sort_unstable();
        sources.dedup();
        let sources = sources.join("; ");
        let whence = match entries.iter().filter(|entry| is_of_gpu(entry)).count() {
            0 => format!("one core of {}, {sources}", self.cpu),
            all if all == entries.len() => format!("{}, {}, {sources}", self.machine, self.software),
            _ => format!("{}, {}, CPU {}, {sources}", self.machine, self.software, self.cpu),
        };
        Ok(Lesson {
            name: name.to_owned(),
            page: Page::read(pages, name)?,
            entries,
            limits: self.limits,
            whence,
        })
    }

    /// Checks that no GPU's figure exceeds its datasheet.
    fn check(&self, check: &mut Check) {
        if let Some(copy) = self.limits.copy {
            check.value("the best copy in GB/s", copy, "docs/gallery");
        }
        let Some(peaks) = self.limits.peaks else { return };
        for entry in self.entries.iter().filter(|entry| is_of_gpu(entry)) {
            let what = || format!("{} {} {}", entry.lesson, entry.name, entry.problem);
            let Some(time) = entry.microseconds.filter(|_| entry.lesson != "transfers") else { continue };
            let bytes = entry.memory_bytes.unwrap_or(entry.bytes);
            check.rate(what, bytes / time / 1e3, peaks.gigabytes_per_second, "GB/s");
            match entry.peak.filter(|_| entry.flop > 0.0) {
                Some(peak) => check.share(what, 1e6 * entry.flop / time / peak),
                None => check.rate(what, entry.flop / time / 1e6, peaks.fp32_tflops, "TFLOP/s"),
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

/// Writes the generated parts of a lesson's page.
fn write_page(
    pages: &Path,
    name: &str,
    gallery: &Gallery,
    counted: &[Entry],
    roofline: Option<&roofline::Placed>,
) -> anyhow::Result<()> {
    let file = format!("{name}.md");
    let page = pages.join(&file);
    let mut text = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
    let has_resources = text.contains("<!-- resources -->");
    let mut put = |section: &str, words: &str| -> anyhow::Result<()> {
        text = with_section(&file, &text, section, words)?;
        Ok(())
    };
    put("path", &index::path(pages, name)?)?;
    if name == "roofline" {
        if let Some(roofline) = roofline {
            let (counts, results) = roofline.sections(pages)?;
            put("counts", &counts)?;
            put("results", &results)?;
        }
        return workspace::write(&page, &text);
    }
    let lesson = gallery.lesson(pages, name)?;
    put("predictions", &predictions::section(&lesson))?;
    put("results", &results(&lesson, &index::title(pages, name)?, pages)?)?;
    let mut lessons = vec![lesson];
    for (more, title) in index::further(pages, name)? {
        let lesson = gallery.lesson(pages, &more)?;
        let figures = results(&lesson, &title, pages)?;
        put(&more, &format!("{}\n{figures}", predictions::section(&lesson)))?;
        lessons.push(lesson);
    }
    if has_resources && let Some(table) = tables::resources(&lessons[0])? {
        put("resources", &table)?;
    }
    let entries: Vec<&Entry> = lessons.iter().flat_map(|lesson| &lesson.entries).collect();
    if entries.iter().any(|entry| !entry.kernels.is_empty()) {
        let planned = |entry: &&Entry| {
            entries.iter().any(|planned| (&planned.lesson, &planned.name) == (&entry.lesson, &entry.name))
        };
        let counts: Vec<Entry> = counted.iter().filter(planned).cloned().collect();
        put("counts", &tables::counts(&counts).unwrap_or_else(|| "Not counted yet.\n".to_owned()))?;
    }
    workspace::write(&page, &text)
}

/// The picture of a lesson, which it draws, and its tables.
fn results(lesson: &Lesson, title: &str, pages: &Path) -> anyhow::Result<String> {
    if !lesson.entries.iter().any(|entry| entry.microseconds.is_some() && !is_peer(entry)) {
        return Ok(NOT_MEASURED.to_owned());
    }
    let picture = match chart::draw(lesson, title)? {
        Some(svg) => {
            workspace::write(&pages.join(format!("{}.svg", lesson.name)), &svg)?;
            let finding = lesson.finding().unwrap_or_else(|_| title.to_owned());
            format!("![{finding}]({}.svg)\n\n", lesson.name)
        }
        None => String::new(),
    };
    let mut table = tables::table(lesson);
    if table.lines().count() > MOST_ROWS {
        table = format!("<details>\n<summary>The figures</summary>\n\n{table}\n</details>\n");
    }
    for more in [tables::crossovers(lesson), timeline::table(&lesson.entries)?] {
        if !more.is_empty() {
            table += &format!("\n{more}");
        }
    }
    Ok(format!("{picture}{table}\nMeasured on: {}.\n", lesson.whence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery::tests::lesson;

    fn results(commit: &str, ours: Vec<Entry>) -> Results {
        let mut results: Results = serde_json::from_str(
            "{\"machine\":\"a GPU\",\"driver\":\"1\",\"date\":\"2026-01-01\",\"commit\":\"\",\"versions\":{},\"ours\":[],\"peers\":[]}",
        )
        .unwrap();
        (results.commit, results.ours) = (commit.to_owned(), ours);
        results
    }

    fn entry(lesson: &str, name: &str, microseconds: Option<f64>) -> Entry {
        let entry = self::lesson(&[(name, 1.0, microseconds)]).entries.remove(0);
        Entry { lesson: lesson.to_owned(), kernels: vec![name.to_owned()], ..entry }
    }

    #[test]
    fn a_run_of_one_lesson_leaves_the_others_with_their_commit() {
        let first = results("old", vec![entry("copies", "a", Some(1.0)), entry("sums", "b", Some(2.0))]);
        let first = update(None, first).unwrap();
        let both = update(Some(first), results("new", vec![entry("sums", "c", Some(3.0))])).unwrap();
        let told: Vec<_> =
            both.ours.iter().map(|e| (&*e.name, e.measured.as_deref().unwrap_or_default())).collect();
        assert_eq!(told, [("a", "commit old, 2026-01-01"), ("c", "commit new, 2026-01-01")]);
        let mut other = results("new", Vec::new());
        other.machine = "another GPU".to_owned();
        assert!(update(Some(both), other).unwrap_err().to_string().contains("another GPU"));
    }

    #[test]
    fn bytes_are_those_of_todays_table() {
        let plan = [Entry { bytes: 5.0, ..entry("copies", "a", None) }, entry("copies", "not_run", None)];
        let merged =
            with_times(&plan, &[entry("copies", "a", Some(7.0)), entry("copies", "gone", Some(1.0))]);
        let told: Vec<_> = merged.iter().map(|e| (&*e.name, e.bytes, e.microseconds)).collect();
        assert_eq!(told, [("a", 5.0, Some(7.0)), ("not_run", 1e6, None)]);
    }

    #[test]
    fn a_peer_is_compared_with_the_rungs_of_its_function() {
        let of = |name: &str, at| Entry { at, ..entry("fusion", name, Some(1.0)) };
        let ours = [of("sin_cos_parts", 0.0), of("gelu_parts", 1.0), of("gelu_fused", 1.0)];
        assert_eq!(with_its_function(&of("torch eager, gelu", 0.0), &ours).at, 1.0);
        assert_eq!(with_its_function(&of("torch eager, sin_cos", 0.0), &ours).at, 0.0);
        assert_eq!(with_its_function(&Entry { at: 7.0, ..entry("", "torch gelu", None) }, &ours).at, 7.0);
    }
}
