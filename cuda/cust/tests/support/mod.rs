//! Builds the fake driver.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the fake driver in `directory` and returns the library's path.
pub fn build_fake_driver(directory: &Path) -> PathBuf {
    let source = directory.join("fake_libcuda.rs");
    std::fs::write(&source, include_str!("fake_libcuda.rs")).unwrap();
    std::fs::write(directory.join("fake_cluster.rs"), include_str!("fake_cluster.rs")).unwrap();
    std::fs::write(directory.join("fake_faults.rs"), include_str!("fake_faults.rs")).unwrap();
    std::fs::write(directory.join("fake_graph.rs"), include_str!("fake_graph.rs")).unwrap();
    std::fs::write(directory.join("fake_memory.rs"), include_str!("fake_memory.rs")).unwrap();
    let library = directory.join("libfakecuda.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-Cpanic=abort", "-Awarnings", "-o"])
        .args([&library, &source])
        .output()
        .expect("rustc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
