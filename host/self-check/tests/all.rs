//! The tests of the self-check, in one program: each file here is a module.

mod device_self_check;
#[path = "../../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod fault_kernels;
mod faults;
mod faulty_gpu;

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// The program, on a machine without a driver.
fn self_check(flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_self-check"));
    command.args(flags).env("FERROWARP_LIBCUDA", "/nowhere/libcuda.so.1");
    command
}

/// What the program wrote, to standard output first.
fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A fake driver, and PTX in which its kernels do nothing.
struct FakeGpu {
    folder: TempDir,
    driver: PathBuf,
}

impl FakeGpu {
    /// With these kernels, before more lines of PTX.
    fn new<'a>(kernels: impl Iterator<Item = &'a str>, lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let driver = driver::build_fake_driver(folder.path());
        let entries: String = kernels.map(|name| format!(".visible .entry {name}() {{ ret; }}\n")).collect();
        let module = format!(".version 8.6\n.target sm_90\n.address_size 64\n{entries}{lines}");
        std::fs::create_dir(folder.path().join("ptx")).unwrap();
        std::fs::write(folder.path().join("ptx/kernels.compute_90.ptx"), module).unwrap();
        Self { folder, driver }
    }

    /// The program on it, in its folder; kernels fail as `faults` say.
    fn self_check(&self, flags: &[&str], faults: &str) -> Command {
        let mut command = self_check(&["--device", "cuda"]);
        command.args(flags).current_dir(self.folder.path()).env("FERROWARP_LIBCUDA", &self.driver);
        command.env("FAKE_CUDA_IDLE", "1").env("FAKE_CUDA_FAULTS", faults);
        command
    }
}
