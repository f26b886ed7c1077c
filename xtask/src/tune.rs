//! `cargo xtask tune`: what the settings of `train-mnist --preset record` were chosen by, into `docs/results/record.md`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};

use crate::measure::{build_trainer, commit, date, machine, output};
use crate::report::row;
use crate::workspace;

/// Training images of MNIST, and how many of them are held out.
const IMAGES: u32 = 60_000;
const HELD_OUT: u32 = 10_000;

/// The largest batch of the pipeline `resident`.
const RESIDENT: u32 = 64;

/// The accuracy to reach, in percent.
const TARGET: f64 = 98.0;

/// Batch sizes, each with learning rates and numbers of epochs.
const CANDIDATES: [(u32, [&str; 4], [u32; 3]); 2] =
    [(64, ["0.3", "0.4", "0.5", "0.6"], [3, 4, 5]), (128, ["0.4", "0.6", "0.8", "1.0"], [5, 6, 7])];

/// Train with each candidate for the preset `record`, test on held-out training images, and write a table
#[derive(clap::Args)]
pub struct Tune {
    /// Networks of a candidate, from as many seeds; at least 2
    #[arg(long, value_name = "N", default_value_t = 3)]
    seeds: u32,

    /// Where the kernels run, as `train-mnist --device` takes it
    #[arg(long, default_value = "cpu")]
    device: String,
}

/// A candidate and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Candidate {
    batch: u32,
    rate: &'static str,
    epochs: u32,
    accuracy: Accuracy,
}

/// Held-out images that were right, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Accuracy {
    mean: f64,
    least: f64,
    most: f64,
}

impl Tune {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        ensure!(self.seeds >= 2, "{} seeds tell no spread; give --seeds 2 or more", self.seeds);
        let trainer = build_trainer()?;
        let mut candidates = Vec::new();
        for (batch, rates, epochs) in CANDIDATES {
            for (rate, epochs) in rates.into_iter().flat_map(|rate| epochs.map(|epochs| (rate, epochs))) {
                let mut candidate = Candidate { batch, rate, epochs, accuracy: Accuracy::default() };
                candidate.accuracy = self.train(&trainer, &candidate)?;
                println!("{candidate:?}");
                candidates.push(candidate);
            }
        }
        let whence = format!("{}, {}, commit {}", machine()?, date()?, commit()?);
        let path = workspace::root().join("docs/results/record.md");
        std::fs::write(&path, document(candidates, self.seeds, &whence))
            .with_context(|| format!("writing {}", path.display()))?;
        println!("written to {}", workspace::shown(&path));
        Ok(())
    }

    fn train(&self, trainer: &Path, candidate: &Candidate) -> anyhow::Result<Accuracy> {
        let Candidate { batch, rate, epochs, .. } = candidate;
        let mut command = Command::new(trainer);
        command.current_dir(workspace::root()).args(["--device", &self.device, "--lr-schedule", "linear"]);
        command.args(["--hold-out", &HELD_OUT.to_string(), "--batch-size", &batch.to_string()]);
        command.args(["--lr", rate, "--epochs", &epochs.to_string()]);
        command.args(["--seeds", &format!("1..{}", self.seeds)]);
        accuracy(&output(&mut command)?)
    }
}

/// What the program says of several seeds.
fn accuracy(printed: &str) -> anyhow::Result<Accuracy> {
    let line = printed.lines().find_map(|line| line.strip_prefix("test accuracy, %: "));
    let parsed = line.and_then(|line| {
        let (mean, rest) = line.split_once(" on average, ")?;
        let (least, most) = rest.split_once(" to ")?;
        Some(Accuracy { mean: mean.parse().ok()?, least: least.parse().ok()?, most: most.parse().ok()? })
    });
    parsed.with_context(|| format!("train-mnist does not tell the accuracy of the seeds:\n{printed}"))
}

impl Candidate {
    /// Steps on all training images, none of them held out.
    fn steps(&self) -> u32 {
        self.epochs * IMAGES.div_ceil(self.batch)
    }
}

fn document(mut candidates: Vec<Candidate>, seeds: u32, whence: &str) -> String {
    candidates.sort_by(|a, b| a.steps().cmp(&b.steps()).then(b.accuracy.mean.total_cmp(&a.accuracy.mean)));
    let mut text = "# The settings of `train-mnist --preset record`\n\n".to_owned();
    let _ = writeln!(
        text,
        "Networks of 784-300-100-10 that were trained on the first {} training images of MNIST and tested on the last \
         {HELD_OUT}; no test image was used. The learning rate falls linearly from the one named. Steps are those on all \
         {IMAGES} images. Candidates are ranked by them, since the time of a step on a GPU is not measured here. \
         Accuracies in percent, of {seeds} seeds. {whence}; written by `cargo xtask tune`.\n",
        IMAGES - HELD_OUT
    );
    let fewest = |most: u32| {
        let mut those = candidates.iter().filter(|candidate| candidate.batch <= most);
        those.find(|candidate| candidate.accuracy.least >= TARGET)
    };
    let _ = match fewest(u32::MAX) {
        Some(Candidate { batch, rate, epochs, .. }) => writeln!(
            text,
            "The fewest steps with which every seed reaches {TARGET} %: batches of {batch}, learning rate {rate}, {epochs} \
             epochs."
        ),
        None => writeln!(text, "With none of them every seed reaches {TARGET} %."),
    };
    if let Some(Candidate { batch, rate, epochs, .. }) = fewest(RESIDENT) {
        let _ = writeln!(
            text,
            "Of batches that the pipeline `resident` takes: batches of {batch}, learning rate {rate}, {epochs} epochs."
        );
    }
    text.push('\n');
    let header = ["batches of", "learning rate", "epochs", "steps", "mean", "least", "most"];
    text += &row(&header.map(str::to_owned));
    text += &row(&["---:"; 7].map(str::to_owned));
    for candidate in &candidates {
        let Candidate { batch, rate, epochs, accuracy: Accuracy { mean, least, most } } = candidate;
        text += &row(&[
            batch.to_string(),
            (*rate).to_owned(),
            epochs.to_string(),
            candidate.steps().to_string(),
            format!("{mean:.2}"),
            format!("{least:.2}"),
            format!("{most:.2}"),
        ]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(batch: u32, epochs: u32, mean: f64, least: f64) -> Candidate {
        Candidate { batch, rate: "0.3", epochs, accuracy: Accuracy { mean, least, most: 98.5 } }
    }

    #[test]
    fn the_summary_of_seeds_is_read() {
        let printed = "3 networks\ntest accuracy, %: 98.07 on average, 97.90 to 98.25\ntest loss: 0.1\n";
        assert_eq!(accuracy(printed).unwrap(), Accuracy { mean: 98.07, least: 97.9, most: 98.25 });
        let error = accuracy("test accuracy 98.07 %\n").unwrap_err().to_string();
        assert!(error.starts_with("train-mnist does not tell the accuracy of the seeds"), "{error}");
    }

    #[test]
    fn the_fewest_steps_with_which_all_seeds_reach_the_target_are_chosen() {
        let all = vec![
            candidate(64, 3, 98.2, 98.1),
            candidate(64, 4, 98.4, 98.3),
            candidate(128, 5, 98.2, 97.99),
            candidate(128, 4, 98.0, 97.9),
        ];
        let text = document(all.clone(), 3, "here");
        assert!(text.contains("reaches 98 %: batches of 64, learning rate 0.3, 3 epochs.\n"), "{text}");
        let larger = document([&all[..], &[candidate(128, 6, 98.3, 98.2)]].concat(), 3, "here");
        assert!(larger.contains("reaches 98 %: batches of 128, learning rate 0.3, 6 epochs.\n"), "{larger}");
        assert!(
            larger.contains("`resident` takes: batches of 64, learning rate 0.3, 3 epochs.\n"),
            "{larger}"
        );
        let steps: Vec<&str> = text.lines().filter_map(|line| line.split(" | ").nth(3)).skip(1).collect();
        assert_eq!(steps[steps.len() - 4..], ["1876", "2345", "2814", "3752"], "{text}");
        let none = document(all[2..].to_vec(), 3, "here");
        assert!(none.contains("With none of them every seed reaches 98 %.\n"), "{none}");
    }
}
