//! Creates packs for a machine with a GPU and without Rust: PTX of each back end, inputs, and the host's results.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, ensure};
use cuda_builder::Backend;

use crate::cases::{self, Case};
use crate::compile::{Compiler, Module};
use crate::crates::{self, CRATES};
use crate::programs::hunt::Hunt;
use crate::report::{Entry, OfBackend, Origin, Report};

/// The file with the results of a pack, which are empty until it runs.
pub(super) const RESULTS: &str = "pack.json";

/// What `differ gpu pack` takes.
#[derive(clap::Args)]
pub struct Pack {
    #[command(flatten)]
    compiler: Compiler,
    /// Which crates [default: all]
    #[arg(long, value_delimiter = ',')]
    crates: Vec<String>,
    /// How many random programs
    #[arg(long, default_value_t = 0)]
    programs: u64,
    /// The seed of the first one
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Batches of programs at a time [default: one for each core]
    #[arg(long)]
    jobs: Option<usize>,
    /// Also make what travels: an archive of the folder, the program that runs it and a script
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,
    /// The folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl Pack {
    /// Fills the folder.
    ///
    /// # Errors
    /// The crates or programs cannot be compiled, or a file cannot be written.
    pub fn run(&self) -> anyhow::Result<()> {
        let out =
            std::path::absolute(&self.out).with_context(|| format!("the folder {}", self.out.display()))?;
        if out.join(RESULTS).exists() {
            std::fs::remove_dir_all(&out).with_context(|| format!("emptying {}", out.display()))?;
        }
        std::fs::create_dir_all(&out).with_context(|| format!("making {}", out.display()))?;
        let origin = Origin::now()?;
        let mut reports = vec![self.crates(&out)?];
        if self.programs > 0 {
            reports.push(self.programs(&out)?);
        }
        let entries: Vec<Entry> =
            reports.into_iter().map(|report| Entry { report, origin: origin.clone() }).collect();
        write(&out.join(RESULTS), serde_json::to_vec_pretty(&entries).context("writing what the pack is")?)?;
        let Some(to) = &self.archive else { return Ok(()) };
        archive(&out, &std::env::current_exe().context("finding this program")?, to)
    }

    /// The report of a part that has not run.
    fn report(&self, part: &str) -> Report {
        let mut report = Report::new(part, self.compiler.opt_level, self.compiler.arch);
        let of = |backend: &Backend| OfBackend { backend: backend.to_string(), ..OfBackend::default() };
        report.backends = self.compiler.backend.iter().map(of).collect();
        report
    }

    fn crates(&self, out: &Path) -> anyhow::Result<Report> {
        let mut report = self.report("gpu-crates");
        let all = || CRATES.iter().map(|name| (*name).to_owned()).collect();
        report.crates = if self.crates.is_empty() { all() } else { self.crates.clone() };
        let settings = self.compiler.settings(self.compiler.work()?.join("packed"));
        let stem = out.join("crates").display().to_string();
        write_cases(&stem, &crates::native(&report.crates, &settings.out)?)?;
        for &backend in &settings.backends {
            write_modules(&stem, backend, &crates::modules(&report.crates, backend, &settings)?)?;
        }
        Ok(report)
    }

    /// Packs programs. Those that could not be compiled are in the report.
    fn programs(&self, out: &Path) -> anyhow::Result<Report> {
        let mut report = self.report("gpu-programs");
        let (start, last) = (Instant::now(), self.seed + self.programs - 1);
        report.seeds = Some((self.seed, last));
        let progress = |done: u64, found: usize| {
            eprintln!(
                "{done} of {} programs packed in {:.0?}, {found} refused",
                self.programs,
                start.elapsed()
            );
        };
        let mut hunt = Hunt::new(&self.compiler, self.jobs)?;
        hunt.settings.packed = Some(out.to_owned());
        for found in hunt.run(self.seed, self.programs, &progress)? {
            // A program that does not compile natively is invalid.
            let Some(backend) = &found.verdict.backend else { continue };
            report.of(backend).refused += 1;
            report.found.push(found.to_string());
        }
        Ok(report)
    }
}

/// Writes the cases of a batch to `STEM.cases`.
///
/// # Errors
/// The file cannot be written.
pub fn write_cases(stem: &str, cases: &[Case]) -> anyhow::Result<()> {
    write(Path::new(&format!("{stem}.cases")), cases::write(cases))
}

/// Writes the modules of a batch to `STEM.BACKEND.NAME.ptx`.
///
/// # Errors
/// A file cannot be written.
pub fn write_modules(stem: &str, backend: Backend, modules: &[Module]) -> anyhow::Result<()> {
    modules.iter().try_for_each(|Module { name, ptx }| {
        write(Path::new(&format!("{stem}.{backend}.{name}.ptx")), ptx.as_bytes())
    })
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) -> anyhow::Result<()> {
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// The script that runs a pack on the other machine.
const RUN: &str = "#!/bin/sh
# Runs the pack on GPU 0. The results go into gpu-results.json in the folder given, or in $OUT, or here. Further arguments,
# after the folder, go to `differ gpu run`: --ptxas FILE.
set -e
cd \"$(dirname \"$0\")\"
to=$(mktemp -d)
if command -v xz > /dev/null; then xz -dc modules.tar.xz | tar -xf - -C \"$to\"
else python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' modules.tar.xz \"$to\"
fi
chmod +x differ
# Nothing is compiled twice, so nothing is kept.
export CUDA_CACHE_DISABLE=1
out=${1:-${OUT:-.}}
[ $# -eq 0 ] || shift
exec ./differ gpu run \"$to\" --json \"$out/gpu-results.json\" \"$@\"
";

/// Turns a filled folder into files to transfer: an archive, the program that runs it, and a script.
fn archive(filled: &Path, program: &Path, to: &Path) -> anyhow::Result<()> {
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
    let copy = to.join("differ");
    std::fs::copy(program, &copy).with_context(|| format!("copying {}", program.display()))?;
    // Symbols and line tables are most of it. Without `strip`, the program is larger.
    let _ = Command::new("strip").arg(&copy).status();
    write(&to.join("run.sh"), RUN)
}
