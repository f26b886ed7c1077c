//! The process that has the GPU: it runs the modules that it is asked for, and says of each kernel when it begins and what
//! came of it, so that the one who asked knows which kernel it was if this process hangs or dies.

use std::collections::BTreeSet;
use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use ferrowarp::device::{Device, PtxModules};
use serde::{Deserialize, Serialize};

use super::Outputs;
use crate::cases::{self, Case};
use crate::difference::{Difference, What};

/// Bytes of stack that a thread has where the compiler cannot tell how many it needs: recursion, and calls by pointers.
const STACK: usize = 16 << 10;

/// What a worker is asked for, in a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The name of the module, without an ending.
    pub module: String,
    /// Kernels that are not run.
    pub without: BTreeSet<String>,
}

/// What a worker says, in a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Line {
    /// A kernel begins.
    Begins(String),
    /// What came of it.
    Ended {
        /// How many cases it had.
        cases: usize,
        /// Those that differ.
        found: Vec<Difference>,
    },
    /// The module is done.
    Done,
    /// The module cannot be run at all.
    Refused(String),
    /// The device, once: its name and how many of a hundred words of unwritten memory are soiled.
    Device(String, usize),
}

/// Where the outputs of a module are, and how they are known.
pub fn expected(folder: &Path, module: &str) -> Option<(PathBuf, Outputs)> {
    let batch = module.rsplit_once('.').map_or(module, |(batch, _)| batch);
    [(module, "digests", Outputs::Digests), (batch, "cases", Outputs::Bytes)]
        .into_iter()
        .map(|(name, ending, outputs)| (folder.join(format!("{name}.{ending}")), outputs))
        .find(|(path, _)| path.exists())
}

/// Serves requests from stdin until there are no more, or until a kernel has taken the GPU from this process.
///
/// # Errors
/// There is no GPU, or stdin or stdout cannot be used.
pub fn serve(folder: &Path) -> anyhow::Result<()> {
    // The device of the module before: while it lives, the driver keeps what all modules share.
    let mut last: Option<Device> = None;
    for line in std::io::stdin().lock().lines() {
        let request: Request =
            serde_json::from_str(&line.context("reading a request")?).context("a request")?;
        match open(folder, &request.module) {
            Ok((device, cases, outputs)) => {
                if last.is_none() {
                    let words = device.unwritten_memory()?;
                    let soiled =
                        words.iter().filter(|word| **word == u32::from_ne_bytes([cases::SOILED; 4])).count();
                    say(&Line::Device(device.name(), 100 * soiled / words.len().max(1)))?;
                }
                if !run(&device, &cases, outputs, &request.without)? {
                    return Ok(());
                }
                last = Some(device);
                say(&Line::Done)?;
            }
            Err(error) => say(&Line::Refused(format!("{error:#}")))?,
        }
    }
    drop(last);
    Ok(())
}

fn open(folder: &Path, module: &str) -> anyhow::Result<(Device, Vec<Case>, Outputs)> {
    let (path, outputs) =
        expected(folder, module).with_context(|| format!("no outputs of {module} are known"))?;
    let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let cases = cases::read(&bytes).with_context(|| format!("reading {}", path.display()))?;
    let ptx = PtxModules::read(&folder.join(format!("{module}.ptx")))?;
    let device = Device::cuda(0, &ptx)?.with_soiled_memory()?.with_stack_bytes(STACK)?;
    ensure!(!cases.is_empty(), "{} is empty", path.display());
    Ok((device, cases, outputs))
}

/// Whether the GPU is still there in the end.
fn run(
    device: &Device,
    cases: &[Case],
    outputs: Outputs,
    without: &BTreeSet<String>,
) -> anyhow::Result<bool> {
    for cases in cases::by_kernel(cases).into_iter().filter(|cases| !without.contains(&cases[0].kernel)) {
        say(&Line::Begins(cases[0].kernel.clone()))?;
        let found = super::compare(device, cases, outputs);
        let is_fault = found.iter().any(|one| matches!(one.what, What::Fault(_)));
        say(&Line::Ended { cases: cases.len(), found })?;
        if is_fault {
            return Ok(false);
        }
    }
    Ok(true)
}

fn say(line: &Line) -> anyhow::Result<()> {
    let text = serde_json::to_string(line).context("writing an answer")?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).context("writing an answer")
}
