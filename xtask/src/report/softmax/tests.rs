//! Invented runs, merged and drawn in a temporary folder.

use super::*;

fn entry(name: &str, op: &str, dtype: &str, cols: usize, microseconds: f64) -> String {
    format!(
        r#"{{"name": "{name}", "op": "{op}", "dtype": "{dtype}", "rows": 4096, "cols": {cols},
            "microseconds": {microseconds}, "samples": 10, "launches_per_sample": 20, "sets": 4}}"#
    )
}

fn run(machine: &str, entries: &[String]) -> String {
    format!(
        r#"{{"machine": "{machine}", "driver": "570.1", "date": "2000-01-02", "commit": "abc", "l2_bytes": 1000,
            "versions": {{"torch": "2.0"}}, "entries": [{}]}}"#,
        entries.join(",")
    )
}

fn read(text: &str) -> anyhow::Result<Run> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, text).unwrap();
    Run::read(&path)
}

/// A rung, the operation with twice its speed, and peers; the second width is odd.
fn results() -> Results {
    let ours = [
        entry("k1_naive", "softmax", "f32", 4096, 400.0),
        entry("k2_block", "softmax", "f32", 4096, 80.0),
        entry("softmax", "softmax", "f32", 4096, 40.0),
        entry("k1_naive", "softmax", "f32", 4097, 50.0),
        entry("softmax", "softmax", "bf16", 4096, 20.0),
        entry("cross_entropy", "cross_entropy", "f32", 4096, 50.0),
        entry("copy_x1", "copy", "f32", 4096, 38.0),
        entry("copy_x4", "copy", "f32", 2048, 16.0),
    ];
    let failed = r#"{"name": "triton", "op": "softmax", "dtype": "f32", "rows": 4096, "cols": 4097,
        "error": "left out: too wide\nand more"}"#;
    let peers = [
        entry("clone", "softmax", "f32", 4096, 36.0),
        entry("clone in cache", "softmax", "f32", 512, 3.2),
        entry("torch eager", "softmax", "f32", 4096, 90.0),
        entry("torch.compile", "softmax", "f32", 4096, 39.0),
        entry("torch eager", "cross_entropy", "f32", 4096, 150.0),
        failed.to_owned(),
    ];
    let [ours, peers] =
        [run("NVIDIA H200", &ours), run("NVIDIA H200", &peers)].map(|text| read(&text).unwrap());
    Results::merge(ours, Some(peers)).unwrap()
}

#[test]
fn contests_have_the_operation_its_copy_and_its_peers() {
    let results = results();
    let contests = results.contests();
    assert_eq!(contests.len(), 4);
    let first = &contests[0];
    assert_eq!(
        (first.ours.unwrap().name.as_str(), first.copy.unwrap().microseconds),
        ("softmax", Some(36.0))
    );
    assert_eq!(tables::percent(first.share_of_copy()), "90.0 %");
    assert_eq!(first.best_peer().unwrap().name, "torch.compile");
    assert_eq!(first.lead_over(first.peer("torch eager")), Some(2.25));
    let odd = &contests[1];
    assert_eq!(odd.ours.unwrap().name, "k1_naive");
    // A copy with 0.02 % fewer bytes.
    assert!(odd.best_peer().is_none() && odd.copy.is_some());
    // bf16 has the bytes of half as many f32 elements.
    let half = &contests[2];
    let share = tables::percent(half.share_of_copy());
    assert_eq!((half.copy.unwrap().name.as_str(), share.as_str()), ("copy_x4", "80.0 %"));
    // 4096 x 4096 of f32, read and written, in 40 us.
    assert!((first.ours.unwrap().gigabytes_per_second().unwrap() - 3355.4432).abs() < 1e-9);
}

#[test]
fn a_merged_file_comes_back_with_an_entry_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("softmax.json");
    results().write(&path).unwrap();
    assert_eq!(Results::read(&path).unwrap(), results());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + 8 + 6);
}

#[test]
fn documents_hold_figures_charts_and_what_is_missed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::write(folder.path().join(ladder::PAGE), page(&["k1_naive", "k2_block"])).unwrap();
    let short = write_documents(&results(), &[], folder.path()).unwrap();
    let row = "| 4096x4096 | f32 | 40.0 us | 3355 | 90.0 % | 2.25 x | 0.97 x |\n";
    assert!(short.contains(row), "{short}");
    assert!(
        short.contains("Not in this run: Triton (left out: too wide), QuACK, FlashInfer. Geometric means"),
        "{short}"
    );
    assert!(short.contains("| softmax | f32 | 2.25 x (1) | 0.97 x (1) |\n"), "{short}");
    assert!(short.contains("| k2_block | 80.0 us | 1678 | 5.00 x |\n"), "{short}");
    assert!(short.contains("NVIDIA H200, driver 570.1, 2000-01-02, commit abc; torch 2.0"), "{short}");

    let page = std::fs::read_to_string(folder.path().join(ladder::PAGE)).unwrap();
    assert!(page.contains("| 4096x4096 | 80.0 us | 1678 | 5.00 x |\n"), "{page}");

    let full = std::fs::read_to_string(folder.path().join("results/softmax.md")).unwrap();
    for part in [
        "| softmax | >= 1.000 | **no**: 0 of 1, the least 0.975 | not measured |\n",
        "| cross_entropy | >= 1.000 | yes: 1 of 1, the least 3.000 | not measured |\n",
        "QuACK's time over ours, geometric mean\n\n| operation | wanted | f32 | bf16 |\n| --- | ---: | --- | --- |\n| softmax | >= 1.050 | not measured |",
        "- softmax f32 4096x4096: 0.975 the best peer's time over ours, at every shape\n",
        "Not in this run: Triton (left out: too wide), QuACK, FlashInfer.\n",
        "| 4096x4096 | bf16 | softmax | 20.0 us | 3355 | 80.0 % | copy_x4 | none |",
    ] {
        assert!(full.contains(part), "{part} is missing in {full}");
    }
    assert!(full.contains("- triton, softmax f32 4096x4097: left out: too wide\n"), "{full}");

    let svg = std::fs::read_to_string(folder.path().join("softmax.svg")).unwrap();
    for text in [
        "k1_naive",
        "Ferrowarp",
        "the best copy",
        "a copy within L2: 5.2 TB/s",
        "memory, datasheet: 4.8 TB/s",
        "At 4096x4096 softmax reaches 90.0 % of the best copy and is 10 times as fast as k1",
    ] {
        assert!(svg.lines().any(|line| line.trim() == text), "{text} is missing");
    }
    let shapes = std::fs::read_to_string(folder.path().join("softmax-shapes.svg")).unwrap();
    assert!(shapes.trim_end().ends_with("</svg>"));
}

/// A file of figures may contain any numbers, even those of no matrix.
#[test]
fn impossible_shapes_do_not_overflow() {
    let ours = read(&run("Some GPU", &[entry("softmax", "backward", "f32", usize::MAX, 4.0)])).unwrap();
    assert!(ours.entries[0].bytes() > 1e23);
}

#[test]
fn a_run_without_peers_is_reported_too() {
    let ours = read(&run("Some GPU", &[entry("k1_naive", "softmax", "f32", 256, 4.0)])).unwrap();
    let results = Results::merge(ours, None).unwrap();
    let contests = results.contests();
    assert!(contests[0].best_peer().is_none());
    let short = tables::section(&results, &[]);
    assert!(short.contains("Not in this run: PyTorch, torch.compile, Triton, QuACK, FlashInfer."), "{short}");
    assert!(short.contains("| 4096x256 | f32 | 4.0 us | 2097 |  |\n"), "{short}");
    assert!(chart::widths(&results).unwrap().contains("k1_naive"));
}

#[test]
fn a_peer_that_is_not_installed_is_named_with_the_reason() {
    let [ours, peers] = ["softmax", "torch eager"].map(|name| {
        let text = run("NVIDIA H200", &[entry(name, "softmax", "f32", 256, 4.0)]);
        let text = text.replace("\"entries\"", "\"missing\": {\"quack\": \"No module\"}, \"entries\"");
        read(&text).unwrap()
    });
    let results = Results::merge(ours, Some(peers)).unwrap();
    assert_eq!(results.missing(), ["torch.compile", "Triton", "QuACK (No module)", "FlashInfer"]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("softmax.json");
    results.write(&path).unwrap();
    assert_eq!(Results::read(&path).unwrap(), results);
    let full = tables::full(&results);
    assert!(
        full.contains("Not in this run: torch.compile, Triton, QuACK (No module), FlashInfer.\n"),
        "{full}"
    );
}

#[test]
fn targets_are_judged_by_operation_and_type() {
    let at = |name: &str, rows: usize, cols: usize, time: f64| {
        let rows = format!("\"rows\": {rows}");
        entry(name, "softmax", "f32", cols, time).replace("\"rows\": 4096", &rows)
    };
    let ours = [
        at("softmax", 1, 128_256, 8.0),
        at("softmax", 64, 32_000, 9.0),
        at("softmax", 8192, 32_768, 510.0),
        at("copy_x4", 8192, 32_768, 500.0).replace("\"op\": \"softmax\"", "\"op\": \"copy\""),
    ];
    let peers = [
        at("quack", 1, 128_256, 10.0),
        at("torch eager", 64, 32_000, 9.0),
        at("quack", 8192, 32_768, 612.0),
        at("clone", 8192, 32_768, 700.0),
    ];
    let [ours, peers] = [ours, peers].map(|entries| read(&run("NVIDIA H200", &entries)).unwrap());
    let full = tables::full(&Results::merge(ours, Some(peers)).unwrap());
    for part in [
        "| softmax | >= 1.000 | yes: 3 of 3, the least 1.000 | not measured |\n",
        // The root of 1.25 times 1.2.
        "| softmax | >= 1.050 | yes: 1.225 over 2 shapes |",
        "| softmax | >= 97.0 % | yes: 1 of 1, the least 98.0 % |",
        // The root of 0.8 times 1.
        "| softmax | <= 0.900 | yes: 0.894 over 2 shapes |",
        "| softmax | f32 | 1.00 x (1) | 1.22 x (2) |\n",
    ] {
        assert!(full.contains(part), "{part} is missing in {full}");
    }
    assert!(!full.contains("Missed at"), "{full}");
}

#[test]
fn a_later_run_replaces_the_operations_that_it_timed() {
    let one = |machine: &str, name: &str, time: f64| {
        read(&run(machine, &[entry(name, "cross_entropy", "f32", 4096, time)])).unwrap()
    };
    let later = || one("NVIDIA H200", "cross_entropy", 49.0);
    let peers = one("NVIDIA H200", "torch.compile", 98.0);
    let merged = results().with(Results::merge(later(), Some(peers)).unwrap()).unwrap();
    let contests = merged.contests();
    assert_eq!(contests.len(), 4);
    let loss = contests.iter().find(|contest| contest.op == "cross_entropy").unwrap();
    let peer = loss.best_peer();
    assert_eq!((peer.unwrap().name.as_str(), loss.lead_over(peer)), ("torch.compile", Some(2.0)));
    assert!(loss.peer("torch eager").is_none(), "it is of the earlier run");
    let other = Results::merge(one("another", "cross_entropy", 1.0), None).unwrap();
    let error = results().with(other).unwrap_err().to_string();
    assert!(error.contains("one run is of NVIDIA H200") && error.contains("another of another"), "{error}");
}

#[test]
fn files_that_do_not_fit_are_refused() {
    let error = read("{").unwrap_err();
    assert!(error.to_string().ends_with("run.json holds no figures of a softmax run"), "{error}");
    let error = Results::merge(read(&run("x", &[])).unwrap(), None).unwrap_err();
    assert!(error.to_string().contains("timed nothing"), "{error}");
    let one = [entry("k1_naive", "softmax", "f32", 256, 4.0)];
    let [ours, peers] = ["NVIDIA H200", "another"].map(|machine| read(&run(machine, &one)).unwrap());
    let error = Results::merge(ours, Some(peers)).unwrap_err().to_string();
    assert!(error.contains("the peers on another") && error.contains("in one run"), "{error}");
}

#[test]
fn the_section_stands_between_its_markers() {
    let text = "a\n<!-- softmax -->\nold\n<!-- /softmax -->\nb\n";
    let new = measure::with_section("softmax.md", text, "softmax", "new\n").unwrap();
    assert_eq!(new, "a\n<!-- softmax -->\nnew\n<!-- /softmax -->\nb\n");
    let error = measure::with_section("softmax.md", "nothing", "softmax", "new\n").unwrap_err().to_string();
    assert!(error.contains("no section <!-- softmax --> ... <!-- /softmax -->"), "{error}");
    assert!(
        measure::with_section("softmax.md", "<!-- /softmax -->\n<!-- softmax -->\n", "softmax", "").is_err()
    );
}

/// The page with a section for each of these.
fn page(rungs: &[&str]) -> String {
    let names = ["measured"].iter().chain(rungs).chain(&["softmax"]);
    names.map(|name| format!("text\n<!-- {name} -->\nold\n<!-- /{name} -->\n")).collect()
}

#[test]
fn the_page_of_the_ladder_gets_each_step() {
    let filled = ladder::fill(&page(&["k1_naive", "k2_block"]), Some(&results())).unwrap();
    for part in [
        "<!-- measured -->\nMeasured on: NVIDIA H200, driver 570.1, 2000-01-02, commit abc; torch 2.0.\n<!--",
        "<!-- k1_naive -->\n| f32 | k1 | GB/s |  |\n| --- | ---: | ---: | ---: |\n| 4096x4096 | 400.0 us | 336 |  |\n<!-- /k1_naive -->\ntext\n",
        "| f32 | k2 | GB/s | times as fast as k1 |\n",
        "| 4096x4096 | 80.0 us | 1678 | 5.00 x |\n",
        "| f32 | softmax | GB/s | of the best copy |\n",
        "| 4096x4096 | 40.0 us | 3355 | 90.0 % |\n",
    ] {
        assert!(filled.contains(part), "{part} is missing in {filled}");
    }
    let empty = ladder::fill(&filled, None).unwrap();
    assert!(
        empty.contains("Nothing is measured yet.\n") && empty.contains("| not measured |  |  |  |\n"),
        "{empty}"
    );
    assert!(!empty.contains("400.0 us"), "{empty}");
    let error = ladder::fill(&page(&["k1_naive"]), Some(&results())).unwrap_err().to_string();
    assert!(
        error.contains("softmax-ladder.md has no section <!-- k2_block --> ... <!-- /k2_block -->"),
        "{error}"
    );
}

#[test]
fn our_page_has_every_rung_and_the_figures_that_were_merged() {
    let docs = workspace::root().join("docs");
    let page = std::fs::read_to_string(docs.join(ladder::PAGE)).unwrap();
    let files =
        workspace::files(&workspace::root().join("gpu-kernels/ladders/src/softmax"), &|_| true).unwrap();
    let names = files.iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()));
    let mut rungs: Vec<String> = names.filter(|name| is_rung(name)).collect();
    // Of k10 and k9, the shorter name is the lower rung.
    rungs.sort_by_key(|name| name.find('_'));
    assert_eq!(ladder::rungs(&page), rungs);
    let results = Results::read(&docs.join("results/softmax.json")).ok();
    assert!(
        ladder::fill(&page, results.as_ref()).unwrap() == page,
        "docs/{} does not hold the figures of docs/results/softmax.json; run `cargo xtask report softmax`",
        ladder::PAGE
    );
}

#[test]
fn every_operation_has_a_row_and_those_of_decoding_read_their_matrix_once() {
    let none = results();
    assert!(tables::full(&none).contains("## top_k\n\nNot measured.\n"));
    assert!(tables::section(&none, &[]).contains("| top_k | f32 | not measured |"));
    let ours = [entry("top_k", "top_k", "f32", 4096, 20.0), entry("copy_x4", "copy", "f32", 4096, 40.0)];
    let peers = [entry("torch eager", "top_k", "f32", 4096, 500.0)];
    let [ours, peers] =
        [run("NVIDIA H200", &ours), run("NVIDIA H200", &peers)].map(|text| read(&text).unwrap());
    let results = Results::merge(ours, Some(peers)).unwrap();
    // A copy moves the matrix twice in twice the time.
    assert_eq!(tables::percent(results.contests()[0].share_of_copy()), "100.0 %");
    assert!(
        tables::full(&results).contains("## top_k")
            && tables::section(&results, &[]).contains("| top_k | f32 | 25.00 x (1)")
    );
}

#[test]
fn an_impossible_figure_ends_the_report_with_an_error() {
    check::check(&results()).unwrap();
    let planted = |text: &str| {
        let ours = read(&run("NVIDIA H200", &[text.to_owned()])).unwrap();
        check::check(&Results::merge(ours, None).unwrap()).unwrap_err().to_string()
    };
    // 134 MB in 20 us.
    let error = planted(&entry("softmax", "softmax", "f32", 4096, 20.0));
    assert!(error.contains("softmax, softmax f32 4096x4096 is 6711 GB/s, above the peak of 4800"), "{error}");
    let error = planted(&entry("softmax", "softmax", "f32", 4096, -20.0));
    assert!(error.contains("GB/s, above the peak"), "{error}");
    let two = [entry("softmax", "softmax", "f32", 4096, 33.0), entry("copy_x1", "copy", "f32", 4096, 36.0)];
    let results = Results::merge(read(&run("NVIDIA H200", &two)).unwrap(), None).unwrap();
    let error = check::check(&results).unwrap_err().to_string();
    assert!(
        error.contains("softmax, softmax f32 4096x4096 against the best copy is 109.1 % of its roof"),
        "{error}"
    );
}

#[test]
fn two_pages_with_two_values_of_a_measurement_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("results")).unwrap();
    std::fs::write(folder.path().join(ladder::PAGE), page(&["k1_naive", "k2_block"])).unwrap();
    let short = write_documents(&results(), &[], folder.path()).unwrap();
    let write = |short: &str| {
        let text = format!("<!-- softmax -->\n{short}<!-- /softmax -->\n");
        std::fs::write(folder.path().join(PAGE), text).unwrap();
    };
    write(&short);
    check::check_pages(folder.path()).unwrap();
    write(&short.replace("| 40.0 us | 3355 |", "| 40.0 us | 3356 |"));
    let error = check::check_pages(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("softmax f32 4096x4096, GB/s, is 3356 in softmax.md, but 3355 in results/softmax.md"),
        "{error}"
    );
}

#[test]
fn a_run_without_one_of_the_librarys_operations_is_refused() {
    let error = operations::check_run(&results()).unwrap_err().to_string();
    assert!(error.contains("no time of log_softmax in f32, which ferrowarp::softmax offers"), "{error}");
}

#[test]
fn peers_that_are_timed_by_a_second_script_belong_to_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, entries: &[String]| {
        let path = folder.path().join(name);
        std::fs::write(&path, run("NVIDIA H200", entries)).unwrap();
        path
    };
    let ours = write("ours.json", &[entry("softmax", "softmax", "f32", 256, 4.0)]);
    let eager = write("eager.json", &[entry("torch eager", "softmax", "f32", 256, 5.0)]);
    let compiled = write("compiled.json", &[entry("torch.compile", "softmax", "f32", 256, 6.0)]);
    let results: Results = Files::of(vec![ours], vec![eager, compiled]).runs().unwrap().unwrap();
    let names: Vec<&str> = results.peers.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["torch eager", "torch.compile"]);
}

#[test]
fn what_one_file_leaves_out_another_may_have_measured() {
    let mut results = results();
    results.missing.insert("torch eager".to_owned(), "not installed".to_owned());
    results.missing.insert("quack".to_owned(), "not installed".to_owned());
    let before = results.peers.len();
    let late = r#"{"name": "clone", "op": "softmax", "dtype": "f32", "rows": 4096, "cols": 4096, "error": "left out"}"#;
    results.peers.push(serde_json::from_str(late).unwrap());
    keep_measured(&mut results);
    assert_eq!(results.peers.len(), before);
    assert_eq!(results.missing.keys().collect::<Vec<_>>(), ["quack"]);
}
