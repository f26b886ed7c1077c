//! `cargo xtask gallery`: runs the lessons of the gallery on this machine, and draws the measurements.

mod chart;
mod claims;
pub mod drawings;
mod formula;
pub mod index;
mod links;
mod machine;
pub mod ncu;
mod page;
mod predictions;
pub mod report;
mod roofline;
mod tables;
pub mod texts;
mod timeline;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use ferrowarp_report::gallery::Entry;

use crate::report::{Run, peaks};
use crate::workspace;
use page::{Lesson, Limits, Page};

/// Run the lessons of docs/gallery on this machine, and draw what was measured into target/gallery
#[derive(clap::Args)]
pub struct Gallery {
    /// The lessons [default: all]
    #[arg(value_name = "LESSON")]
    lessons: Vec<String>,

    /// Run each rung on its first problem and its last one only
    #[arg(long)]
    quick: bool,

    /// Count what warps do (sectors, bank conflicts, divergence) on the emulator of the kernels' PTX instead of timing them
    #[arg(long, conflicts_with = "device")]
    count: bool,

    /// Place every kernel of the workspace under a roofline, by the emulator's counts and, with `--device cuda`, by its time
    #[arg(long, conflicts_with_all = ["lessons", "quick", "count"])]
    roofline: bool,

    /// Run nothing, but draw again the pictures that explain a lesson, into docs/gallery
    #[arg(long, conflicts_with_all = ["lessons", "quick", "count", "roofline", "device"])]
    drawings: bool,

    /// Where kernels run: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    device: String,

    /// Run this program instead of building the gallery's
    #[arg(long, value_name = "FILE", conflicts_with_all = ["roofline", "drawings"])]
    program: Option<PathBuf>,
}

impl Gallery {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        if self.drawings {
            return drawings::write(&workspace::root().join("docs/gallery"));
        }
        let folder = workspace::target().join("gallery");
        if self.roofline {
            return self.place_all(&folder);
        }
        let stage = stage_in(&folder)?;
        let name = if self.count { "counts.json" } else { "gallery.json" };
        let measured = stage.path().join(name);
        let mut command = self.program.as_ref().map_or_else(workspace::gallery, Command::new);
        command.args(&self.lessons).arg("--out").arg(&measured);
        if self.count {
            command.arg("--count");
        } else {
            command.args(["--device", &self.device]);
        }
        command.args(self.quick.then_some("--quick"));
        let status = command.current_dir(workspace::root()).status().context("starting the gallery")?;
        ensure!(measured.is_file(), "the gallery stopped early; its message is above ({status})");
        let run: Run<Entry> = Run::read(&measured)?;
        publish(&measured, &folder.join(name))?;
        let whence = format!("{}, {}", run.machine, run.date);
        let limits = Limits { copy: None, peaks: peaks::of(&run.machine) };
        let pages = workspace::root().join("docs/gallery");
        for entries in run.entries.chunk_by(|a, b| a.lesson == b.lesson) {
            let name = entries[0].lesson.clone();
            let title = index::title(&pages, &name).unwrap_or_else(|_| name.clone());
            if self.count {
                println!("\n{title}\n\n{}", tables::counts(entries).unwrap_or_default());
                continue;
            }
            let (page, entries) = (Page::read(&pages, &name)?, entries.to_vec());
            let lesson = Lesson { name, page, entries, limits, whence: whence.clone() };
            println!("\n{title}\n\n{}\n{}", tables::table(&lesson), timeline::table(&lesson.entries)?);
            if let Some(svg) = chart::draw(&lesson, &title)? {
                let picture: PathBuf = folder.join(format!("{}.svg", lesson.name));
                workspace::write(&picture, &svg)?;
                println!("drawn: {}", workspace::shown(&picture));
            }
        }
        ensure!(status.success(), "some lessons failed; the messages are above");
        Ok(())
    }

    fn place_all(&self, folder: &Path) -> anyhow::Result<()> {
        let stage = stage_in(folder)?;
        let names = ["roofline-counts.json", "roofline.json"];
        let files = names.map(|name| stage.path().join(name));
        let run = |arguments: &[&str], out: &Path| {
            let mut command = workspace::gallery();
            command.arg("--roofline").args(arguments).arg("--out").arg(out);
            let status = command.current_dir(workspace::root()).status().context("starting cargo")?;
            ensure!(status.success(), "the gallery stopped early; its message is above ({status})");
            anyhow::Ok(())
        };
        run(&["--count"], &files[0])?;
        if self.device == "cuda" {
            run(&["--device", "cuda"], &files[1])?;
        }
        let placed = roofline::read(stage.path(), &[], Limits::default())?;
        for (file, name) in files.iter().zip(names).filter(|(file, _)| file.is_file()) {
            publish(file, &folder.join(name))?;
        }
        let Some(placed) = placed else { return Ok(()) };
        let (counts, times) = placed.sections(folder)?;
        println!("{counts}\n{times}\ndrawn: {}", workspace::shown(&folder.join("roofline.svg")));
        Ok(())
    }
}

/// A temporary folder in `folder` for the files of this run, so that those of an earlier one stay until it is complete.
fn stage_in(folder: &Path) -> anyhow::Result<tempfile::TempDir> {
    std::fs::create_dir_all(folder).with_context(|| format!("making the folder {}", folder.display()))?;
    tempfile::tempdir_in(folder).with_context(|| format!("making a folder in {}", folder.display()))
}

/// Moves a file of this run over that of an earlier one.
fn publish(file: &Path, destination: &Path) -> anyhow::Result<()> {
    std::fs::rename(file, destination).with_context(|| format!("could not write {}", destination.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lesson of copies, with these rungs, problems and times.
    pub fn lesson(entries: &[(&str, f64, Option<f64>)]) -> Lesson {
        let entry = |&(name, at, microseconds): &(&str, f64, Option<f64>)| Entry {
            name: name.to_owned(),
            lesson: "copies".to_owned(),
            idea: "copies".to_owned(),
            at,
            problem: format!("{at} bytes"),
            bytes: 1e6,
            microseconds,
            samples: 1,
            ..Entry::default()
        };
        Lesson {
            page: Page { axis: "bytes".to_owned(), ..Page::default() },
            entries: entries.iter().map(entry).collect(),
            limits: Limits { copy: Some(100.0), peaks: None },
            ..Lesson::default()
        }
    }

    /// Every formula has a value, and every prediction of a rung that was measured a measurement.
    #[test]
    fn files_name_what_was_measured() {
        let docs = workspace::root().join("docs");
        let results = report::Results::read(&docs.join("results/gallery.json")).unwrap();
        for file in docs.join("gallery").read_dir().unwrap() {
            let file = file.unwrap().file_name().into_string().unwrap();
            // The other file is not a lesson's.
            let Some(name) = file.strip_suffix(".toml").filter(|name| *name != "texts") else { continue };
            let page = Page::read(&docs.join("gallery"), name).unwrap();
            let all = results.ours.iter().chain(&results.peers);
            let entries: Vec<Entry> = all.filter(|entry| entry.lesson == name).cloned().collect();
            let limits = Limits { copy: Some(1.0), peaks: peaks::of(&results.machine) };
            let lesson = Lesson { name: name.to_owned(), page, entries, limits, whence: String::new() };
            let mut is_complete = true;
            for prediction in &lesson.page.predictions {
                let has_time = |entry: Option<&Entry>| entry.is_some_and(|it| it.microseconds.is_some());
                let is_alone = prediction.over.is_none();
                let is_measured =
                    has_time(prediction.entry(&lesson)) && (is_alone || has_time(prediction.other(&lesson)));
                let is_predicted = prediction.microseconds(&lesson).is_some();
                is_complete &= is_measured;
                // A machine may not report the peak of its CPU.
                let may_lack = is_measured && format!("{prediction:?}").contains("peak");
                assert!(is_predicted == is_measured || may_lack, "{name}: {prediction:?}");
            }
            if is_complete {
                lesson.finding().unwrap();
            }
            for formula in lesson.page.roofs.values() {
                lesson.formula(formula, &|_| None).unwrap();
            }
        }
    }
}
