//! Where fuzzing begins: small files of every format as their encoders write them, and hostile ones by hand.

use std::fs;
use std::io::Write;
use std::path::Path;

use ferrowarp_mnist::checkpoint::{self, DataId, Progress, Snapshot, Training, file_format};
use ferrowarp_mnist::model::{LayerParameters, Parameters};
use ferrowarp_mnist::{BatchSize, LrSchedule};
use ferrowarp_report::EpochRecord;
use png::{BitDepth, ColorType};
use tar::EntryType;

use super::targets::BETWEEN_TEXTS;
use super::texts::{COMMENTS, IR, LOG, MODULE};

/// Files with their names.
pub type Files = Vec<(String, Vec<u8>)>;

fn named<const N: usize>(files: [(&str, Vec<u8>); N]) -> Files {
    files.into_iter().map(|(name, bytes)| (name.to_owned(), bytes)).collect()
}

/// Files that the target must accept.
pub fn of(target: &str) -> Files {
    match target {
        "idx" => named([
            ("images", idx(&[0x803, 2, 3, 4], 24)),
            ("digit", idx(&[0x803, 1, 28, 28], 784)),
            ("labels", idx(&[0x801, 7], 7)),
        ]),
        "idx_gzip" => named([
            ("images", gzip(&idx(&[0x803, 2, 3, 4], 24))),
            ("labels", gzip(&idx(&[0x801, 7], 7))),
            ("two-members", [gzip(&idx(&[0x803, 2, 3, 4], 5)), gzip(&[7; 19])].concat()),
            ("plain", idx(&[0x801, 3], 3)),
            ("wide", gzip(&idx(&[0x803, 1, 64, 256], 64 * 256))),
        ]),
        "csv" => named([
            ("zeros", csv_line("3", ",0", "\n").into_bytes()),
            ("header", format!("label,1x1\n{}", csv_line("0", ",255", "")).into_bytes()),
            ("spaces", format!("\u{feff}{}\r\n", csv_line(" 9 ", " , 07", "\r\n")).into_bytes()),
            ("gzip", gzip(csv_line("5", ",1", "\n").repeat(3).as_bytes())),
        ]),
        "package" => named([
            ("labels", package(&[(EntryType::Regular, "package/data/t10k-labels-idx1-ubyte", b"abc")])),
            (
                "others",
                package(&[
                    (EntryType::Directory, "package", b""),
                    (EntryType::Regular, "package/package.json", b"{}"),
                    (EntryType::Regular, "train-images-idx3-ubyte", &[7; 600]),
                    (EntryType::Symlink, "package/link", b""),
                    (EntryType::Regular, "../../train-labels-idx1-ubyte", b""),
                ]),
            ),
            ("long-name", long_name()),
        ]),
        "weights" => named([("two-layers", weights(&parameters())), ("foreign", foreign_weights())]),
        "checkpoint" => {
            let (plain, momentum) = (snapshot(0.0), snapshot(0.5));
            let payload = file_format::open(&momentum).unwrap().to_vec();
            named([("plain", plain), ("momentum", momentum), ("payload", payload)])
        }
        "picture" => pictures(),
        "ir" => edits(true),
        "ptxas" => named([("report", [LOG, BETWEEN_TEXTS, MODULE].concat().into_bytes())]),
        "ptx" => named([
            ("kernel", MODULE.as_bytes().to_vec()),
            ("comments", COMMENTS.as_bytes().to_vec()),
            ("suffix", b".version 8.6\n.target sm_90a, debug\n.address_size 64".to_vec()),
        ]),
        other => panic!("{other} has no seeds"),
    }
}

/// Files that the target must refuse.
pub fn hostile(target: &str) -> Files {
    match target {
        "idx" => named([
            ("promise", idx(&[0x803, u32::MAX, 4096, 4096], 7)),
            ("trailing", idx(&[0x801, 7], 8)),
            ("short", idx(&[0x803, 2, 3, 4], 23)),
        ]),
        "idx_gzip" => {
            let bytes = gzip(&idx(&[0x803, 2, 3, 4], 24));
            named([
                ("short", bytes[..bytes.len() - 5].to_vec()),
                ("bomb", gzip(&idx(&[0x801, 1 << 15], 1 << 16))),
            ])
        }
        "csv" => named([
            ("field", csv_line("3", ",256", "\n").into_bytes()),
            ("label", csv_line("10", ",0", "\n").into_bytes()),
            ("bomb", gzip(&[b'\n'; 1 << 12])),
        ]),
        "package" => named([
            ("link", package(&[(EntryType::Symlink, "t10k-labels-idx1-ubyte", b"")])),
            ("device", package(&[(EntryType::Char, "t10k-labels-idx1-ubyte", b"")])),
            (
                "twice",
                package(&[
                    (EntryType::Regular, "a/t10k-labels-idx1-ubyte", b"abc"),
                    (EntryType::Regular, "b/t10k-labels-idx1-ubyte", b"abc"),
                ]),
            ),
        ]),
        "weights" => named([
            ("header", [&(100_000_000u64).to_le_bytes()[..], b"{}"].concat()),
            ("dtype", weights(&parameters()).iter().map(|&b| if b == b'3' { b'1' } else { b }).collect()),
        ]),
        "checkpoint" => {
            let mut bytes = snapshot(0.5);
            bytes[60] ^= 1;
            named([("flipped", bytes)])
        }
        "picture" => {
            let mut bytes = picture(ColorType::Rgba, BitDepth::Eight, 4);
            bytes[16..24].copy_from_slice(&[0x7f, 0xff, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff]);
            named([("promise", bytes)])
        }
        "ir" => {
            let nested = format!(
                "; edit: place\n@s = global {}i8 undef{}, section \".ferrowarp.shared\"\n",
                "[1 x i8] [".repeat(200),
                "]".repeat(200)
            );
            let mut files = edits(false);
            files.extend(named([("nested", nested.into_bytes()), ("endless", endless_names().into_bytes())]));
            files
        }
        "ptxas" => named([("module", [BETWEEN_TEXTS, MODULE].concat().into_bytes())]),
        "ptx" => named([
            ("braces", [MODULE, "{"].concat().into_bytes()),
            ("no-text", vec![0xff; 9]),
            ("target", b".version 8.6\n.target sm_99999999999\n.address_size 64".to_vec()),
        ]),
        _ => Files::new(),
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn idx(header: &[u32], data: usize) -> Vec<u8> {
    header.iter().flat_map(|number| number.to_be_bytes()).chain((0..data).map(|i| (i % 10) as u8)).collect()
}

fn csv_line(label: &str, pixel: &str, end: &str) -> String {
    format!("{label}{}{end}", pixel.repeat(784))
}

/// A package with these entries, whatever their names; links lead to `/etc/passwd`.
fn package(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (kind, name, contents) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(contents.len() as u64);
        if kind.is_symlink() {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        builder.append(&header, *contents).unwrap();
    }
    gzip(&builder.into_inner().unwrap())
}

/// A name that does not fit into the header.
fn long_name() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    let name = format!("{}/t10k-images-idx3-ubyte", "folder".repeat(20));
    builder.append_data(&mut header, name, &b"abc"[..]).unwrap();
    gzip(&builder.into_inner().unwrap())
}

fn parameters() -> Parameters {
    let layer = |inputs: usize, outputs: usize| LayerParameters {
        inputs,
        outputs,
        weights: (0..inputs * outputs).map(|i| i as f32 / 8.0 - 0.5).collect(),
        biases: vec![0.25; outputs],
    };
    Parameters { layers: vec![layer(3, 2), layer(2, 10)] }
}

fn training(momentum: f32) -> Training {
    Training {
        sizes: parameters().sizes(),
        seed: 7,
        epochs: 1,
        batch_size: BatchSize::new(4).unwrap(),
        drop_last: false,
        lr: 0.5,
        lr_decay: 0.75,
        lr_schedule: LrSchedule::Exponential,
        lr_warmup: 0.0,
        momentum,
        label_smoothing: 0.0,
        pipeline: "fused".to_owned(),
        precision: "f32".to_owned(),
    }
}

fn weights(parameters: &Parameters) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w");
    checkpoint::save(&path, parameters, &training(0.0)).unwrap();
    fs::read(path).unwrap()
}

/// As another program may write them: no metadata, another order.
fn foreign_weights() -> Vec<u8> {
    let header = r#"{"0.bias":{"dtype":"F32","shape":[1],"data_offsets":[8,12]},"0.weight":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#;
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[0; 12]].concat()
}

fn snapshot(momentum: f32) -> Vec<u8> {
    let snapshot = Snapshot {
        training: training(momentum),
        data: DataId { train_images: 10, test_images: 3, sha256: "00".repeat(32) },
        progress: Progress {
            epochs_before: 0,
            last_epoch: 3,
            samples: 8,
            loss_sum: 3.5,
            correct: 5,
            seconds: 1.25,
            every: Some(2),
            keep: 3,
            device: "CPU".to_owned(),
        },
        records: vec![EpochRecord {
            epoch: 1,
            train_loss: 0.5,
            train_accuracy: 0.875,
            test_loss: 0.25,
            test_accuracy: 1.0,
            seconds: 1.5,
            test_seconds: 0.125,
            images_per_second: 6.0,
        }],
        parameters: parameters(),
        velocities: (momentum != 0.0).then(parameters),
        ahead: (momentum == 0.0).then(|| vec![0.5; 3]),
    };
    snapshot.to_bytes().unwrap()
}

fn pictures() -> Files {
    use BitDepth::{Eight, One, Sixteen, Two};
    use ColorType::{Grayscale, GrayscaleAlpha, Indexed, Rgb, Rgba};
    named([
        ("gray", picture(Grayscale, Eight, 28)),
        ("gray-alpha", picture(GrayscaleAlpha, Eight, 5)),
        ("rgb", picture(Rgb, Eight, 6)),
        ("rgba", picture(Rgba, Eight, 4)),
        ("rgba-16", picture(Rgba, Sixteen, 3)),
        ("black-and-white", picture(Grayscale, One, 17)),
        ("palette", picture(Indexed, Two, 9)),
    ])
}

/// A square picture of stripes.
fn picture(colour: ColorType, depth: BitDepth, side: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.set_color(colour);
    encoder.set_depth(depth);
    if colour == ColorType::Indexed {
        encoder.set_palette(vec![0, 0, 0, 255, 255, 255, 9, 99, 199, 50, 60, 70]);
        encoder.set_trns(vec![255, 128]);
    }
    let bits = colour.samples() * depth as usize;
    let row = (side as usize * bits).div_ceil(8);
    let data: Vec<u8> = (0..row * side as usize).map(|i| if i / row % 3 == 1 { 0xe4 } else { 0 }).collect();
    encoder.write_header().unwrap().write_image_data(&data).unwrap();
    bytes
}

/// The inputs of the tests of the IR edits: those that are edited, or those that are refused.
fn edits(accepted: bool) -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cuda/cuda_ir/tests/edits");
    let mut files = Files::new();
    for entry in folder.read_dir().unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (input, output) = text.split_once("\n; ---- becomes ----\n").unwrap();
        if output.starts_with("; error") != accepted {
            let name = path.file_stem().unwrap().to_str().unwrap();
            files.push((name.replace('_', "-"), format!("{input}\n").into_bytes()));
        }
    }
    if accepted {
        files.extend(named([("module", IR.as_bytes().to_vec())]));
    }
    files.sort();
    files
}

/// Functions whose names refer back to themselves, each to a tuple of twice the one before.
fn endless_names() -> String {
    let mut name = "@_RINvC1a1f".to_owned();
    let mut before = "u".to_owned();
    for digit in ["7", "a", "h", "o", "v", "C", "J", "Q", "X"] {
        name += &format!("T{before}{before}E");
        before = format!("B{digit}_");
    }
    format!("define void {name}E() {{\n  ret void\n}}\n").repeat(2)
}
