//! Writes calls of all that Rust-CUDA has and is the same here, for the compiler to check.

#[path = "upstream/mod.rs"]
mod upstream;

use std::path::Path;

use upstream::On;

fn main() {
    // edition-2024/ runs it too.
    let folder = ["upstream", "../upstream"].into_iter().find(|folder| Path::new(folder).is_dir()).unwrap();
    println!("cargo::rerun-if-changed={folder}");
    let out = std::env::var_os("OUT_DIR").unwrap();
    for (name, calls) in [
        ("kernels.rs", upstream::calls(|on| matches!(on, On::Both | On::Device))),
        ("host.rs", upstream::calls(|on| matches!(on, On::Builder | On::Host))),
    ] {
        std::fs::write(Path::new(&out).join(name), calls).unwrap();
    }
}
