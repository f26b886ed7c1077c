//! Valid, damaged and hostile wheels.

use std::io::Write;

use zip::write::SimpleFileOptions;

use super::*;

const PACKAGE: Package = Package { name: "some", version: "1", wheels: &[], files: &["some/bin/tool"] };

/// Creates a wheel of these members: name, a link's target or `None` for a file, contents.
fn wheel_with(folder: &Path, members: &[(&str, Option<&str>, &[u8])]) -> PathBuf {
    let path = folder.join("some.whl");
    let mut zip = zip::ZipWriter::new(File::create(&path).unwrap());
    for (name, link, contents) in members {
        match link {
            Some(target) => zip.add_symlink(*name, *target, SimpleFileOptions::default()).unwrap(),
            None => {
                zip.start_file(*name, SimpleFileOptions::default()).unwrap();
                zip.write_all(contents).unwrap();
            }
        }
    }
    zip.finish().unwrap();
    path
}

/// Unpacks the wheel with its actual hash into a folder among the tools.
fn unpacked(tools: &Path, wheel: &Path, longest: u64) -> Result<(), CudaBuilderError> {
    let sha256 = files::sha256_of(wheel).unwrap();
    let temporary = tempfile::tempdir_in(tools).unwrap();
    unpack(&PACKAGE, wheel, &sha256, temporary.path(), &PACKAGE.folder(tools), longest)
}

/// Everything under a folder, without following links.
fn all_under(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in folder.read_dir().unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(all_under(&entry.path()));
        }
        found.push(entry.path());
    }
    found
}

/// A lock that cannot be opened stands in for tools that are read-only, which root could still write to.
#[test]
fn complete_tools_may_be_read_only() {
    let tools = tempfile::tempdir().unwrap();
    std::fs::create_dir(tools.path().join("some.lock")).unwrap();
    let error = fetch(&PACKAGE, tools.path(), &|_| ()).unwrap_err().to_string();
    assert!(error.contains("opening the lock") && error.contains("some.lock failed: "), "{error}");
    assert!(error.contains("it was needed because"), "{error}");
    unpacked(tools.path(), &wheel_with(tools.path(), &[("some/bin/tool", None, b"content")]), 100).unwrap();
    fetch(&PACKAGE, tools.path(), &|_| ()).unwrap();
}

#[test]
fn whatever_a_killed_fetch_left_is_removed() {
    let tools = tempfile::tempdir().unwrap();
    std::fs::write(tools.path().join(".some-file"), "").unwrap();
    std::fs::create_dir_all(tools.path().join(".some-folder/inner")).unwrap();
    std::fs::write(tools.path().join("some-1"), "a file in the place of the package").unwrap();
    remove_leftovers(tools.path(), ".some-").unwrap();
    assert_eq!(all_under(tools.path()), [tools.path().join("some-1")]);
    unpacked(tools.path(), &wheel_with(tools.path(), &[("some/bin/tool", None, b"content")]), 100).unwrap();
    PACKAGE.check(tools.path()).unwrap();
}

#[test]
fn pips_reason_is_found() {
    assert_eq!(reason_in("WARNING: x\nERROR: one\nERROR: two\n"), "ERROR: one; ERROR: two");
    let exception = "ERROR: Exception:\nTraceback (most recent call last):\n  File\nOSError: no space left\n";
    assert_eq!(reason_in(exception), "OSError: no space left");
    assert_eq!(reason_in("No module named pip\n\n"), "No module named pip");
    assert_eq!(reason_in(""), "");
}

#[test]
fn a_whole_wheel_is_unpacked_and_runnable() {
    let tools = tempfile::tempdir().unwrap();
    let wheel = wheel_with(tools.path(), &[("some/bin/tool", None, b"content")]);
    // Replaces an older one.
    std::fs::create_dir(PACKAGE.folder(tools.path())).unwrap();
    unpacked(tools.path(), &wheel, LONGEST_FILE).unwrap();
    let file = PACKAGE.file(tools.path(), 0).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }
}

/// The changed wheel has the expected hash, but its member does not have its checksum.
#[test]
fn files_without_compression_are_unpacked_and_compared_with_their_checksum() {
    let tools = tempfile::tempdir().unwrap();
    let wheel = tools.path().join("some.whl");
    let mut zip = zip::ZipWriter::new(File::create(&wheel).unwrap());
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    zip.start_file("some/bin/tool", stored).unwrap();
    zip.write_all(b"content").unwrap();
    zip.finish().unwrap();
    unpacked(tools.path(), &wheel, LONGEST_FILE).unwrap();
    let file = PACKAGE.file(tools.path(), 0).unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"content");

    let mut bytes = std::fs::read(&wheel).unwrap();
    let at = bytes.windows(7).position(|bytes| bytes == b"content").unwrap();
    bytes[at] = b'C';
    std::fs::write(&wheel, bytes).unwrap();
    let error = unpacked(tools.path(), &wheel, LONGEST_FILE).unwrap_err();
    let reason = std::error::Error::source(&error).unwrap().to_string();
    assert!(reason.contains("checksum"), "{error}: {reason}");
    assert_eq!(std::fs::read(&file).unwrap(), b"content");
}

#[test]
fn a_damaged_wheel_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let wheel = wheel_with(folder.path(), &[("some/bin/tool", None, b"content")]);
    let sha256 = files::sha256_of(&wheel).unwrap();
    let mut bytes = std::fs::read(&wheel).unwrap();
    bytes.truncate(bytes.len() / 2);
    std::fs::write(&wheel, &bytes).unwrap();
    let to = PACKAGE.folder(folder.path());
    let error = unpack(&PACKAGE, &wheel, &sha256, folder.path(), &to, LONGEST_FILE).unwrap_err();
    assert!(matches!(error, CudaBuilderError::Damaged { .. }), "{error}");
    assert!(!to.exists());
}

#[test]
fn a_wheel_without_the_file_leaves_nothing() {
    let tools = tempfile::tempdir().unwrap();
    let wheel = wheel_with(tools.path(), &[("another", None, b"content")]);
    let error = unpacked(tools.path(), &wheel, LONGEST_FILE).unwrap_err();
    assert!(matches!(error, CudaBuilderError::Download { .. }), "{error}");
    assert!(!PACKAGE.folder(tools.path()).exists());
}

/// The hash is right in all of these; only the paths in the wheel are hostile.
#[test]
fn members_cannot_leave_the_folder() {
    let root = tempfile::tempdir().unwrap();
    let tools = root.path().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let evil = root.path().join("absolute");
    let wheel = wheel_with(
        root.path(),
        &[
            ("../evil", None, b"evil"),
            ("some/../../../evil", None, b"evil"),
            (evil.to_str().unwrap(), None, b"evil"),
            ("some/bin", Some("/"), b""),
            ("some/link", Some("../../evil"), b""),
            ("some/bin/tool", None, b"content"),
        ],
    );
    unpacked(&tools, &wheel, LONGEST_FILE).unwrap();
    let file = PACKAGE.file(&tools, 0).unwrap();
    let mut expected: Vec<PathBuf> =
        file.ancestors().take_while(|path| *path != root.path()).map(Path::to_owned).collect();
    expected.extend([wheel, PACKAGE.folder(&tools).join("manifest.json")]);
    let mut found = all_under(root.path());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    assert_eq!(std::fs::read(file).unwrap(), b"content");
}

#[test]
fn links_in_the_place_of_a_file_are_refused() {
    let tools = tempfile::tempdir().unwrap();
    let wheel = wheel_with(tools.path(), &[("some/bin/tool", Some("/bin/sh"), b"")]);
    let error = unpacked(tools.path(), &wheel, LONGEST_FILE).unwrap_err().to_string();
    assert!(error.contains("some/bin/tool in the wheel is no ordinary file"), "{error}");
    assert!(!PACKAGE.folder(tools.path()).exists());
}

/// A short wheel of a long file, which also states a wrong length.
#[test]
fn bombs_are_refused() {
    let tools = tempfile::tempdir().unwrap();
    let zeros = vec![0; 8 << 20];
    let wheel = wheel_with(tools.path(), &[("some/bin/tool", None, &zeros)]);
    assert!(wheel.metadata().unwrap().len() < 100_000);
    let limit = zeros.len() as u64;
    let error = unpacked(tools.path(), &wheel, limit - 1).unwrap_err().to_string();
    assert!(error.contains("some/bin/tool in the wheel has more than 8388607 bytes"), "{error}");
    assert!(!PACKAGE.folder(tools.path()).exists());

    let mut bytes = std::fs::read(&wheel).unwrap();
    for at in 0..bytes.len() - 4 {
        if bytes[at..at + 4] == (zeros.len() as u32).to_le_bytes() {
            bytes[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
        }
    }
    std::fs::write(&wheel, bytes).unwrap();
    assert!(unpacked(tools.path(), &wheel, limit - 1).is_err());
    assert!(!PACKAGE.folder(tools.path()).exists());
    unpacked(tools.path(), &wheel_with(tools.path(), &[("some/bin/tool", None, &zeros)]), limit).unwrap();
}

/// The package's own folder may be a link that somebody left: it is replaced, not followed.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_the_package_is_replaced() {
    let root = tempfile::tempdir().unwrap();
    let (tools, elsewhere) = (root.path().join("tools"), root.path().join("elsewhere"));
    std::fs::create_dir(&tools).unwrap();
    for target in [elsewhere.clone(), root.path().join("nowhere")] {
        std::fs::create_dir_all(&elsewhere).unwrap();
        std::fs::write(elsewhere.join("kept"), b"").unwrap();
        let _ = std::fs::remove_dir_all(PACKAGE.folder(&tools));
        std::os::unix::fs::symlink(target, PACKAGE.folder(&tools)).unwrap();
        let wheel = wheel_with(root.path(), &[("some/bin/tool", None, b"content")]);
        unpacked(&tools, &wheel, LONGEST_FILE).unwrap();
        assert!(PACKAGE.folder(&tools).symlink_metadata().unwrap().is_dir());
        assert_eq!(all_under(&elsewhere), [elsewhere.join("kept")]);
        assert!(!root.path().join("nowhere").exists());
    }
}
