//! A build of the fixture in a process of its own, so that its environment can be a test's own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cuda_builder::NvvmArch;

use super::builder;

/// Where the process writes how it went; that this is set makes it one.
const RESULT: &str = "CHILD_RESULT";
const TOOLS: &str = "CHILD_TOOLS";
const DOWNLOAD: &str = "CHILD_DOWNLOAD";
const MACHINE_CODE: &str = "CHILD_MACHINE_CODE";
const BACKEND: &str = "CHILD_BACKEND";
const FEATURES: &str = "CHILD_FEATURES";
const STRICT: &str = "CHILD_STRICT";

/// A build of the fixture to come.
pub struct Child {
    pub command: Command,
    folder: PathBuf,
}

impl Child {
    /// A build whose files are in `folder`: PTX files, and how it went.
    pub fn new(folder: &Path) -> Child {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "child", "--ignored", "--nocapture"])
            .env(RESULT, folder.join("result"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        for name in [
            "LIBNVVM_PATH",
            "CUDA_HOME",
            "CUDA_PATH",
            "FERROWARP_TOOLS",
            "FERROWARP_LLVM",
            "PTXAS_PATH",
            "RUSTC",
        ] {
            command.env_remove(name);
        }
        Child { command, folder: folder.to_owned() }
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Child {
        self.command.env(name, value);
        self
    }

    /// Takes packages from `folder`, and fetches what is not there.
    pub fn tools(self, folder: &Path) -> Child {
        self.env(TOOLS, folder)
    }

    /// Fetches and installs nothing.
    pub fn without_download(self) -> Child {
        self.env(DOWNLOAD, "0")
    }

    /// Has ptxas make machine code.
    pub fn with_machine_code(self) -> Child {
        self.env(MACHINE_CODE, "1")
    }

    /// Compiles by LLVM's back end.
    pub fn by_llvm(self) -> Child {
        self.env(BACKEND, "llvm")
    }

    /// Builds the fixture with these features.
    pub fn features(self, features: &str) -> Child {
        self.env(FEATURES, features)
    }

    /// Does not fall back to a lower level.
    pub fn strict(self) -> Child {
        self.env(STRICT, "1")
    }

    /// The PTX, or the error's text.
    pub fn build(self) -> Result<String, String> {
        self.build_and_say().0
    }

    /// As [`Self::build`], and what it said on stderr.
    pub fn build_and_say(mut self) -> (Result<String, String>, String) {
        let output = self.command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let result = std::fs::read_to_string(self.folder.join("result"));
        let result = result.unwrap_or_else(|e| panic!("{e}\n{}", String::from_utf8_lossy(&output.stderr)));
        std::fs::remove_file(self.folder.join("result")).unwrap();
        let result = match result.split_once('\n') {
            Some(("built", path)) => Ok(std::fs::read_to_string(path).unwrap()),
            Some(("failed", error)) => Err(error.to_owned()),
            _ => panic!("{result}"),
        };
        (result, said)
    }
}

/// What the process does: call this in an ignored test named `child`.
pub fn run() {
    let Some(result) = std::env::var_os(RESULT).map(PathBuf::from) else {
        println!("this is the part of other tests that runs in a process of its own");
        return;
    };
    let mut builder = builder("child").arch(NvvmArch::Compute75).out_dir(result.parent().unwrap());
    if let Some(tools) = std::env::var_os(TOOLS) {
        builder = builder.tools_dir(tools);
    }
    if let Ok(backend) = std::env::var(BACKEND) {
        builder = builder.backend(backend.parse().unwrap());
    }
    if let Ok(features) = std::env::var(FEATURES) {
        builder = builder.build_args(&["--features", &features]);
    }
    builder = builder.fall_back(std::env::var_os(STRICT).is_none());
    builder = builder.machine_code(std::env::var_os(MACHINE_CODE).is_some());
    let text = match builder.download(std::env::var_os(DOWNLOAD).is_none()).build() {
        Ok(path) => format!("built\n{}", path.display()),
        Err(error) => format!("failed\n{error}"),
    };
    std::fs::write(result, text).unwrap();
}

/// Writes a shell script that can be run.
pub fn script(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}
