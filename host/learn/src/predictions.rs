//! Questions whose answer the emulator counts.

use anyhow::Context;
use cuda_std::launch::LaunchConfig;
use cuda_std::testing::Counts;
use serde::Deserialize;

use crate::ptx::Ptx;

/// A question about a launch of one warp, or of one block, whose answer is a number.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The question.
    pub text: String,
    /// A kernel of `gpu-kernels/puzzles/src/predict.rs`.
    pub kernel: String,
    /// Its third argument.
    argument: u32,
    /// The threads of the only block.
    threads: u32,
    /// What is counted.
    counted: Counted,
    /// Why it is so.
    pub why: String,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Counted {
    SectorsLoaded,
    LoadRequests,
    BankConflicts,
    DivergentBranches,
}

#[derive(Deserialize)]
struct Questions {
    question: Vec<Question>,
}

/// All questions, by number from 1.
///
/// # Errors
/// `questions.toml` is malformed.
pub fn questions() -> anyhow::Result<Vec<Question>> {
    let questions: Questions =
        toml::from_str(include_str!("questions.toml")).context("reading questions.toml")?;
    Ok(questions.question)
}

impl Question {
    /// Counts the answer.
    ///
    /// # Errors
    /// The PTX has no such kernel, or the kernel failed.
    pub fn count(&self, ptx: Ptx) -> anyhow::Result<u64> {
        let mut emulator = ptx.emulator.with_counts();
        // Both begin at a multiple of 128.
        let mut memory = vec![0f32; 4096 + 32];
        let start = memory.as_ptr().align_offset(128);
        let out = memory[start..].as_mut_ptr();
        let inp = out.wrapping_add(1024);
        let bytes = [out, inp].map(|pointer| pointer.expose_provenance().to_le_bytes());
        let arguments: [&[u8]; 3] = [&bytes[0], &bytes[1], &self.argument.to_le_bytes()];
        // SAFETY: the memory outlives the launch, and the emulator checks each access of it.
        unsafe {
            emulator.lend(&mut memory);
            emulator.launch(&self.kernel, LaunchConfig::new(1, self.threads), &arguments)?;
        }
        let counts: Counts = emulator.take_counts().into_iter().map(|launch| launch.total).sum();
        Ok(match self.counted {
            Counted::SectorsLoaded => counts.global.loads.sectors,
            Counted::LoadRequests => counts.global.loads.requests,
            Counted::BankConflicts => counts.bank_conflicts(),
            Counted::DivergentBranches => counts.branches.divergent,
        })
    }
}
