//! `cargo xtask gallery`: runs the lessons of the gallery on what there is, and draws what it measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::report::Run;
use crate::{
    gallery_report as report, gallery_report_chart as chart, gallery_report_tables as tables,
    gallery_roofline as roofline, gallery_timeline as timeline, workspace,
};

/// Run the lessons of docs/gallery on what there is, and draw what was measured into target/gallery
#[derive(clap::Args)]
pub struct Gallery {
    /// The lessons [default: all]
    #[arg(value_name = "LESSON")]
    lessons: Vec<String>,

    /// Run each rung on its first problem and its last one only
    #[arg(long)]
    quick: bool,

    /// Count what warps do on the emulator of the kernels' PTX, in place of timing them: sectors, bank conflicts, divergence
    #[arg(long, conflicts_with = "device")]
    count: bool,

    /// Place every kernel of the workspace under a roofline by what the emulator counts, and with `--device cuda` by its time
    #[arg(long, conflicts_with_all = ["lessons", "quick", "count"])]
    roofline: bool,

    /// Where kernels run: auto, cpu or cuda
    #[arg(long, default_value = "auto")]
    device: String,
}

impl Gallery {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let folder = workspace::target().join("gallery");
        if self.roofline {
            return self.place_all(&folder);
        }
        let measured = folder.join(if self.count { "counts.json" } else { "gallery.json" });
        // What is there from before is no answer.
        let _ = std::fs::remove_file(&measured);
        let mut command = program();
        command.args(&self.lessons).arg("--out").arg(&measured);
        if self.count {
            command.arg("--count");
        } else {
            command.args(["--device", &self.device]);
        }
        command.args(self.quick.then_some("--quick"));
        let status = command.current_dir(workspace::root()).status().context("starting cargo")?;
        ensure!(measured.is_file(), "the gallery broke off, as said above ({status})");
        let run: Run<report::Entry> = Run::read(&measured)?;
        let whence = format!("{}, {}", run.machine, run.date);
        for lesson in report::lessons(&run.entries) {
            let of_lesson: Vec<&report::Entry> =
                run.entries.iter().filter(|entry| entry.lesson == lesson).collect();
            let title = &of_lesson[0].title;
            if self.count {
                println!("\n{title}\n\n{}", tables::counts(&of_lesson).unwrap_or_default());
                continue;
            }
            println!("\n{title}\n\n{}\n{}", tables::table(&of_lesson), timeline::table(&of_lesson)?);
            let drawn = match timeline::draw(&of_lesson, &whence)? {
                None => chart::draw(&of_lesson, &whence)?,
                drawn => drawn,
            };
            if let Some(svg) = drawn {
                let picture: PathBuf = folder.join(format!("{lesson}.svg"));
                workspace::write(&picture, &svg)?;
                println!("drawn: {}", workspace::shown(&picture));
            }
        }
        ensure!(status.success(), "some of it failed, as said above");
        Ok(())
    }

    fn place_all(&self, folder: &Path) -> anyhow::Result<()> {
        let files = [folder.join("roofline-counts.json"), folder.join("roofline.json")];
        for file in &files {
            let _ = std::fs::remove_file(file);
        }
        let run = |arguments: &[&str], out: &Path| {
            let mut command = program();
            command.arg("--roofline").args(arguments).arg("--out").arg(out);
            let status = command.current_dir(workspace::root()).status().context("starting cargo")?;
            ensure!(status.success(), "the gallery broke off, as said above ({status})");
            anyhow::Ok(())
        };
        run(&["--count"], &files[0])?;
        if self.device == "cuda" {
            run(&["--device", "cuda"], &files[1])?;
        }
        let Some(placed) = roofline::read(folder, None)? else { return Ok(()) };
        let (counts, times) = placed.sections(folder)?;
        println!("{counts}\n{times}\ndrawn: {}", workspace::shown(&folder.join("roofline.svg")));
        Ok(())
    }
}

/// The gallery's program, without arguments.
fn program() -> Command {
    let mut command = workspace::cargo();
    command.args(["run", "--quiet", "--package", "ferrowarp-benches", "--bin", "gallery", "--"]);
    command
}
