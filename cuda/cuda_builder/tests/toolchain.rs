//! Which compiler is taken, and every supported one that is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::child::{Child, script};
use crate::common::fixture;

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const INSTALL: &str = "apt-get update && apt-get install -y rustc-web rust-web-src llvm-22";

/// The compiler of this build, past rustup's proxy.
fn real_rustc() -> PathBuf {
    let mut rustc = Command::new("rustc");
    let sysroot = rustc.args(["--print", "sysroot"]).current_dir(fixture()).output().unwrap();
    Path::new(String::from_utf8(sysroot.stdout).unwrap().trim()).join("bin/rustc")
}

fn debian_has_it() -> bool {
    let version = Command::new(DEBIAN_RUSTC).arg("-vV").output();
    version.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).contains("LLVM version: 22."))
}

/// A folder of programs: a rustc whose sysroot has no source, and a rustup that can fetch nothing.
fn without_source(folder: &Path) -> PathBuf {
    let (programs, sysroot) = (folder.join("programs"), folder.join("toolchains/bare"));
    std::fs::create_dir_all(&sysroot).unwrap();
    let (real, sysroot) = (real_rustc(), sysroot.display().to_string());
    let rustc =
        format!("case \"$*\" in *sysroot*) echo {sysroot};; *) exec {} \"$@\";; esac", real.display());
    script(&programs.join("rustc"), &rustc);
    script(&programs.join("rustup"), "echo 'error: could not download file' >&2; exit 1");
    programs
}

/// A build that finds the programs in `programs` first.
fn build_with(folder: &Path, programs: &Path) -> Child {
    let path = format!("{}:/usr/bin:/bin", programs.display());
    Child::new(folder).env("RUSTC", programs.join("rustc")).env("PATH", path)
}

#[test]
fn debians_compiler_stands_in_where_rustup_can_fetch_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let programs = without_source(folder.path());
    let result = build_with(folder.path(), &programs).without_download().build();
    if debian_has_it() {
        assert!(result.unwrap().contains(".entry reverse"));
        return;
    }
    println!("not tried: {DEBIAN_RUSTC} is not there; what is said without it was checked");
    let error = result.unwrap_err();
    assert!(error.starts_with("no usable rustc: "), "{error}");
    assert!(error.contains("has no rust-src, and rustup did not add it to toolchain bare"), "{error}");
    assert!(error.contains("could not download file") && error.contains(INSTALL), "{error}");
}

#[test]
fn a_build_installs_no_packages() {
    if debian_has_it() {
        println!("not tried: {DEBIAN_RUSTC} is there already");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = without_source(folder.path());
    let calls = folder.path().join("calls");
    script(&programs.join("apt-get"), &format!("echo \"$@\" >> {}", calls.display()));
    let error = build_with(folder.path(), &programs).build().unwrap_err();
    assert!(!calls.exists(), "{error}");
    assert!(error.contains(&format!("or on Debian `{INSTALL}`")), "{error}");
}

#[test]
fn a_compiler_with_another_llvm_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let programs = folder.path().join("programs");
    script(&programs.join("rustc"), "echo 'release: 1.99.1'; echo 'LLVM version: 23.1.1'");
    let result = build_with(folder.path(), &programs).without_download().build();
    if debian_has_it() {
        assert!(result.unwrap().contains(".entry reverse"), "Debian's compiler stands in");
        return;
    }
    let error = result.unwrap_err();
    assert!(error.contains("1.99.1 has LLVM 23.1.1, not 22"), "{error}");
    assert!(error.contains("rustc 1.95 to 1.98"), "{error}");
}

#[test]
fn the_compiler_of_the_environment_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let marker = folder.path().join("was-asked");
    let rustc = folder.path().join("rustc");
    script(&rustc, &format!("touch {}; exec {} \"$@\"", marker.display(), real_rustc().display()));
    let child = Child::new(folder.path()).env("RUSTC", &rustc).without_download();
    assert!(child.build().unwrap().contains(".entry reverse"));
    assert!(marker.is_file());
}
