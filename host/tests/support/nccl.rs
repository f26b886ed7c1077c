//! Builds the fake NCCL.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the path of the fake NCCL, which is compiled once.
pub fn fake_nccl() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(env!("CARGO_CRATE_NAME"));
        std::fs::create_dir_all(&folder).unwrap();
        build_fake_nccl(&folder, &[])
    })
}

/// Compiles the fake NCCL in `directory`, with these arguments of the compiler, and returns the library's path.
pub fn build_fake_nccl(directory: &Path, arguments: &[&str]) -> PathBuf {
    for (name, text) in [
        ("fake_nccl.rs", include_str!("fake_nccl.rs")),
        ("fake_nccl_worker.rs", include_str!("fake_nccl_worker.rs")),
        ("fake_nccl_elements.rs", include_str!("fake_nccl_elements.rs")),
    ] {
        std::fs::write(directory.join(name), text).unwrap();
    }
    let library = directory.join("libfakenccl.so");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(["--edition", "2024", "--crate-type", "cdylib", "-Cpanic=abort", "-Awarnings", "-o"])
        .arg(&library)
        .arg(directory.join("fake_nccl.rs"))
        .args(arguments)
        .output()
        .expect("rustc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}
