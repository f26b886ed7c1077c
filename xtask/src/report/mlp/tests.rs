//! Invented runs, merged and drawn in a temporary folder.

use super::*;

type Run = report::Run<Entry>;

fn entry(name: &str, precision: &str, batch: usize, seconds: &str) -> String {
    format!(
        r#"{{"name": "{name}", "precision": "{precision}", "batch": {batch}, "data": "mnist", "images": 60000,
            "epoch_seconds": [{seconds}], "accuracy": 0.9791}}"#
    )
}

fn run(machine: &str, entries: &[String]) -> Run {
    let text = format!(
        r#"{{"machine": "{machine}", "driver": "570.1", "date": "2000-01-02", "commit": "abc",
            "versions": {{"torch": "2.0"}}, "entries": [{}]}}"#,
        entries.join(",")
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, text).unwrap();
    Run::read(&path).unwrap()
}

/// Two rungs, one of them at two batch sizes, and a peer in two precisions that fails at another size.
fn results() -> Results {
    let step = entry("naive", "f32", 64, "0.5, 0.4, 0.6").replace("}", r#", "step_microseconds": 412.25}"#);
    let ours = [step, entry("fused", "f32", 64, "0.05"), entry("fused", "f32", 256, "0.02, 0.03")];
    let failed = r#"{"name": "torch eager", "precision": "f32", "batch": 256, "data": "mnist", "images": 60000,
        "error": "RuntimeError: no memory\nand more"}"#;
    let left_out = failed.replace("256", "1024").replace("no memory", "left out: the budget");
    let peers = [
        entry("torch eager", "f32", 64, "0.3"),
        entry("torch eager", "tf32", 64, "0.25"),
        failed.to_owned(),
        left_out,
    ];
    let results = Results::merge(run("NVIDIA H200", &ours), Some(run("NVIDIA H200", &peers))).unwrap();
    check(&results).unwrap();
    results
}

/// A folder for documents, with a page of the ladder that has these rungs.
fn docs(rungs: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("results")).unwrap();
    let sections = rungs.iter().map(|name| format!("<!-- rung {name} -->\nold\n<!-- /rung {name} -->\n"));
    let fixed = ["measured", "article"].map(|name| format!("<!-- {name} -->\n<!-- /{name} -->\n")).concat();
    let page = format!("# Page\n\n{fixed}{}", sections.collect::<String>());
    std::fs::write(folder.path().join(ladder::PAGE), page).unwrap();
    folder
}

#[test]
fn documents_hold_medians_and_what_is_missing() {
    let folder = docs(&["naive", "fused"]);
    let short = write_documents(Some(&results()), &[], folder.path()).unwrap();
    for row in [
        "| naive | f32 | not measured | 500.00 ms | not measured | not measured | 10.00 x | 97.91 % |\n",
        "| fused | f32 | not measured | 50.00 ms | 25.00 ms | not measured | 1.00 x | 97.91 % |\n",
        "| torch eager | f32 | not measured | 300.00 ms | failed | left out | 6.00 x | 97.91 % |\n",
        "| torch eager | tf32 | not measured | 250.00 ms | not measured | not measured | 5.00 x | 97.91 % |\n",
    ] {
        assert!(short.contains(row), "{row} is missing in {short}");
    }
    let origin = "60000 images of MNIST; NVIDIA H200, driver 570.1, 2000-01-02, commit abc; torch 2.0.";
    assert!(short.contains(origin), "{short}");

    let full = std::fs::read_to_string(folder.path().join("results/mlp.md")).unwrap();
    for part in [
        "| naive | f32 | 3 | 500.00 ms | 400.00 ms | 120000 | 412.2 us | 97.91 % |\n",
        "| fused | f32 | 2 | 25.00 ms | 20.00 ms | 2400000 |  | 97.91 % |\n",
        "- torch eager, f32, batches of 256: RuntimeError: no memory\n",
    ] {
        assert!(full.contains(part), "{part} is missing in {full}");
    }

    let svg = std::fs::read_to_string(folder.path().join("mlp.svg")).unwrap();
    for text in ["batches of 256", "torch eager tf32", "500.00 ms"] {
        assert!(svg.lines().any(|line| line.trim() == text), "{text} is missing");
    }
    for absent in ["not measured", "failed", "left out", "batches of 1024"] {
        assert!(!svg.contains(absent), "{absent} is drawn");
    }
    let title = "An epoch in batches of 64 takes 50.00 ms; the fastest peer (torch eager tf32) takes 5.0 times as long";
    assert!(svg.lines().any(|line| line.trim() == title), "{svg}");
}

#[test]
fn nothing_measured_is_said_and_drawn_as_nothing() {
    let folder = docs(&["naive"]);
    assert_eq!(write_documents(None, &[], folder.path()).unwrap(), "Nothing is measured on a GPU yet.\n");
    let full = std::fs::read_to_string(folder.path().join("results/mlp.md")).unwrap();
    assert!(full.ends_with("\n\nNothing is measured yet.\n"), "{full}");
    assert!(!folder.path().join("mlp.svg").exists());
}

#[test]
fn the_page_of_the_ladder_gets_each_step() {
    let folder = docs(&["naive", "fused", "graph"]);
    write_documents(Some(&results()), &[], folder.path()).unwrap();
    let path = folder.path().join(ladder::PAGE);
    let page = std::fs::read_to_string(&path).unwrap();
    assert_eq!(ladder::rungs(&page), ["naive", "fused", "graph"]);
    for part in [
        "Measured on: 60000 images of MNIST; NVIDIA H200, driver 570.1, 2000-01-02, commit abc; torch 2.0.\n",
        "| 64 | 500.00 ms | 412.2 us | 120000 |  |\n",
        "| 64 | 50.00 ms |  | 1200000 | 10.00 x |\n| 256 | 25.00 ms |  | 2400000 |  |\n",
        "| batches of 64 in place of 16 | a tenth of a second | 5 x | 50.00 ms |  |\n",
        "times as fast as fused |\n| --- | ---: | ---: | ---: | ---: |\n| not measured |  |  |  |  |\n",
    ] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    assert!(!page.contains("old"), "{page}");
    let empty = ladder::fill(&page, None).unwrap();
    // Three rungs, and three steps of the article.
    assert_eq!(empty.matches("| not measured |").count(), 6, "{empty}");
    assert!(empty.contains("Nothing is measured on a GPU yet.\n") && !empty.contains("H200"), "{empty}");
}

#[test]
fn a_later_run_replaces_the_same_contestants_at_the_same_batches() {
    let later = run("NVIDIA H200", &[entry("fused", "f32", 64, "0.04"), entry("graph", "f32", 64, "0.03")]);
    let peers = run("NVIDIA H200", &[entry("torch eager", "tf32", 64, "0.2")]);
    let merged = results().with(Results::merge(later, Some(peers)).unwrap()).unwrap();
    let epoch = |name, precision, batch| merged.entry((name, precision), batch).unwrap().epoch();
    assert_eq!((merged.ours.len(), merged.peers.len()), (4, 4));
    assert_eq!((epoch("fused", "f32", 64), epoch("fused", "f32", 256)), (Some(0.04), Some(0.025)));
    assert_eq!((epoch("torch eager", "f32", 64), epoch("torch eager", "tf32", 64)), (Some(0.3), Some(0.2)));
    assert_eq!(merged.fastest(64), Some(0.03));
}

#[test]
fn a_merged_file_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mlp.json");
    results().write(&path).unwrap();
    assert_eq!(Results::read(&path).unwrap(), results());
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 1 + 3 + 4);
}

#[test]
fn runs_that_do_not_fit_are_refused() {
    let ours = || run("NVIDIA H200", &[entry("fused", "f32", 64, "0.05")]);
    let other = entry("torch eager", "f32", 64, "0.3").replace("60000", "5000").replace("mnist", "synthetic");
    let results = Results::merge(ours(), Some(run("NVIDIA H200", &[other]))).unwrap();
    let error = check(&results).unwrap_err().to_string();
    assert_eq!(
        error,
        "fused trained on 60000 images, mnist, torch eager on 5000 images, synthetic; measure both on the same data"
    );
    let error = Results::merge(ours(), Some(run("another", &[]))).unwrap_err().to_string();
    assert!(error.contains("the peers on another"), "{error}");
    let error = Results::merge(run("x", &[]), None).unwrap_err().to_string();
    assert!(error.contains("timed nothing"), "{error}");
}

#[test]
fn a_rate_above_the_peak_is_an_error() {
    let planted = run("NVIDIA H200", &[entry("fused", "f32", 64, "0.0005")]);
    let error = check(&Results::merge(planted, None).unwrap()).unwrap_err().to_string();
    assert!(error.contains("fused, f32, batches of 64 is 135 TFLOP/s, above the peak of 67"), "{error}");
}

#[test]
fn a_rung_in_whose_place_another_one_ran_has_no_time() {
    let folder = docs(&["naive"]);
    let ours = [entry("graph", "f32", 256, "0.02"), entry("resident", "f32", 64, "0.01")];
    let results = Results::merge(run("NVIDIA H200", &ours), None).unwrap();
    let text = write_documents(Some(&results), &[], folder.path()).unwrap();
    assert!(
        text.contains("| resident | f32 | not measured | 10.00 ms | runs `graph` | runs `graph` |"),
        "{text}"
    );
}

#[test]
fn figures_of_another_gpu_have_files_of_their_own() {
    let stem = |machine| stem("mlp", machine);
    assert_eq!(stem("NVIDIA H200"), "mlp");
    assert_eq!(stem("NVIDIA H100 80GB HBM3"), "mlp-h100");
    assert_eq!(stem("NVIDIA A100-SXM4-40GB"), "mlp-a100");
    let folder = docs(&[]);
    let h100 =
        Results::merge(run("NVIDIA H100 80GB HBM3", &[entry("fused", "f32", 64, "0.05")]), None).unwrap();
    let text = write_documents(Some(&results()), &[&h100], folder.path()).unwrap();
    assert!(
        text.contains("The same on an NVIDIA H100 80GB HBM3: [results/mlp-h100.md](results/mlp-h100.md)"),
        "{text}"
    );
    write_documents(Some(&h100), &[], folder.path()).unwrap();
    assert!(
        folder.path().join("results/mlp-h100.md").is_file() && folder.path().join("mlp-h100.svg").is_file()
    );
}

#[test]
fn our_documents_hold_the_figures_that_were_merged() {
    let docs = workspace::root().join("docs");
    let merged = report::merged(&docs.join("results"), "mlp").unwrap();
    let all: Vec<Results> = merged.iter().map(|path| Results::read(path).unwrap()).collect();
    let others: Vec<&Results> = all.iter().skip(1).collect();
    let results = all.first();
    let short = std::fs::read_to_string(docs.join(PAGE)).unwrap();
    let section = tables::section(results, &others);
    let again = measure::with_section(PAGE, &short, "mlp", &section).unwrap();
    assert!(again == short, "docs/{PAGE} does not hold docs/results/mlp.json; run `cargo xtask report mlp`");
    let page = std::fs::read_to_string(docs.join(ladder::PAGE)).unwrap();
    assert!(ladder::fill(&page, results).unwrap() == page, "nor does docs/{}", ladder::PAGE);
    let full = std::fs::read_to_string(docs.join("results/mlp.md")).unwrap();
    assert!(full == tables::full(results), "nor does docs/results/mlp.md");
}
