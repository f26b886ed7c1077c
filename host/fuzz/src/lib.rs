//! What is fuzzed: a function a parser of outside bytes, and the table of them.
//!
//! libFuzzer calls them by way of `fuzz_targets/`, and the test `host/mnist/tests/fuzz`, which includes this file, with what
//! lies in `corpus/`. Each gives whether it accepted the bytes. None may panic, hang or take more memory than the bytes
//! can be worth.

use std::io::{self, Cursor, Read};
use std::path::Path;

use cuda_builder::ptx::Ptx;
use cuda_builder::ptxas;
use cuda_ir::{Cut, Edits};
use ferrowarp_data::{CLASSES, IdxFile, Picture};
use ferrowarp_device::device::PtxModule;
use ferrowarp_mnist::checkpoint::{self, Snapshot};

/// A parser that is fuzzed.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name: that of its file in `fuzz_targets/` and of its folder in `corpus/`.
    pub name: &'static str,
    /// What runs on the bytes; whether the parser accepted them.
    pub run: fn(&[u8]) -> bool,
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target { name: "idx", run: idx },
    Target { name: "idx_gzip", run: idx_gzip },
    Target { name: "csv", run: csv },
    Target { name: "package", run: package },
    Target { name: "weights", run: weights },
    Target { name: "checkpoint", run: checkpoint },
    Target { name: "picture", run: picture },
    Target { name: "ir", run: ir },
    Target { name: "ptxas", run: ptxas },
    Target { name: "ptx", run: ptx },
];

/// Stands between the two texts of the target `ptxas`. Neither has such a line.
pub const BETWEEN_TEXTS: &str = "\n====\n";

/// What errors call the bytes.
fn path() -> &'static Path {
    Path::new("input")
}

/// An IDX file of images, and one of labels.
pub fn idx(bytes: &[u8]) -> bool {
    let images = ferrowarp_data::parse_images(bytes, path());
    let labels = ferrowarp_data::parse_labels(bytes, path(), CLASSES);
    if let Ok(images) = &images {
        assert_eq!(images.pixels.len(), images.count * images.rows * images.cols);
    }
    images.is_ok() | labels.is_ok_and(|labels| labels.iter().all(|&label| usize::from(label) < CLASSES))
}

/// The same two, which may be compressed.
pub fn idx_gzip(bytes: &[u8]) -> bool {
    ferrowarp_data::images_from(bytes, path()).is_ok()
        | ferrowarp_data::labels_from(bytes, path(), CLASSES).is_ok()
}

/// CSV, which may be compressed.
pub fn csv(bytes: &[u8]) -> bool {
    let Ok(dataset) = ferrowarp_data::csv_from(bytes, path(), CLASSES) else { return false };
    assert_eq!(dataset.images.len(), dataset.len() * dataset.features());
    true
}

/// A gzip tar archive with the files of MNIST.
pub fn package(bytes: &[u8]) -> bool {
    let mut files: Vec<IdxFile> = Vec::new();
    let unpacked = ferrowarp_data::unpack_package(bytes, |file, contents: &mut dyn Read| {
        assert!(!files.contains(&file), "{file:?} was taken twice");
        files.push(file);
        io::copy(contents, &mut io::sink()).map(drop)
    });
    unpacked.is_ok() && !files.is_empty()
}

/// A safetensors file of weights.
pub fn weights(bytes: &[u8]) -> bool {
    checkpoint::from_bytes(bytes, path()).is_ok()
}

/// A checkpoint of training, whatever its checksum.
pub fn checkpoint(bytes: &[u8]) -> bool {
    let Ok(snapshot) = Snapshot::parse_unverified(bytes, path()) else { return false };
    let written = snapshot.to_bytes().expect("what was read can be written");
    let again = Snapshot::parse(&written, path()).expect("what was written can be read");
    // As bytes: a weight may be NaN, which is unlike itself.
    assert_eq!(again.to_bytes().ok(), Some(written), "another one came back");
    true
}

/// A PNG of a digit, as `predict` reads it.
pub fn picture(bytes: &[u8]) -> bool {
    let Ok(picture) = Picture::from_png(Cursor::new(bytes), path()) else { return false };
    let digit = picture.to_digit(28);
    assert!(digit.as_ref().is_none_or(|digit| digit.len() == 28 * 28), "a digit of another size");
    digit.is_some()
}

/// The edits of LLVM IR: all of them or, where a text begins with `; edit: NAME`, that one.
pub fn ir(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let edit = text.strip_prefix("; edit: ").and_then(|rest| rest.lines().next());
    match edit {
        Some(edit) => cuda_ir::apply(edit.trim(), &text).is_ok(),
        None => {
            let (cut, only, library) = (Cut::Families, None, None);
            let edits = Edits { cut, override_libm: true, constant_memory: true, only, library };
            cuda_ir::lower(&text, &edits).is_ok()
        }
    }
}

/// The output of `ptxas -v` for a module, and the module after [`BETWEEN_TEXTS`].
pub fn ptxas(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let (log, module) = text.split_once(BETWEEN_TEXTS).unwrap_or((&text, ""));
    !ptxas::read_report(log, &Ptx::parse(module)).is_empty()
}

/// A PTX file, as a device loads it.
pub fn ptx(bytes: &[u8]) -> bool {
    PtxModule::from_bytes(bytes.to_vec(), path()).is_ok()
}
