//! A crate outside the workspace, in a folder with a space in its name, that depends on `ferrowarp` builds, links and runs
//! with nothing set in the environment.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel of its own, launched on the CPU.
const MAIN: &str = r#"use cuda_std::launch::LaunchConfig;
use cuda_std::{kernel, thread};
use ferrowarp::device::Device;

/// # Safety
/// `y` holds as many elements as `x`.
#[kernel]
pub unsafe fn twice(x: &[f32], y: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < x.len() {
        unsafe { *y.add(i) = 2.0 * x[i] };
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::cpu();
    let x = device.upload(&[1.0f32, 2.0, 3.0])?;
    let mut y = device.upload(&[0.0f32; 3])?;
    unsafe { twice::launch(&device, LaunchConfig::cover(x.len(), 32), &x, &mut y)? };
    println!("{:?}", y.to_vec()?);
    Ok(())
}
"#;

/// The crate, in a folder that no configuration of ours reaches; what it depends on lies in this repository.
fn outside_crate(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let outside = folder.join("a crate outside");
    std::fs::create_dir_all(outside.join("src")).unwrap();
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
         cuda_std = {{ package = \"ferrowarp-cuda-std\", path = \"{}\" }}\nferrowarp = {{ path = \"{}\" }}\n",
        here.join("../cuda/cuda_std").display(),
        here.display()
    );
    std::fs::write(outside.join("Cargo.toml"), manifest).unwrap();
    std::fs::write(outside.join("src/main.rs"), MAIN).unwrap();
    std::fs::copy(here.join("../Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    outside
}

/// Cargo in that folder, with the search path and a home alone; the two others are where rustup's image has no home.
fn cargo(outside: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(outside).args(arguments).env_clear();
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    command
}

#[test]
fn an_outside_crate_builds_and_runs_with_nothing_set() {
    let folder = tempfile::tempdir().unwrap();
    let outside = outside_crate(folder.path());
    // What it compiled is kept for the next run.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let output =
        cargo(&outside, &["run", "--offline", "--target-dir", target.to_str().unwrap()]).output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "[2.0, 4.0, 6.0]\n", "{log}");
}
