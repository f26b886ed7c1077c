//! Where libNVVM is taken from, and which are refused.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::child::Child;
use crate::common::{builder, tools};

/// The fetched package's library and libdevice.
fn pinned() -> [PathBuf; 2] {
    builder("pinned").build().unwrap();
    let package = tools().join("nvidia-nvvm-13.5.37/nvidia/cu13");
    [package.join("lib/libnvvm.so.4"), package.join("nvvm/libdevice/libdevice.10.bc")]
}

/// Lays a toolkit out in `root`: links to `library` and to the fetched libdevice.
fn toolkit(root: &Path, library: &Path) {
    let [_, libdevice] = pinned();
    for (file, link) in [(library, "lib64/libnvvm.so"), (&libdevice, "libdevice/libdevice.10.bc")] {
        let link = root.join("nvvm").join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(file, link).unwrap();
    }
}

/// A shared library made from this source.
fn library(folder: &Path, source: &str) -> PathBuf {
    let (file, library) = (folder.join("library.rs"), folder.join("library.so"));
    std::fs::write(&file, source).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.args(["--edition=2024", "--crate-type=cdylib", "-o"]).arg(&library).arg(&file);
    assert!(rustc.status().unwrap().success());
    library
}

/// As libNVVM of CUDA 13.4 and earlier behaves.
const OLD: &str = r#"
use std::ffi::{c_char, c_int, c_void};
const LOG: &[u8] = b"-nvvm-latest is an unsupported option\0";
macro_rules! answers { ($($name:ident($($t:ty),*) = $answer:expr;)*) => { $(
    #[unsafe(no_mangle)] pub extern "C" fn $name($(_: $t),*) -> c_int { $answer }
)* } }
answers! {
    nvvmCreateProgram(*mut c_void) = 0;
    nvvmDestroyProgram(*mut c_void) = 0;
    nvvmAddModuleToProgram(*mut c_void, *const c_char, usize, *const c_char) = 0;
    nvvmLazyAddModuleToProgram(*mut c_void, *const c_char, usize, *const c_char) = 0;
    nvvmCompileProgram(*mut c_void, c_int, *const c_void) = 7;
}
#[unsafe(no_mangle)] pub extern "C" fn nvvmGetErrorString(_: c_int) -> *const c_char { c"INVALID_OPTION".as_ptr() }
#[unsafe(no_mangle)] pub unsafe extern "C" fn nvvmGetProgramLogSize(_: *mut c_void, size: *mut usize) -> c_int {
    unsafe { *size = LOG.len() }
    0
}
#[unsafe(no_mangle)] pub unsafe extern "C" fn nvvmGetProgramLog(_: *mut c_void, log: *mut u8) -> c_int {
    unsafe { LOG.as_ptr().copy_to(log, LOG.len()) }
    0
}
"#;

#[test]
fn the_named_library_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let [library, _] = pinned();
    let nowhere = folder.path().join("tools");
    let named = Child::new(folder.path()).env("LIBNVVM_PATH", &library).tools(&nowhere).without_download();
    assert!(named.build().unwrap().contains(".entry reverse"));
    // A link to it is as good: libdevice is found where the link leads.
    let link = folder.path().join("libnvvm.so");
    std::os::unix::fs::symlink(&library, &link).unwrap();
    let named = Child::new(folder.path()).env("LIBNVVM_PATH", &link).tools(&nowhere).without_download();
    assert!(named.build().unwrap().contains(".entry reverse"));
    assert!(!nowhere.join("nvidia-nvvm-13.5.37").exists(), "nothing is fetched");
}

#[test]
fn a_toolkit_is_taken() {
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        let folder = tempfile::tempdir().unwrap();
        toolkit(folder.path(), &pinned()[0]);
        let child = Child::new(folder.path()).env(name, folder.path());
        let ptx = child.tools(&folder.path().join("tools")).without_download().build();
        assert!(ptx.unwrap().contains(".entry reverse"), "{name}");
    }
}

#[test]
fn another_library_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = library(folder.path(), "");
    toolkit(folder.path(), &other);
    let named = folder.path().join("nvvm/lib64/libnvvm.so");
    let error = Child::new(folder.path()).env("LIBNVVM_PATH", &named).build().unwrap_err();
    assert!(error.starts_with(&format!("loading libNVVM from {} failed", named.display())), "{error}");
    assert!(error.contains("it is not libNVVM") && error.contains("nvvmCreateProgram"), "{error}");
}

#[test]
fn an_old_library_is_refused_and_an_old_toolkit_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let old = library(folder.path(), OLD);
    toolkit(folder.path(), &old);
    let named = folder.path().join("nvvm/lib64/libnvvm.so");
    let error = Child::new(folder.path()).env("LIBNVVM_PATH", &named).build().unwrap_err();
    assert!(error.starts_with(&format!("libNVVM at {} is too old", named.display())), "{error}");
    assert!(error.contains("INVALID_OPTION: -nvvm-latest is an unsupported option"), "{error}");
    assert!(error.contains("CUDA 13.5 or later"), "{error}");

    let child = || Child::new(folder.path()).env("CUDA_HOME", folder.path());
    assert!(child().build().unwrap().contains(".entry reverse"), "the pinned package stands in");
    let error = child().tools(&folder.path().join("tools")).without_download().build().unwrap_err();
    assert!(error.starts_with("no usable libNVVM") && error.contains("LLVM 22"), "{error}");
    assert!(error.contains("LIBNVVM_PATH") && error.contains("the pinned package is not in"), "{error}");
}

/// A copy of the fetched package in a folder of tools of its own.
fn copied_package(folder: &Path) -> PathBuf {
    pinned();
    let (from, to) = (tools().join("nvidia-nvvm-13.5.37"), folder.join("tools/nvidia-nvvm-13.5.37"));
    for file in ["nvidia/cu13/lib/libnvvm.so.4", "nvidia/cu13/nvvm/libdevice/libdevice.10.bc"] {
        std::fs::create_dir_all(to.join(file).parent().unwrap()).unwrap();
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    to.join("nvidia/cu13")
}

/// A library that was cut short would end the process that loads it.
#[test]
fn a_damaged_package_is_fetched_again_or_named() {
    let folder = tempfile::tempdir().unwrap();
    let package = copied_package(folder.path());
    let tools = folder.path().join("tools");
    let child = || Child::new(folder.path()).tools(&tools);
    assert!(child().without_download().build().unwrap().contains(".entry reverse"), "it is whole");

    let library = package.join("lib/libnvvm.so.4");
    let bytes = std::fs::read(&library).unwrap();
    for damaged in [&bytes[..bytes.len() / 3], &[]] {
        std::fs::write(&library, damaged).unwrap();
        let error = child().without_download().build().unwrap_err();
        assert!(error.starts_with(&format!("{} is damaged", library.display())), "{error}");
        assert!(error.contains("run the command again to fetch it anew"), "{error}");
        // Where it may be fetched it is; here it cannot.
        let error = child().env("PIP_NO_INDEX", "1").build().unwrap_err();
        assert!(error.starts_with("downloading nvidia-nvvm 13.5.37 with pip failed"), "{error}");
    }
    std::fs::write(&library, &bytes).unwrap();
    assert!(child().without_download().build().unwrap().contains(".entry reverse"), "it is whole again");
}

#[test]
fn a_named_library_that_was_cut_short_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [library, _] = pinned();
    let short = folder.path().join("libnvvm.so.4");
    let bytes = std::fs::read(library).unwrap();
    std::fs::write(&short, &bytes[..bytes.len() / 2]).unwrap();
    toolkit(folder.path(), &short);
    let named = folder.path().join("nvvm/lib64/libnvvm.so");
    let error = Child::new(folder.path()).env("LIBNVVM_PATH", &named).build().unwrap_err();
    assert!(error.starts_with(&format!("loading libNVVM from {} failed", named.display())), "{error}");
    assert!(error.contains("was cut short"), "{error}");
}

#[test]
fn a_damaged_libdevice_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [library, libdevice] = pinned();
    toolkit(folder.path(), &library);
    let named = folder.path().join("nvvm/lib64/libnvvm.so");
    let own = folder.path().join("nvvm/libdevice/libdevice.10.bc");
    let bytes = std::fs::read(libdevice).unwrap();
    std::fs::remove_file(&own).unwrap();
    for damaged in [&b"no bitcode"[..], &bytes[..bytes.len() / 2]] {
        std::fs::write(&own, damaged).unwrap();
        let error = Child::new(folder.path()).env("LIBNVVM_PATH", &named).build().unwrap_err();
        assert!(error.starts_with("libdevice at ") && error.contains("is damaged"), "{error}");
        assert!(error.contains("libdevice.10.bc") && !error.contains("too old"), "{error}");
    }
}
