//! `cargo xtask timelines`: the timelines on the training ladder's page.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::measure::{build_trainer, output};
use crate::report::mlp::ladder::{PAGE, rungs};
use crate::workspace;

/// Train on MNIST with every rung of docs/training-ladder.md, and draw a timeline of the first 64 steps of an epoch
#[derive(clap::Args)]
pub struct Timelines {
    /// Where the kernels run, as in `train-mnist --device`
    #[arg(long, default_value = "cpu")]
    device: String,

    /// A rung to draw; may be repeated [default: all]
    #[arg(long, value_name = "NAME")]
    rung: Vec<String>,
}

impl Timelines {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        let docs = workspace::root().join("docs");
        let page = docs.join(PAGE);
        let page = std::fs::read_to_string(&page).with_context(|| format!("reading {}", page.display()))?;
        let of_page = rungs(&page);
        for name in &self.rung {
            let known = of_page.join(", ");
            ensure!(of_page.contains(&name.as_str()), "docs/{PAGE} has no rung {name}; it has {known}");
        }
        let folder = docs.join("timelines");
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let trainer = build_trainer()?;
        for name in of_page.iter().filter(|name| self.rung.is_empty() || self.rung.iter().any(|r| r == *name))
        {
            self.draw(&trainer, name, &folder.join(format!("{name}.svg")))?;
        }
        Ok(())
    }

    /// Draws one rung. On a GPU the first epoch is to warm up; on a CPU it would only take its time.
    fn draw(&self, trainer: &Path, name: &str, path: &Path) -> anyhow::Result<()> {
        let mut command = Command::new(trainer);
        command.current_dir(workspace::root());
        let epochs = if self.device == "cpu" { "1" } else { "2" };
        command
            .args(["--device", &self.device, "--pipeline", name, "--epochs", epochs, "--timeline"])
            .arg(path);
        output(&mut command)?;
        let svg = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        // A rung that steps aside has another one's picture.
        ensure!(
            svg.contains(&format!("pipeline {name}, ")),
            "{name} cannot run on this device; name another one with --device"
        );
        println!("{}", workspace::shown(path));
        Ok(())
    }
}
