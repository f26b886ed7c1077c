//! `differ-gpu`: crates of the registry on a machine with a GPU and no Rust.
//!
//! `pack` makes a folder where there is Rust: the cases, with what the crates make of them natively, and the PTX of each
//! back end at each level. `run` runs all of it on the GPU, and ends with a line `N compared, N differ`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Parser;
use cuda_builder::{Backend, NvvmArch};
use differ::compile::{self, Settings};
use differ::crates::{self, CRATES};
use differ::{cases, gpu};

/// Crates of the registry on a GPU, compared with the host bit for bit
#[derive(Parser)]
#[command(version)]
enum Command {
    /// Fill a folder with the cases and the PTX
    Pack {
        /// Which crates [default: all]
        #[arg(long, value_delimiter = ',')]
        crates: Vec<String>,
        /// How much the back ends optimise
        #[arg(long, value_delimiter = ',', default_values_t = [0, 1, 2, 3])]
        opt_level: Vec<u8>,
        /// For which architecture
        #[arg(long, default_value = "compute_90")]
        arch: NvvmArch,
        /// The folder
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
    /// Run such a folder on GPU 0
    Run {
        /// The folder
        folder: PathBuf,
    },
}

/// The file of the cases.
const CASES: &str = "crates.cases";

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Pack { crates, opt_level, arch, out } => pack(crates, &opt_level, arch, &out).map(|()| true),
        Command::Run { folder } => run(&folder),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn pack(names: Vec<String>, opt_levels: &[u8], arch: NvvmArch, out: &Path) -> anyhow::Result<()> {
    let names = if names.is_empty() { CRATES.iter().map(|name| (*name).to_owned()).collect() } else { names };
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).context("no workspace")?;
    let out = std::path::absolute(out).with_context(|| format!("the folder {}", out.display()))?;
    crates::native(workspace, &names, &out)?;
    for &opt_level in opt_levels {
        for backend in [Backend::Nvvm, Backend::Llvm] {
            let settings = Settings {
                backends: vec![backend],
                opt_level,
                arch,
                planted: None,
                work: None,
                out: workspace.join("target/differ/packed"),
            };
            let arguments = ["--features".to_owned(), names.join(",")];
            let ptx = compile::ptx(&workspace.join("cuda/differ/crates"), backend, &settings, &arguments)?;
            let path = out.join(format!("{backend}-O{opt_level}.ptx"));
            std::fs::write(&path, ptx).with_context(|| format!("writing {}", path.display()))?;
            println!("{}", path.display());
        }
    }
    Ok(())
}

/// Whether nothing differs.
fn run(folder: &Path) -> anyhow::Result<bool> {
    let path = folder.join(CASES);
    let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
    let cases = cases::read(&bytes)?;
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut modules: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    modules.sort();
    ensure!(!modules.is_empty(), "no PTX in {}: fill it by `differ-gpu pack`", folder.display());
    let mut differ = 0;
    for module in &modules {
        let found = gpu::compare(module, &cases)?;
        let name = module.file_stem().unwrap_or_default().display();
        println!(
            "{name}: {} cases of {} kernels, {} differ",
            cases.len(),
            cases::by_kernel(&cases).len(),
            found.len()
        );
        found.iter().take(20).for_each(|one| println!("  {one}"));
        differ += found.len();
    }
    println!("{} compared, {differ} differ", cases.len() * modules.len());
    Ok(differ == 0)
}
