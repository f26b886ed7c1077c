//! Which modules are found and chosen, and what is refused.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sha2::{Digest, Sha256};

use super::module::TRAILER;
use super::*;

fn write(folder: &Path, file: &str, target: &str) -> PathBuf {
    let path = folder.join(file);
    let text =
        format!(".version 8.6\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n\tret;\n}}\n");
    std::fs::write(&path, text).unwrap();
    path
}

fn chosen(modules: &PtxModules, major: u32, minor: u32) -> Vec<String> {
    let best = modules.best_for("a GPU", major, minor).unwrap();
    best.iter().map(|module| format!("{} {}", module.name(), module.target())).collect()
}

#[test]
fn the_newest_module_that_runs_is_chosen_per_crate() {
    let folder = tempfile::tempdir().unwrap();
    for architecture in ["75", "80", "90", "90a", "100f"] {
        write(folder.path(), &format!("gpu.compute_{architecture}.ptx"), &format!("sm_{architecture}"));
    }
    write(folder.path(), "other.compute_75.ptx", "sm_75");
    let modules = PtxModules::read(folder.path()).unwrap();
    assert_eq!(modules.modules().len(), 6);
    for (major, minor, expected) in [(7, 5, "75"), (8, 6, "80"), (8, 9, "80"), (9, 0, "90a"), (12, 0, "90")] {
        let expected = [format!("gpu compute_{expected}"), "other compute_75".to_owned()];
        assert_eq!(chosen(&modules, major, minor), expected, "{major}.{minor}");
    }
    assert_eq!(chosen(&modules, 10, 0)[0], "gpu compute_100f");

    let error = modules.best_for("Old GPU", 6, 1).unwrap_err().to_string();
    assert!(error.contains("Old GPU, which has compute capability 6.1"), "{error}");
    assert!(error.contains("compute_75, compute_80, compute_90, compute_90a, compute_100f"), "{error}");
}

#[test]
fn kernels_of_one_architecture_come_beside_the_others_on_their_device_alone() {
    let folder = tempfile::tempdir().unwrap();
    for (file, target) in [
        ("gpu.matmul.compute_80.ptx", "sm_80"),
        ("gpu.matmul.compute_90.ptx", "sm_90"),
        ("gpu.matmul.compute_100.ptx", "sm_100"),
        ("gpu.matmul.only_90a.compute_90a.ptx", "sm_90a"),
    ] {
        write(folder.path(), file, target);
    }
    let modules = PtxModules::read(folder.path()).unwrap();
    assert_eq!(chosen(&modules, 8, 9), ["gpu.matmul compute_80"]);
    assert_eq!(chosen(&modules, 9, 0), ["gpu.matmul compute_90", "gpu.matmul.only_90a compute_90a"]);
    assert_eq!(chosen(&modules, 10, 0), ["gpu.matmul compute_100"]);
    assert_eq!(chosen(&modules, 12, 0), ["gpu.matmul compute_100"]);
}

#[test]
fn a_single_file_of_any_name_will_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "mine.txt", "sm_80, texmode_independent");
    let modules = PtxModules::read(&file).unwrap();
    assert_eq!(modules.modules()[0].name(), "mine");
    assert_eq!(modules.modules()[0].version(), (8, 6));
    assert_eq!(chosen(&modules, 9, 0), ["mine compute_80"]);
}

#[test]
fn what_is_missing_or_damaged_is_named_with_the_cure() {
    let folder = tempfile::tempdir().unwrap();
    let empty = PtxModules::read(folder.path()).unwrap_err().to_string();
    assert!(empty.contains("no PTX found in") && empty.contains("cargo xtask build-ptx"), "{empty}");
    assert!(empty.contains(&folder.path().display().to_string()), "{empty}");

    let path = folder.path().join("k.compute_75.ptx");
    let absent = PtxModules::read(&path).unwrap_err();
    assert!(matches!(absent, DeviceError::PtxUnreadable { .. }), "{absent}");
    assert!(absent.to_string().contains("k.compute_75.ptx: No such file"), "{absent}");
    // The library's messages name no command-line flags.
    assert!(!DeviceError::PtxMissing { looked: "a".to_owned() }.to_string().contains("--"));
    for (bytes, reason) in [
        (&b""[..], "is empty"),
        (b"<html></html>", "no `.version`"),
        (b"\x7fELF\xff\xfe", "is not UTF-8 text"),
        (b".version 8.6\n.target sm_75\n.address_size 64\n.entry k() {\n", "truncated"),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let error = PtxModules::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(&path.display().to_string()), "{error}");
        assert!(error.contains(reason) && error.contains("cargo xtask build-ptx"), "{error}");
    }
}

#[test]
fn the_places_to_look_in_are_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    std::fs::create_dir_all(root.join("work/target/release/deps")).unwrap();
    std::fs::create_dir_all(root.join("elsewhere/inner")).unwrap();
    std::fs::write(root.join("elsewhere/Cargo.toml"), "").unwrap();
    let found = candidates(
        Some(&root.join("work/target/release/deps/train-mnist")),
        Some(&root.join("elsewhere/inner")),
    );
    assert_eq!(
        found,
        [
            root.join("work/target/release/deps"),
            root.join("work/target/ptx"),
            root.join("elsewhere/target/ptx"),
        ]
    );
}

/// Writes machine code next to the PTX of `path`, like a build.
fn write_machine_code(path: &Path, code: &[u8]) {
    let hash = Sha256::digest(std::fs::read(path).unwrap());
    std::fs::write(path.with_extension("cubin"), [code, TRAILER, &hash].concat()).unwrap();
}

#[test]
fn machine_code_is_taken_where_it_runs_and_is_of_this_ptx() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, one) = (write(folder.path(), "k.compute_80.ptx", "sm_80"), "one.compute_90a.ptx");
    let one = write(folder.path(), one, "sm_90a");
    let module = |path: &Path| PtxModules::read(path).unwrap().modules()[0].clone();
    assert_eq!(module(&plain).machine_code(8, 0), None, "there is none");
    write_machine_code(&plain, b"code");
    write_machine_code(&one, b"other");
    for (major, minor, runs) in [(8, 0, true), (8, 6, true), (8, 9, true), (9, 0, false), (7, 5, false)] {
        let code = module(&plain).machine_code(major, minor);
        assert_eq!(code.is_some(), runs, "{major}.{minor}");
        assert!(code.is_none_or(|code| code == b"code"), "the trailer is not the driver's");
    }
    assert_eq!(module(&one).machine_code(9, 0).as_deref(), Some(&b"other"[..]));
    assert_eq!(module(&one).machine_code(9, 1), None, "sm_90a runs on 9.0 alone");

    // Machine code for other PTX, truncated, or not ours.
    let cubin = plain.with_extension("cubin");
    let whole = std::fs::read(&cubin).unwrap();
    for broken in [
        &whole[..whole.len() - 1],
        &whole[..20],
        b"",
        b"\x7fELF and no trailer of ours at its end, long enough",
    ] {
        std::fs::write(&cubin, broken).unwrap();
        assert_eq!(module(&plain).machine_code(8, 0), None, "{} bytes", broken.len());
    }
    std::fs::write(&cubin, &whole).unwrap();
    std::fs::write(&plain, std::fs::read_to_string(&plain).unwrap() + "// another\n").unwrap();
    assert_eq!(module(&plain).machine_code(8, 0), None, "it was made from other PTX");
}

#[test]
fn what_never_ends_is_refused_and_what_is_large_is_not_read_whole() {
    let error = PtxModules::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(error.contains("/dev/zero") && error.contains("not a regular file"), "{error}");
    assert!(error.contains("cargo xtask build-ptx"), "{error}");

    // Nothing writes to the pipe.
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let error = PtxModules::read(&pipe).unwrap_err().to_string();
    assert!(error.contains("pipe: it is not a regular file"), "{error}");

    // A sparse file of a terabyte with a valid head.
    let path = write(folder.path(), "k.compute_80.ptx", "sm_80");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(1 << 40).unwrap();
    let modules = PtxModules::read(&path).unwrap();
    let error = modules.modules()[0].text().unwrap_err().to_string();
    assert!(error.contains("more than 256 MiB") && error.contains("k.compute_80.ptx"), "{error}");
}

/// A set of one embedded module for `target` with the kernels `names`.
fn embedded(file: &str, target: &str, names: &[&str]) -> PtxModules {
    let kernels = names.iter().map(|name| format!(".visible .entry {name}()\n{{\n\tret;\n}}\n"));
    let text = format!(".version 8.6\n.target {target}\n.address_size 64\n{}", kernels.collect::<String>());
    PtxModules::embedded(&[(file, text.leak().as_bytes())]).unwrap()
}

#[test]
fn what_a_program_brings_comes_before_what_lies_next_to_it() {
    let brought = embedded("norm.rows.compute_90.ptx", "sm_90", &["a"]);
    let found: PtxModules = [
        embedded("norm.rows.compute_75.ptx", "sm_75", &["a"]),
        embedded("norms.compute_75.ptx", "sm_75", &["b"]),
    ]
    .iter()
    .flat_map(|set| set.modules().to_vec())
    .collect::<Vec<_>>()
    .into();
    let names = |modules: PtxModules| -> Vec<String> {
        modules.modules().iter().map(|module| format!("{} {}", module.name(), module.target())).collect()
    };
    assert_eq!(names(brought.clone().and_others_of(found)), ["norm.rows compute_90", "norms compute_75"]);
    let same = embedded("norm.columns.compute_75.ptx", "sm_75", &["c"]);
    assert_eq!(names(brought.and_others_of(same)), ["norm.rows compute_90"]);
}

#[test]
fn joined_sets_hide_nothing_of_each_other() {
    let mine = embedded("kernels.rows.compute_75.ptx", "sm_75", &["a", "b"]);
    let yours = embedded("kernels.rows.compute_80.ptx", "sm_80", &["c"]);
    let third = embedded("kernels.rows.compute_75.ptx", "sm_75", &["d"]);
    for joined in
        [mine.clone().and(yours.clone()).and(third.clone()), mine.clone().and(yours.clone().and(third))]
    {
        // In one set, the part for compute_80 would hide the other two.
        let best = joined.best_for("a GPU", 9, 0).unwrap();
        let found = index(&best).unwrap();
        let at = ["a", "b", "c", "d"].map(|kernel| best[found[kernel]].target().architecture);
        assert_eq!(at, [75, 75, 80, 75]);
    }

    // A set without a module for the device is an error, even if the other set has one.
    let error = mine.clone().and(yours).best_for("Old GPU", 7, 5).unwrap_err();
    assert!(matches!(error, DeviceError::NoModuleFor { .. }), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("there is compute_80 in the set of embedded/kernels.rows.compute_80.ptx"),
        "{error}"
    );
    assert!(error.contains(".archs(..)"), "{error}");

    let twice = mine.and(embedded("other.compute_75.ptx", "sm_75", &["x", "b"]));
    let error = index(&twice.best_for("a GPU", 9, 0).unwrap()).unwrap_err();
    assert!(matches!(&error, DeviceError::KernelInTwoSets { kernel, .. } if kernel == "b"), "{error}");
    let error = error.to_string();
    assert!(
        error.contains("embedded/kernels.rows.compute_75.ptx and in embedded/other.compute_75.ptx"),
        "{error}"
    );
    assert!(error.contains("rename one"), "{error}");
}

#[test]
fn embedded_machine_code_is_checked_as_that_of_files_is() {
    let text = b".version 8.6\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    let code: &'static [u8] = [&b"code"[..], TRAILER, &Sha256::digest(text)].concat().leak();
    let other: &'static [u8] = [&b"code"[..], TRAILER, &Sha256::digest(b"other")].concat().leak();
    let module = |code: &'static [u8]| {
        let files: [(&str, &'static [u8]); 3] =
            [("k.compute_80.cubin", code), ("k.compute_80.ptx", text), ("notes.txt", b"\xff")];
        PtxModules::embedded(&files).unwrap().modules()[0].clone()
    };
    assert_eq!(module(code).machine_code(8, 6).as_deref(), Some(&b"code"[..]));
    assert_eq!(module(code).machine_code(9, 0), None);
    assert_eq!(module(other).machine_code(8, 0), None, "it was made from other PTX");
    let alone = PtxModules::embedded(&[("k.compute_80.ptx", text)]).unwrap();
    assert_eq!(alone.modules()[0].machine_code(8, 0), None, "there is none");
    assert_eq!((alone.modules()[0].name(), alone.modules()[0].text().unwrap().len()), ("k", text.len()));

    for (files, expected) in [
        (&[][..], "no PTX found in the program"),
        (&[("k.compute_80.ptx", &b"\x7fELF\xff"[..])][..], "embedded/k.compute_80.ptx: byte 4 is not UTF-8"),
        (&[("k.compute_80.ptx", &text[..20])][..], "embedded/k.compute_80.ptx: it has no `.target`"),
    ] {
        let error = PtxModules::embedded(files).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn what_is_compressed_has_the_same_text_and_is_read_when_it_is_needed() {
    let pack =
        |text: &str| -> &'static [u8] { compress_to_vec(text.as_bytes(), CompressionLevel::Fastest).leak() };
    let text = |target: &str| {
        let many = (0..20_000).map(|i| format!("\tadd.s32 %r{i}, %r{}, {};\n", i / 7, i * 7919 % 1013));
        format!(
            ".version 8.6\n.target {target}\n.address_size 64\n.visible .entry k()\n{{\n{}}}\n",
            many.collect::<String>()
        )
    };
    let files =
        [("gpu.compute_80.ptx.zst", pack(&text("sm_80"))), ("gpu.compute_90.ptx.zst", pack(&text("sm_90")))];
    let modules = PtxModules::embedded(&files).unwrap();
    assert_eq!(chosen(&modules, 8, 6), ["gpu compute_80"]);
    let (module, clone) = (&modules.modules()[1], modules.clone());
    assert_eq!((module.path(), module.version()), (Path::new("embedded/gpu.compute_90.ptx"), (8, 6)));
    assert_eq!(module.text().unwrap(), text("sm_90"));
    // Clones have what was decompressed.
    assert!(std::ptr::eq(clone.modules()[1].text().unwrap(), module.text().unwrap()));

    let ((name, bytes), mut refused) = (files[0], Vec::new());
    for bytes in [&bytes[..bytes.len() - 9], b"no zstd at all", pack(&text("sm_90"))] {
        let modules = PtxModules::embedded(&[(name, bytes)]).unwrap();
        refused.push(modules.modules()[0].text().unwrap_err().to_string());
    }
    refused.push(PtxModules::embedded(&[("gpu.ptx.zst", bytes)]).unwrap_err().to_string());
    let unpacked = "embedded/gpu.compute_80.ptx: it cannot be decompressed";
    let says = [unpacked, unpacked, "it is for compute_90, not for compute_80", "its name does not end in"];
    for (error, says) in refused.iter().zip(says) {
        assert!(error.contains(says), "{error}");
    }
}
