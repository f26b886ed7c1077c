//! The PTX of puzzles: building it, an emulator of it, and which line of the source an instruction comes from.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use cuda_builder::{CudaBuilder, DebugInfo, NvvmArch};
use ptx_emulator::{Emulator, PtxModule};

use crate::workspace;

/// Instructions that a block may execute before it counts as endless.
pub const MAX_STEPS: u64 = 20_000_000;

/// A module of PTX.
pub struct Ptx {
    text: String,
    module: Arc<PtxModule>,
    /// Runs it.
    pub emulator: Emulator,
}

/// Compiles the puzzles with one of the features of their crate: `mine`, `answers` or `predict`. Returns the text.
///
/// # Errors
/// A tool is missing, or the crate does not compile.
pub fn build(feature: &str) -> Result<String, cuda_builder::CudaBuilderError> {
    let target = workspace::target();
    let path = CudaBuilder::new(workspace::root().join("gpu-kernels/puzzles"))
        .build_args(&["--no-default-features", "--features", feature])
        .tools_dir(CudaBuilder::tools_dir_in(&target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(target.join("learn").join(feature))
        .arch(NvvmArch::Compute90)
        .debug(DebugInfo::LineTables)
        .build()?;
    std::fs::read_to_string(&path).map_err(|source| {
        cuda_builder::CudaBuilderError::Options(format!("reading {}: {source}", path.display()))
    })
}

impl Ptx {
    /// Reads a module.
    ///
    /// # Errors
    /// The text is not PTX that the emulator knows.
    pub fn new(text: String) -> anyhow::Result<Ptx> {
        let module = Arc::new(PtxModule::parse(&text).context("the emulator cannot read the PTX")?);
        let emulator = Emulator::new(Arc::clone(&module)).with_max_steps(MAX_STEPS).with_race_check();
        Ok(Ptx { text, module, emulator })
    }

    /// An emulator that stops a block after about this many instructions of its threads.
    pub fn with_max_steps(&self, most: u64) -> Emulator {
        Emulator::new(Arc::clone(&self.module)).with_max_steps(most)
    }

    /// Same, from a file.
    ///
    /// # Errors
    /// There is no such file, or it is not PTX that the emulator knows.
    pub fn read(path: &Path) -> anyhow::Result<Ptx> {
        Ptx::new(std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?)
    }

    /// The line of the source file from which the instruction in this line of the PTX comes, or into which it was inlined.
    pub fn source_line(&self, line: usize, file: &str) -> Option<u32> {
        // `.file 1 "path"`, and `.loc 1 LINE COLUMN, function_name .., inlined_at 1 LINE COLUMN`.
        let number = self.text.lines().find_map(|text| {
            let (number, path) = text.trim().strip_prefix(".file")?.trim().split_once(' ')?;
            path.contains(file).then(|| number.to_owned())
        })?;
        let above: Vec<&str> = self.text.lines().take(line).collect();
        // The nearest one in the file: what is inlined from elsewhere may not say where.
        above.iter().rev().take_while(|text| !text.contains(".entry")).find_map(|text| {
            let words: Vec<&str> = text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
            let is_here = |pair: &[&str]| [".loc", "inlined_at"].contains(&pair[0]) && pair[1] == number;
            words.get(words.windows(2).position(is_here)? + 2)?.parse().ok()
        })
    }
}
