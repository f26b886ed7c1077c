//! `cargo xtask gallery` keeps what an earlier run measured until there is something new.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

#[test]
fn a_run_that_fails_keeps_the_files_of_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let gallery = folder.path().join("gallery");
    fs::create_dir(&gallery).unwrap();
    let cargo = folder.path().join("cargo");
    fs::write(&cargo, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    let files = ["gallery.json", "counts.json", "roofline-counts.json", "roofline.json"];
    for name in files {
        fs::write(gallery.join(name), "measured").unwrap();
    }
    for arguments in [&["nosuchlesson"][..], &["--count", "nosuchlesson"], &["--roofline"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
        command.arg("gallery").args(arguments).env("CARGO", &cargo).env("CARGO_TARGET_DIR", folder.path());
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains("the gallery stopped early"), "{message}");
        for name in files {
            assert_eq!(fs::read_to_string(gallery.join(name)).unwrap(), "measured", "{arguments:?}: {name}");
        }
        assert_eq!(fs::read_dir(&gallery).unwrap().count(), files.len(), "nothing else is left");
    }
}
