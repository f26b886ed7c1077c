//! `cargo xtask timelines`: the timelines on the training ladder's page.

pub mod page;
#[cfg(test)]
mod tests;
pub mod traced;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::measure::{build_trainer, commit, date, output};
use crate::report::mlp;
use crate::report::mlp::ladder::{PAGE, rungs};
use crate::report::timelines::traced::{Origin, Timelines as All, Traced};
use crate::workspace;

/// Draw what runs when in the first steps of an epoch, for every rung of docs/training-ladder.md, on one axis per machine
#[derive(clap::Args)]
pub struct Timelines {
    /// Where the kernels run, as in `train-mnist --device`
    #[arg(long, default_value = "cpu")]
    device: String,

    /// A rung to train; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    rung: Vec<String>,

    /// Train nothing, but take pictures that `train-mnist --timeline` drew elsewhere: a file, or the output folder of the
    /// bundle's run.sh; may be repeated
    #[arg(long, value_name = "PATH", conflicts_with_all = ["device", "rung", "redraw"])]
    merge: Vec<PathBuf>,

    /// The commit of those pictures that do not name theirs
    #[arg(long, requires_all = ["merge", "date"])]
    commit: Option<String>,

    /// Their date, as 2026-11-23
    #[arg(long, requires = "commit")]
    date: Option<String>,

    /// Train nothing, but draw again what was merged last
    #[arg(long, conflicts_with_all = ["device", "rung"])]
    redraw: bool,
}

impl Timelines {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let path = workspace::root().join("docs").join(PAGE);
        let page = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let of_page = rungs(&page);
        for name in &self.rung {
            let known = of_page.join(", ");
            ensure!(of_page.contains(&name.as_str()), "docs/{PAGE} has no rung {name}; it has {known}");
        }
        let mut all = All::read()?;
        if !self.merge.is_empty() {
            for picture in self.pictures(&of_page)? {
                all.put(self.read(&picture)?);
            }
        } else if !self.redraw {
            let trainer = build_trainer()?;
            let asked = |name: &&&str| self.rung.is_empty() || self.rung.iter().any(|rung| rung == **name);
            for name in of_page.iter().filter(asked) {
                all.put(self.train(&trainer, name)?);
            }
        }
        all.write()?;
        draw(&all)
    }

    /// The files to merge.
    fn pictures(&self, of_page: &[&str]) -> anyhow::Result<Vec<PathBuf>> {
        let mut found = Vec::new();
        for path in &self.merge {
            if path.is_file() {
                found.push(path.clone());
                continue;
            }
            let files = of_page.iter().map(|name| path.join(format!("{name}.svg")));
            let before = found.len();
            found.extend(files.filter(|file| file.is_file()));
            ensure!(
                found.len() > before,
                "{} has no timeline; run.sh draws naive.svg and others",
                path.display()
            );
        }
        Ok(found)
    }

    fn read(&self, picture: &Path) -> anyhow::Result<Traced> {
        let svg =
            std::fs::read_to_string(picture).with_context(|| format!("reading {}", picture.display()))?;
        let origin = self.commit.clone().zip(self.date.clone());
        let origin = origin.map(|(commit, date)| Origin { commit, date });
        Traced::read(&svg, origin.as_ref())
            .with_context(|| format!("{} cannot be taken as a timeline", picture.display()))
    }

    /// Trains with one rung. On a GPU the first epoch is a warm-up; on a CPU it would only take time.
    fn train(&self, trainer: &Path, name: &str) -> anyhow::Result<Traced> {
        let folder = tempfile::tempdir().context("making a folder for the picture")?;
        let path = folder.path().join(format!("{name}.svg"));
        let mut command = Command::new(trainer);
        command.current_dir(workspace::root());
        let epochs = if self.device == "cpu" { "1" } else { "2" };
        command
            .args(["--device", &self.device, "--pipeline", name, "--epochs", epochs, "--timeline"])
            .arg(&path);
        output(&mut command)?;
        let svg = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let traced = Traced::read(&svg, Some(&Origin { commit: commit()?, date: date()? }))?;
        // If a rung cannot run here, another one runs instead.
        ensure!(traced.rung == name, "{name} cannot run on this device; name another one with --device");
        Ok(traced)
    }
}

/// Draws all pictures, and writes them and their figures to the page.
fn draw(all: &All) -> anyhow::Result<()> {
    let docs = workspace::root().join("docs");
    for traced in &all.timelines {
        let path = docs.join(traced.file());
        workspace::write(&path, &page::picture(traced, all)?)?;
        println!("{}", workspace::shown(&path));
    }
    update_page(all)
}

/// Writes the figures of all timelines to the page, next to the bench's.
pub fn update_page(all: &All) -> anyhow::Result<()> {
    let path = workspace::root().join("docs").join(PAGE);
    let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    workspace::write(&path, &page::fill(&text, all, bench().as_ref())?)
}

/// The committed figures of the bench.
fn bench() -> Option<mlp::Results> {
    mlp::Results::read(&workspace::root().join("docs/results/mlp.json")).ok()
}
