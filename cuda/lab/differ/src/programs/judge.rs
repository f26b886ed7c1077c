//! Compares the programs of a folder: their native results with those of their PTX.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail, ensure};
use cuda_builder::Backend;
use serde::{Deserialize, Serialize};

use super::folder::{Folder, GPU_INPUTS, INPUTS};
use crate::cases::{self, Case};
use crate::compile::{self, Module, Settings};
use crate::difference::Difference;
use crate::emulate;
use crate::gpu::pack::{write_cases, write_modules};

/// The host compiler's flags: without optimisation, which is most often right, and without checks, like the device.
const HOST_FLAGS: [&str; 4] =
    ["-Copt-level=0", "-Cdebug-assertions=off", "-Coverflow-checks=off", "-Ctarget-cpu=x86-64-v3"];

/// Maximum instructions of a program for one input. The generator limits programs to about ten thousand operations of a few
/// instructions each.
pub const MOST_STEPS: u64 = 10_000_000;

/// The result of one program with one back end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// The program's number in its folder.
    pub program: usize,
    /// `nvvm` or `llvm`; `None` if the program was not compiled for the device.
    pub backend: Option<String>,
    /// The finding.
    pub finding: Finding,
}

/// A finding about a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finding {
    /// The device's results differ in some of the cases.
    Differs(Vec<Difference>),
    /// A compiler rejects it.
    Refused(String),
}

/// All findings about the programs of a folder; empty if there are none.
///
/// # Errors
/// The folder cannot be read, or nothing can be compiled.
pub fn judge(folder: &Folder, settings: &Settings) -> anyhow::Result<Vec<Verdict>> {
    let start = Instant::now();
    let mut verdicts = Vec::new();
    let mut programs = folder.programs()?;
    if settings.packed.is_some() {
        folder.put_inputs(GPU_INPUTS)?;
    }
    let native = loop {
        folder.choose(&programs)?;
        match native(folder)? {
            Ok(native) => break native,
            Err(log) => drop_refused(&mut programs, &log, "rs", None, &mut verdicts)?,
        }
        if programs.is_empty() {
            return Ok(verdicts);
        }
    };
    let cases = run_native(folder, &native)?;
    eprintln!("natively: {:.1?}", start.elapsed());
    let packed = settings.packed.as_ref().map(|path| format!("{}-{}", path.display(), programs[0]));
    for &backend in &settings.backends {
        let (modules, of_backend) = on_device(folder, backend, settings, programs.clone(), &cases)?;
        verdicts.extend(of_backend);
        if let Some(stem) = &packed {
            write_modules(stem, backend, &modules)?;
        }
    }
    if let Some(stem) = &packed {
        write_cases(stem, &cases)?;
    }
    Ok(verdicts)
}

/// The native results of all programs in a folder.
///
/// # Errors
/// One of them does not compile, or fails.
pub fn natively(folder: &Folder) -> anyhow::Result<Vec<Case>> {
    folder.choose(&folder.programs()?)?;
    let native = native(folder)?.map_err(|log| anyhow::anyhow!("the programs do not compile: {log}"))?;
    run_native(folder, &native)
}

/// Runs the programs with one back end. Returns their modules, too.
fn on_device(
    folder: &Folder,
    backend: Backend,
    settings: &Settings,
    mut programs: Vec<usize>,
    cases: &[Case],
) -> anyhow::Result<(Vec<Module>, Vec<Verdict>)> {
    let start = Instant::now();
    let mut verdicts = Vec::new();
    let name = backend.to_string();
    let modules = loop {
        if programs.is_empty() {
            return Ok((Vec::new(), verdicts));
        }
        folder.choose(&programs)?;
        match compile::modules(&folder.kernels(), backend, settings, &[]) {
            Ok(modules) => break modules,
            Err(error) => {
                drop_refused(&mut programs, &format!("{error:#}"), "k", Some(&name), &mut verdicts)?;
            }
        }
    };
    eprintln!("compiled by {name}: {:.1?}", start.elapsed());
    let chosen: Vec<Case> = cases.iter().filter(|case| case.number < INPUTS).cloned().collect();
    let verdict = |kernel: &str, finding| {
        let program = kernel.trim_start_matches('k').parse().unwrap_or(usize::MAX);
        Verdict { program, backend: Some(name.clone()), finding }
    };
    for module in &modules {
        match emulate::compare(module, &chosen, MOST_STEPS) {
            Ok(found) => {
                let of_program = found.chunk_by(|a, b| a.kernel == b.kernel);
                verdicts.extend(
                    of_program.map(|found| verdict(&found[0].kernel, Finding::Differs(found.to_vec()))),
                );
            }
            Err(error) => {
                let refused = || Finding::Refused(format!("the emulator does not know its PTX: {error:#}"));
                verdicts.extend(module.kernels().into_iter().map(|kernel| verdict(kernel, refused())));
            }
        }
    }
    eprintln!("compiled by {name} and compared: {:.1?}", start.elapsed());
    Ok((modules, verdicts))
}

/// Removes the programs named in a compiler's message, and keeps the message.
fn drop_refused(
    programs: &mut Vec<usize>,
    log: &str,
    by: &str,
    backend: Option<&str>,
    verdicts: &mut Vec<Verdict>,
) -> anyhow::Result<()> {
    let mut named = if by == "rs" { named_files(log) } else { named_kernels(log) };
    named.retain(|number| programs.contains(number));
    if named.is_empty() && programs.len() == 1 {
        named.push(programs[0]);
    }
    if named.is_empty() {
        bail!("the programs cannot be compiled, and it is not said which: {log}");
    }
    let shown: String = log.chars().take(4000).collect();
    for &program in &named {
        let finding = Finding::Refused(shown.clone());
        verdicts.push(Verdict { program, backend: backend.map(str::to_owned), finding });
    }
    programs.retain(|program| !named.contains(program));
    Ok(())
}

/// Programs with files that are named in a message of rustc: `p7.rs:`, `h7.rs:`.
fn named_files(log: &str) -> Vec<usize> {
    let mut all: Vec<usize> = log
        .match_indices(".rs:")
        .filter_map(|(end, _)| {
            let digits = log[..end].rfind(|c: char| !c.is_ascii_digit())?;
            let is_ours = log[..=digits].ends_with(['p', 'h']);
            is_ours.then(|| log[digits + 1..end].parse().ok())?
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Programs with kernels that are named in a message of the builder: `k7`.
fn named_kernels(log: &str) -> Vec<usize> {
    let words = log.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let mut all: Vec<usize> = words.filter_map(|word| word.strip_prefix('k')?.parse().ok()).collect();
    all.extend(named_files(log));
    all.sort_unstable();
    all.dedup();
    all
}

/// Compiles the programs for the host. The inner error is the compiler's message.
fn native(folder: &Folder) -> anyhow::Result<Result<PathBuf, String>> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let run = |arguments: &[&str]| -> anyhow::Result<Result<(), String>> {
        let mut command = Command::new(&rustc);
        command.args(["--edition=2024", "--color=never"]).args(HOST_FLAGS).args(arguments);
        let output = command.current_dir(&folder.path).output().context("starting rustc")?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        Ok(if output.status.success() { Ok(()) } else { Err(log) })
    };
    let helper = ["--crate-type=rlib", "--crate-name=helper", "helper/src/lib.rs", "-o", "libhelper.rlib"];
    if let Err(log) = run(&helper)? {
        return Ok(Err(log));
    }
    let program = ["--extern=helper=libhelper.rlib", "kernels/src/native.rs", "-o", "native"];
    Ok(run(&program)?.map(|()| folder.path.join("native")))
}

/// The native results of the programs.
fn run_native(folder: &Folder, native: &Path) -> anyhow::Result<Vec<Case>> {
    let (inputs, out) = (folder.path.join(Folder::INPUTS), folder.path.join("cases"));
    let output =
        Command::new(native).arg(inputs).arg(&out).output().context("starting the native programs")?;
    let log = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "a program fails natively, which is the generator's fault: {log}");
    let bytes = std::fs::read(&out).with_context(|| format!("reading {}", out.display()))?;
    cases::read(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_programs() {
        let log =
            "error: no\n --> helper/src/h12.rs:3:4\n --> kernels/src/p3.rs:1:1\n --> src/lib.rs:1:1, kp.rs:1";
        assert_eq!(named_files(log), [3, 12]);
        assert_eq!(named_kernels("libNVVM refused kernels k4 and k17 (ok, k4x)"), [4, 17]);
        let (mut programs, mut verdicts) = (vec![3, 4, 12], Vec::new());
        drop_refused(&mut programs, log, "rs", None, &mut verdicts).unwrap();
        assert_eq!((programs.clone(), verdicts.len()), (vec![4], 2));
        drop_refused(&mut programs, "a crash", "k", Some("llvm"), &mut verdicts).unwrap();
        assert_eq!((programs.len(), verdicts[2].program), (0, 4));
        assert!(drop_refused(&mut vec![1, 2], "a crash", "k", None, &mut verdicts).is_err());
    }
}
