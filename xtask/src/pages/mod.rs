//! `cargo xtask report`: writes measurements into `docs/` and the README. One file per subject; `crate::report` is what they
//! share.

mod accuracy;
mod attention;
mod candle;
mod charts;
mod collective;
mod cpu;
mod matmul;
mod matmul80;
mod operations;
mod profiles;
mod random;
mod rows;
mod softmax;
mod targets;
mod timelines;
mod training;

use crate::gallery::{report as gallery_report, texts};
use crate::report::{Files, Turns};

/// Merge the figures of a run into docs/ and the README, with charts; without files, write again what was merged last
#[derive(clap::Subcommand)]
pub enum Report {
    /// The errors of every operation: `self-check random --json` on a GPU and a CPU, and benches/peers/accuracy.py
    Accuracy(accuracy::Merged),
    /// Attention and its peers, in turns: benches/peers/attention.py; and the rungs of its ladder
    Attention(attention::Merged),
    /// Attention by the code for compute capability 8.0: benches/peers/attention.py with FERROWARP_ARCH=compute_80
    Attention80(Turns),
    /// Sums, cumulative sums and transposes and their peers, in turns: benches/peers/axis.py
    Axis(Turns),
    /// Our operations on candle's tensors and candle's own, in turns: host/candle/examples/versus.rs
    Candle(Turns),
    /// Work on several GPUs: `cargo bench collective` and benches/peers/collective.py
    Collective(Files),
    /// Train on this machine's CPU, and the same in JAX, and write docs/cpu.md
    Cpu(cpu::Measured),
    /// The lessons of docs/gallery and their peers: `cargo xtask gallery` and benches/peers/gallery.py
    Gallery(gallery_report::Merged),
    /// Matrix multiplication and its peers, in turns: benches/peers/matmul.py
    Matmul(Turns),
    /// Matrix multiplication by the code for compute capability 8.0 and its peers: benches/peers/matmul.py --random
    Matmul80(Turns),
    /// Training on MNIST, rung by rung, and its peers: `cargo bench mlp` and benches/peers/mnist.py
    Mlp(Files),
    /// RMSNorm and LayerNorm and their peers, in turns: benches/peers/norm.py
    Norm(Turns),
    /// Problems drawn from a seed and their peers, in turns: benches/peers/random_problems.py
    Random(Turns),
    /// Softmax and its relatives, their peers, and the ladder: `cargo bench softmax` and benches/peers/softmax.py
    Softmax(softmax::Merged),
    /// What other texts on GPUs build and claim, and where it is here: docs/gallery/texts.toml and docs/learn/claims.toml
    Texts,
    /// What runs when in the first steps of an epoch, on each rung of the training ladder: `train-mnist --timeline`
    Timelines(timelines::Merged),
}

impl Report {
    /// Runs the command.
    pub fn run(&self) -> anyhow::Result<()> {
        match self {
            Report::Accuracy(merged) => accuracy::run(merged)?,
            Report::Attention(merged) => merged.run()?,
            Report::Attention80(turns) => {
                attention::ATTENTION_80.run(turns.runs(attention::ATTENTION_80.is_ours)?)?;
            }
            Report::Axis(turns) => rows::AXIS.run(turns.runs(rows::AXIS.is_ours)?)?,
            Report::Candle(turns) => candle::CANDLE.run(turns.runs(candle::CANDLE.is_ours)?)?,
            Report::Collective(files) => collective::run(files)?,
            Report::Cpu(measured) => measured.run()?,
            Report::Gallery(merged) => return gallery_report::run(merged),
            Report::Matmul(turns) => matmul::MATMUL.run(turns.runs(matmul::is_own)?)?,
            Report::Matmul80(turns) => {
                matmul80::MATMUL_80.run(turns.runs(matmul80::MATMUL_80.is_ours)?)?;
            }
            Report::Mlp(files) => training::run(files)?,
            Report::Norm(turns) => rows::NORM.run(turns.runs(rows::NORM.is_ours)?)?,
            Report::Random(turns) => random::RANDOM.run(turns.runs(random::RANDOM.is_ours)?)?,
            Report::Softmax(merged) => merged.run()?,
            Report::Texts => return texts::write(),
            Report::Timelines(merged) => merged.run()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod committed;
#[cfg(test)]
mod other_tests;
#[cfg(test)]
mod tests;
