//! Creates packs for a machine with a GPU and without Rust: PTX of each back end, inputs, and the host's results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use cuda_builder::{Backend, NvvmArch};

use super::results::{MANIFEST, Manifest};
use crate::compile::{self, Settings};
use crate::crates;
use crate::programs::hunt::Hunt;
use crate::programs::judge::Finding;

/// The number of crates compiled together: the driver compiles a module on one core.
const CRATES_AT_ONCE: usize = 5;

/// The content of a pack.
#[derive(Clone, Debug)]
pub struct Pack {
    /// The crates.
    pub crates: Vec<String>,
    /// The optimisation levels of the crates.
    pub opt_levels: Vec<u8>,
    /// The architecture.
    pub arch: NvvmArch,
    /// The folder.
    pub out: PathBuf,
}

impl Pack {
    /// Packs the crates, as modules of several crates or as one module.
    ///
    /// # Errors
    /// The crates cannot be compiled, or the folder cannot be written.
    pub fn crates(&self, workspace: &Path, is_one_module: bool) -> anyhow::Result<()> {
        std::fs::create_dir_all(&self.out).with_context(|| format!("making {}", self.out.display()))?;
        let at_once = if is_one_module { self.crates.len().max(1) } else { CRATES_AT_ONCE };
        for (i, names) in self.crates.chunks(at_once).enumerate() {
            let stem = if is_one_module { "crates".to_owned() } else { format!("crates-{i}") };
            let cases = self.out.join(format!("{stem}.cases"));
            let path =
                |backend: Backend, opt_level: u8| self.out.join(format!("{stem}.{backend}-O{opt_level}.ptx"));
            let both = [Backend::Nvvm, Backend::Llvm];
            let mut all = self.opt_levels.iter().flat_map(|&level| both.map(|backend| (backend, level)));
            crates::native_into(workspace, names, &cases)?;
            all.try_for_each(|(backend, opt_level)| -> anyhow::Result<()> {
                let out = workspace.join("target/differ/packed");
                let settings = Settings { arch: self.arch, ..Settings::new(opt_level, out) };
                let arguments = ["--features".to_owned(), names.join(",")];
                let ptx = compile::ptx(&workspace.join("differ/crates"), backend, &settings, &arguments)?;
                let path = path(backend, opt_level);
                std::fs::write(&path, stripped(&ptx))
                    .with_context(|| format!("writing {}", path.display()))?;
                println!("{}", path.display());
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Packs programs, and returns those that could not be compiled: the back end and the reason.
    ///
    /// # Errors
    /// The programs cannot be compiled, or the folder cannot be written.
    pub fn programs(&self, hunt: &Hunt, seeds: (u64, u64)) -> anyhow::Result<Vec<(String, String)>> {
        std::fs::create_dir_all(&self.out).with_context(|| format!("making {}", self.out.display()))?;
        let start = Instant::now();
        let count = seeds.1 - seeds.0 + 1;
        let progress = |done: u64, found: usize| {
            eprintln!("{done} of {count} programs packed in {:.0?}, {found} refused", start.elapsed());
        };
        let found = hunt.run(seeds.0, count, &progress)?;
        let mut refused = BTreeMap::new();
        for one in found {
            // A program that does not compile natively is invalid.
            let Some(backend) = one.verdict.backend else { continue };
            let why = match one.verdict.finding {
                Finding::Refused(why) => why.chars().take(300).collect(),
                Finding::Differs(all) => format!("differs on the emulator: {}", all[0]),
            };
            refused.insert((one.seed, backend), why);
        }
        let line = |((seed, backend), why): ((u64, String), String)| (backend, format!("seed {seed}: {why}"));
        Ok(refused.into_iter().map(line).collect())
    }
}

/// Writes the description of a pack.
///
/// # Errors
/// The file cannot be written.
pub fn write_manifest(folder: &Path, manifest: &Manifest) -> anyhow::Result<()> {
    let path = folder.join(MANIFEST);
    let text = serde_json::to_string_pretty(manifest).context("writing what the pack is")?;
    std::fs::write(&path, text + "\n").with_context(|| format!("writing {}", path.display()))
}

/// The script that runs a pack on the other machine.
const RUN: &str = "#!/bin/sh
# Runs the pack on GPU 0. The results go into gpu-results.json in the folder given, or in $OUT, or here. Further arguments,
# after the folder, go to differ-gpu: --ptxas FILE.
set -e
cd \"$(dirname \"$0\")\"
to=$(mktemp -d)
if command -v xz > /dev/null; then xz -dc modules.tar.xz | tar -xf - -C \"$to\"
else python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' modules.tar.xz \"$to\"
fi
chmod +x differ-gpu
# Nothing is compiled twice, so nothing is kept.
export CUDA_CACHE_DISABLE=1
out=${1:-${OUT:-.}}
[ $# -eq 0 ] || shift
exec ./differ-gpu run \"$to\" --json \"$out/gpu-results.json\" \"$@\"
";

/// Turns a filled folder into files to transfer: an archive, the program that runs it, and a script.
///
/// # Errors
/// `tar` or `xz` fails, or the folder cannot be written.
pub fn archive(filled: &Path, program: &Path, to: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(to).with_context(|| format!("making {}", to.display()))?;
    let archive = to.join("modules.tar.xz");
    let file = std::fs::File::create(&archive).with_context(|| format!("creating {}", archive.display()))?;
    // Sorted by name, so that similar modules of one batch are adjacent and compress well.
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "-cf", "-", "-C"]).arg(filled).arg(".").stdout(Stdio::piped());
    let mut tar = tar.spawn().context("starting tar")?;
    let from = tar.stdout.take().context("tar has no stdout")?;
    let packed =
        Command::new("xz").args(["-6", "-T1"]).stdin(from).stdout(file).status().context("starting xz")?;
    let read = tar.wait().context("waiting for tar")?;
    ensure!(packed.success() && read.success(), "the archive failed: xz {packed}, tar {read}");
    let copy = to.join("differ-gpu");
    std::fs::copy(program, &copy).with_context(|| format!("copying {}", program.display()))?;
    // Symbols and line tables are most of it. Without `strip`, the program is larger.
    let _ = Command::new("strip").arg(&copy).status();
    let script = to.join("run.sh");
    std::fs::write(&script, RUN).with_context(|| format!("writing {}", script.display()))
}

/// Removes what the driver does not read: comments, line information, debugging sections and white space.
pub fn stripped(ptx: &str) -> String {
    let mut text = String::with_capacity(ptx.len());
    let mut is_section = false;
    for line in ptx.lines() {
        let line = line.split_once("//").map_or(line, |(code, _)| code).trim();
        if line.starts_with(".section ") {
            is_section = true;
        }
        if is_section {
            is_section = !line.starts_with('}');
            continue;
        }
        let directive = line.split_whitespace().next().unwrap_or_default();
        if !matches!(directive, "" | ".loc" | ".file") {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_is_packed() {
        let ptx = "\t// a comment\n.version 8.6\n.target sm_90, debug\n\n.func f()\n{\n\t.loc 1 2 3\n\t.local .b8 a[8];\n\tret; // end\n}\n\
                   .file 1 \"a.rs\"\n.section .debug_loc\n{\n.b8 1\n}\n.func g()\n";
        assert_eq!(
            stripped(ptx),
            ".version 8.6\n.target sm_90, debug\n.func f()\n{\n.local .b8 a[8];\nret;\n}\n.func g()\n"
        );
    }
}
