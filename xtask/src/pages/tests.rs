//! Invented runs, and the committed pages.

use serde_json::{Value, json};

use super::*;
use crate::report::{Results, Run, Subject, Timed, peaks, stem, with_section};
use crate::workspace;

/// A contender's entry: the fields of `problem`, name and time.
pub(super) fn entry(problem: &Value, name: &str, microseconds: f64) -> Value {
    let mut entry = problem.clone();
    entry["name"] = json!(name);
    entry["microseconds"] = json!(microseconds);
    entry
}

pub(super) fn run(machine: &str, entries: &[Value]) -> Run<Timed> {
    let text = json!({"machine": machine, "driver": "570.1", "date": "2000-01-02", "commit": "abc",
        "versions": {"torch": "2.0"}, "entries": entries});
    serde_json::from_value(text).unwrap()
}

/// Ours and the peers' on an H200.
pub(super) fn results(ours: &[Value], peers: &[Value]) -> Results {
    Results::merge(run("NVIDIA H200", ours), Some(run("NVIDIA H200", peers))).unwrap()
}

pub(super) fn has(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

fn softmax_of(op: &str, dtype: &str, cols: usize) -> Value {
    json!({"op": op, "dtype": dtype, "rows": 4096, "cols": cols})
}

/// Two rungs, the operation with twice their speed, and peers; the second width is odd.
fn of_softmax() -> Results {
    let [even, odd] = [4096, 4097].map(|cols| softmax_of("softmax", "f32", cols));
    let loss = softmax_of("cross_entropy", "f32", 4096);
    let ours = [
        entry(&even, "k1_naive", 400.0),
        entry(&even, "k2_block", 80.0),
        entry(&even, "softmax", 40.0),
        entry(&odd, "softmax", 50.0),
        entry(&softmax_of("softmax", "bf16", 4096), "softmax", 20.0),
        entry(&loss, "cross_entropy", 50.0),
        entry(&softmax_of("copy", "f32", 4096), "copy_x1", 38.0),
        entry(&softmax_of("copy", "f32", 2048), "copy_x4", 16.0),
    ];
    let mut failed = odd.clone();
    failed["name"] = json!("triton");
    failed["error"] = json!("left out: too wide\nand more");
    let peers = [
        entry(&even, "clone", 36.0),
        entry(&softmax_of("softmax", "f32", 512), "clone in cache", 3.2),
        entry(&even, "torch eager", 90.0),
        entry(&even, "torch.compile", 39.0),
        entry(&loss, "torch eager", 150.0),
        failed,
    ];
    results(&ours, &peers)
}

#[test]
fn the_page_has_means_ratios_targets_and_what_failed() {
    let page = softmax::SOFTMAX.page(&of_softmax()).unwrap();
    has(
        &page,
        &[
            "NVIDIA H200, driver 570.1, 2000-01-02, commit abc; torch 2.0.",
            "Not in this run: Triton (left out: too wide).",
            "| softmax, f32 | 0.97 x | 0.97 x | 4096 x 4096 | 1 | 2.25 x (1) | 0.97 x (1) |\n",
            "| 4096 x 4096 | 40.0 us | 3355 | 90.0 % | 2.25 x | 0.97 x |\n",
            "| softmax | >= 1.000 | **no**: 0 of 1, the least 0.975 | not measured |\n",
            "| cross_entropy | >= 1.000 | yes: 1 of 1, the least 3.000 | not measured |\n",
            "- softmax f32 4096x4096: 0.975 the best peer's time over ours, at every shape\n",
            "- triton, softmax, f32 4096x4097: left out: too wide\n",
        ],
    );
}

#[test]
fn the_ladder_has_each_step() {
    let sections = (softmax::SOFTMAX.sections)(&[of_softmax()]).unwrap();
    let section = |name: &str| &sections.iter().find(|(_, known, _)| known == name).unwrap().2;
    has(
        section("k2_block_reduce"),
        &["| f32 | k2 | GB/s | times as fast as k1 |\n", "| not measured |  |  |  |\n"],
    );
    has(section("k2_block"), &["| 4096 x 4096 | 80.0 us | 1678 |"]);
    has(section("softmax"), &["| 4096 x 4096 | 40.0 us | 3355 | 90.0 % |\n"]);
}

#[test]
fn targets_are_judged_by_operation_and_type() {
    let at = |rows: usize, cols: usize| json!({"op": "softmax", "dtype": "f32", "rows": rows, "cols": cols});
    let mut copy = at(8192, 32_768);
    copy["op"] = json!("copy");
    let ours = [
        entry(&at(1, 128_256), "softmax", 8.0),
        entry(&at(64, 32_000), "softmax", 9.0),
        entry(&at(8192, 32_768), "softmax", 510.0),
        entry(&copy, "copy_x4", 500.0),
    ];
    let peers = [
        entry(&at(1, 128_256), "quack", 10.0),
        entry(&at(64, 32_000), "torch eager", 9.0),
        entry(&at(8192, 32_768), "quack", 612.0),
    ];
    let page = softmax::SOFTMAX.page(&results(&ours, &peers)).unwrap();
    has(
        &page,
        &[
            "| softmax | >= 1.000 | yes: 3 of 3, the least 1.000 | not measured |\n",
            // The root of 1.25 times 1.2.
            "| softmax | >= 1.050 | yes: 1.225 over 2 shapes |",
            "| softmax | >= 97.0 % | yes: 1 of 1, the least 98.0 % |",
            // The root of 0.8 times 1.
            "| softmax | <= 0.900 | yes: 0.894 over 2 shapes |",
        ],
    );
    assert!(!page.contains("Missed at"), "{page}");
}

#[test]
fn impossible_figures_are_refused() {
    let softmax = softmax_of("softmax", "f32", 4096);
    let copy = softmax_of("copy", "f32", 4096);
    let matmul = json!({"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192});
    let fused =
        json!({"name": "fused", "precision": "f32", "batch": 64, "images": 60000, "epoch_seconds": [0.0005]});
    let bus = json!({"name": "all_reduce", "ranks": 2, "problem": "2", "bus_bytes_per_second": 500e9});
    let images = |ranks: usize, images: f64| json!({"name": "wide", "ranks": ranks, "problem": "a", "images_per_second": images, "microseconds": 1.0});
    let pages: [(&Subject, Vec<Value>, &str); 6] = [
        // 134 MB in 20 us.
        (
            &softmax::SOFTMAX,
            vec![entry(&softmax, "softmax", 20.0)],
            "softmax, softmax f32 4096 x 4096 is 6711 GB/s, above the peak of 4800",
        ),
        (&softmax::SOFTMAX, vec![entry(&softmax, "softmax", -20.0)], "GB/s, above the peak"),
        (
            &softmax::SOFTMAX,
            vec![entry(&softmax, "softmax", 33.0), entry(&copy, "copy_x1", 36.0)],
            "softmax 4096 x 4096 against the best copy is 109.1 % of its roof",
        ),
        (
            &matmul::MATMUL,
            vec![entry(&matmul, "matmul", 1000.0)],
            "matmul, bf16 8192 x 8192 x 8192 is 1100 TFLOP/s, above the peak of 989",
        ),
        (&training::MLP, vec![fused], "fused, f32, batches of 64 is 135 TFLOP/s, above the peak of 67"),
        (
            &collective::COLLECTIVE,
            vec![bus, images(1, 1e3), images(2, 3e3)],
            "wide on 2 GPUs is 150.0 % of its roof",
        ),
    ];
    for (subject, ours, message) in pages {
        let error = subject.check(&results(&ours, &[])).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_peer_is_compared_with_ours_of_its_own_run() {
    let square =
        json!({"dtype": "bf16", "m": 8192, "n": 8192, "k": 8192, "clock_and_power": [1980.0, 650.0]});
    let files = [
        [
            entry(&square, "matmul", 1600.0),
            entry(&square, "cublaslt", 1700.0),
            entry(&square, "r05_two", 2000.0),
        ],
        [entry(&square, "matmul", 1800.0), entry(&square, "compile", 1620.0), entry(&square, "copy", 220.0)],
    ];
    let folder = tempfile::tempdir().unwrap();
    let runs = files.iter().enumerate().map(|(number, entries)| {
        let path = folder.path().join(format!("{number}.json"));
        let text = json!({"machine": "NVIDIA H200", "driver": "580", "date": "2026-11-25", "commit": "0123456789",
            "versions": {"torch": "2.11"}, "entries": entries});
        std::fs::write(&path, text.to_string()).unwrap();
        path
    });
    let results = Turns { runs: runs.collect() }.runs(matmul::is_own).unwrap().unwrap();
    assert_eq!(results.versions["torch"], "2.11");
    let tables = matmul::MATMUL.contests(&results);
    let [(title, contests)] = &tables[..] else { panic!("{} tables", tables.len()) };
    assert_eq!((title.as_str(), contests.len()), ("bf16", 1));
    assert_eq!((contests[0].ours.run, contests[0].lead("compile")), (1, Some(0.9)));
    assert_eq!(contests[0].lead("cublaslt"), Some(1700.0 / 1600.0));
    assert_eq!(contests[0].ratio("cublaslt", "r05_two"), Some(0.85));
    has(
        &matmul::MATMUL.page(&results).unwrap(),
        &[
            "| 8192 x 8192 x 8192 | 1800.0 us | 611 |",
            "| 1.06 x | 0.90 x | 1980 MHz | 650 W |",
            "| 8192 x 8192 x 8192 | r05_two | 2000.0 us | 550 | 0.85 x |",
        ],
    );
}

#[test]
fn a_later_run_replaces_what_it_timed() {
    let loss = softmax_of("cross_entropy", "f32", 4096);
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, machine: &str, entries: &[Value]| {
        let path = folder.path().join(name);
        let text = json!({"machine": machine, "driver": "1", "date": "d", "commit": "c", "entries": entries});
        std::fs::write(&path, text.to_string()).unwrap();
        path
    };
    let gpu = "NVIDIA H200";
    let ours = [
        file(
            "a",
            gpu,
            &[entry(&loss, "cross_entropy", 50.0), entry(&softmax_of("softmax", "f32", 8), "softmax", 1.0)],
        ),
        file("b", gpu, &[entry(&loss, "cross_entropy", 49.0)]),
    ];
    let eager = file("c", gpu, &[entry(&loss, "torch eager", 150.0)]);
    let compiled = file("d", gpu, &[entry(&loss, "torch.compile", 98.0)]);
    let quack = file("e", gpu, &[entry(&loss, "quack", 70.0)]);
    let merge = |peers: Vec<_>| Files { ours: ours.to_vec(), peers }.runs::<Timed>();
    let results = merge(vec![eager.clone(), compiled, quack]).unwrap().unwrap();
    let tables = softmax::SOFTMAX.contests(&results);
    let contest = &tables.iter().find(|(title, _)| title == "cross_entropy, f32").unwrap().1[0];
    assert_eq!(contest.least(&softmax::SOFTMAX), Some((70.0 / 49.0, "QuACK")));
    assert_eq!(contest.lead("torch.compile"), Some(2.0));
    assert!(contest.entry("torch eager").is_none(), "it is of the earlier run");
    let other = file("f", "another", &[entry(&loss, "quack", 70.0)]);
    let error = merge(vec![eager, other]).unwrap_err().to_string();
    assert!(error.contains("the peers on another") && error.contains("in one run"), "{error}");
    let error = Results::merge(run("x", &[]), None).unwrap_err().to_string();
    assert!(error.contains("timed nothing"), "{error}");
}

#[test]
fn a_merged_file_comes_back_with_an_entry_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("softmax.json");
    let results = of_softmax();
    results.write(&path).unwrap();
    assert_eq!(Results::read(&path).unwrap(), results);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + 8 + 6);
    std::fs::write(&path, "{").unwrap();
    let error = Run::<Timed>::read(&path).unwrap_err().to_string();
    assert!(error.ends_with("softmax.json holds no figures of a bench's run"), "{error}");
}

#[test]
fn what_one_file_leaves_out_another_may_have_measured() {
    let mut results = of_softmax();
    for name in ["torch eager", "quack"] {
        results.missing.insert(name.to_owned(), "not installed".to_owned());
    }
    let before = results.peers.len();
    let late = json!({"name": "clone", "op": "softmax", "dtype": "f32", "rows": 4096, "cols": 4096, "error": "left out"});
    results.peers.push(serde_json::from_value(late).unwrap());
    softmax::keep_measured(&mut results);
    assert_eq!(results.peers.len(), before);
    assert_eq!(results.missing.keys().collect::<Vec<_>>(), ["quack"]);
}

#[test]
fn every_operation_of_the_library_is_in_the_report() {
    let library = workspace::root().join("host/src/softmax");
    assert_eq!(operations::unlisted(&library).unwrap(), [""; 0]);
    for method in operations::OPERATIONS.map(|operation| operation.method).iter().filter(|it| !it.is_empty())
    {
        let (file, name) = method.split_once("::").unwrap();
        let text = std::fs::read_to_string(library.join(file).with_extension("rs")).unwrap();
        assert!(text.contains(&format!("    pub fn {name}<")), "{method}");
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("top_k.rs", "impl TopK {\n    pub fn run<T>(\n    pub fn run_into(\n    pub fn backward(\n}\n");
    write("median.rs", "pub fn helper(\nimpl Median {\n    pub fn run(\n}\n");
    let mut found = operations::unlisted(folder.path()).unwrap();
    found.sort_unstable();
    assert_eq!(found, ["median::run", "top_k::backward"]);
    let error = operations::check_run(&of_softmax()).unwrap_err().to_string();
    assert!(error.contains("no time of log_softmax in f32, which ferrowarp::softmax offers"), "{error}");
    let name = |op: &str| operations::operation(op).map(|operation| operation.name);
    assert_eq!([name("top_k_64"), name("sample_top_p")], [Some("top_k"), Some("sample_top_p")]);
    assert_eq!([name("copy"), name("softmax_median")], [None, None]);
}

#[test]
fn a_section_stands_between_its_markers() {
    let text = "a\n<!-- softmax -->\nold\n<!-- /softmax -->\nb\n";
    let new = with_section("softmax.md", text, "softmax", "new\n").unwrap();
    assert_eq!(new, "a\n<!-- softmax -->\nnew\n<!-- /softmax -->\nb\n");
    let error = with_section("softmax.md", "nothing", "softmax", "new\n").unwrap_err().to_string();
    assert!(error.contains("no section <!-- softmax --> ... <!-- /softmax -->"), "{error}");
    assert!(with_section("x", "<!-- /softmax -->\n<!-- softmax -->\n", "softmax", "").is_err());
}

#[test]
fn figures_of_another_gpu_have_files_of_their_own() {
    for (machine, stem_of) in
        [("NVIDIA H200", "mlp"), ("NVIDIA H100 80GB HBM3", "mlp-h100"), ("NVIDIA A100-SXM4-40GB", "mlp-a100")]
    {
        assert_eq!(stem("mlp", machine), stem_of);
        assert!(peaks::of(machine).is_some());
    }
}
