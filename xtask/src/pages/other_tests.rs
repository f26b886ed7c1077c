//! Invented runs of training, of several GPUs, of errors and of ladders.

use std::path::Path;

use serde_json::{Value, json};

use super::tests::{entry, has, results, run};
use super::*;
use crate::report::Results;
use crate::workspace;

fn trained(name: &str, precision: &str, batch: usize, seconds: &[f64]) -> Value {
    json!({"name": name, "precision": precision, "batch": batch, "data": "mnist", "images": 60000,
        "epoch_seconds": seconds, "accuracy": 0.9791})
}

#[test]
fn training_has_medians_and_what_is_missing() {
    let mut naive = trained("naive", "f32", 64, &[0.5, 0.4, 0.6]);
    naive["step_microseconds"] = json!(412.25);
    let ours = [naive, trained("fused", "f32", 64, &[0.05]), trained("fused", "f32", 256, &[0.02, 0.03])];
    let failed = |batch: usize, error: &str| {
        let mut failed = trained("torch eager", "f32", batch, &[]);
        failed["error"] = json!(error);
        failed
    };
    let peers = [
        trained("torch eager", "f32", 64, &[0.3]),
        trained("torch eager", "tf32", 64, &[0.25]),
        failed(256, "RuntimeError: no memory\nand more"),
        failed(1024, "left out: the budget"),
    ];
    let results = results(&ours, &peers);
    training::check_data(&results).unwrap();
    let sections = (training::MLP.sections)(std::slice::from_ref(&results)).unwrap();
    let section = |name: &str| &sections.iter().find(|(_, known, _)| known == name).unwrap().2;
    has(
        section("mlp"),
        &[
            "| naive | f32 | not measured | 500.00 ms | not measured | not measured | 10.00 x | 97.91 % |\n",
            "| torch eager | f32 | not measured | 300.00 ms | failed | left out | 6.00 x | 97.91 % |\n",
            "60000 images of MNIST; NVIDIA H200, driver 570.1, 2000-01-02, commit abc; torch 2.0.",
        ],
    );
    has(section("rung naive"), &["| 64 | 500.00 ms | 412.2 us | 120000 |  |\n"]);
    has(
        section("article"),
        &["| batches of 64 in place of 16 | a tenth of a second | 5 x | 50.00 ms |  |\n"],
    );
    has(
        &training::MLP.page(&results).unwrap(),
        &[
            "| naive | f32 | 3 | 500.00 ms | 400.00 ms | 120000 | 412.2 us | 97.91 % |\n",
            "- torch eager, f32, batches of 256: RuntimeError: no memory\n",
        ],
    );
    let other = trained("torch eager", "f32", 64, &[0.3]).to_string().replace("60000", "5000");
    let other =
        Results::merge(run("a GPU", &ours), Some(run("a GPU", &[serde_json::from_str(&other).unwrap()])));
    let error = training::check_data(&other.unwrap()).unwrap_err().to_string();
    has(&error, &["naive trained on 60000 images, mnist, torch eager on 5000 images, mnist; measure both"]);
}

#[test]
fn several_gpus_are_compared_and_predicted() {
    let reduce = |bytes: f64, microseconds: f64| {
        json!({"name": "all_reduce", "dtype": "f32", "ranks": 2, "problem": format!("{bytes}"),
            "microseconds": microseconds, "bus_bytes_per_second": bytes / microseconds * 1e6})
    };
    let wide = |ranks: usize, microseconds: f64| {
        json!({"name": "wide_mlp", "dtype": "bf16", "ranks": ranks, "microseconds": microseconds,
            "problem": "4 layers of 8192, 8192 images a rank"})
    };
    let ours = [reduce(1024.0, 20.0), reduce(1e9, 4000.0), wide(1, 20_000.0), wide(2, 20_500.0)];
    let results = results(&ours, &[reduce(1024.0, 30.0)]);
    collective::COLLECTIVE.check(&results).unwrap();
    has(
        &collective::page(&results, 5e-6),
        &[
            "# 2 GPUs of one host",
            "| 1024 | 20.0 us | 0.1 | 30.0 us | 1.50 x |",
            "| 2 | 20.0 ms | 20.5 ms | 102.5 % |",
            "each of 10.0 us",
            "at 250 GB/s",
            "97.6 %",
            "4 hosts of 8 GPUs",
        ],
    );
}

#[test]
fn a_run_of_wrong_problems_has_no_page_of_errors() {
    let entry = |operation: &str, mean: f64, wrong: Option<u64>| {
        json!({"name": "Ferrowarp", "operation": operation, "types": "bf16", "layout": "dense", "problems": 7,
            "mean": mean, "largest": 0.5, "bias": -0.00012, "wrong": wrong})
    };
    let of = |wrong| results(&[entry("", 0.0, Some(wrong)), entry("softmax", 0.25, None)], &[]);
    let line = "| bf16 | dense | 0.25 (0.50) | 0.25 (0.50) |  | -1e-4 | -1e-4 |  |\n";
    has(&accuracy::page(&of(0), &of(0)).unwrap(), &["7 random problems", line, "\n## softmax\n"]);
    let error = accuracy::page(&of(0), &of(2)).unwrap_err().to_string();
    assert_eq!(error, "2 of the 7 problems on NVIDIA H200 are wrong; fix them first");
}

#[test]
fn the_ladder_of_attention_has_predictions_and_times() {
    let at = json!({"dtype": "bf16", "batch": 4, "queries": 4096, "length": 4096, "heads": 16, "key_heads": 16,
        "head_size": 128, "causal": false, "backward": false, "inputs": "normal"});
    let times = [
        ("r05_specialised", 2000.0),
        ("r06_overlap", 1000.0),
        ("r07_persistent", 900.0),
        ("attention", 900.0),
    ];
    let timed = times.map(|(name, time)| entry(&at, name, time));
    let results = attention::read(run("NVIDIA H100", &timed)).unwrap();
    let [_, (_, table)] = attention::sections(Some(&results));
    has(
        &table,
        &[
            "| `r01_matrix` | 17.2 GB | 549.8 GB | 5.50e11 | not measured yet |  |  |",
            "| `r06_overlap` | none | 4.3 GB | 5.50e11 | 1000.0 us | 550 | 2.00 x |",
            "| the operation |  |  |  | 900.0 us | 611 | 1.00 x |",
        ],
    );
    let error = attention::read(run("NVIDIA H100", &timed[3..])).unwrap_err().to_string();
    assert!(error.contains("no rung"), "{error}");
    let files = workspace::files(&workspace::root().join(attention::RUNG_SOURCES), &|path: &Path| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('r'))
    });
    let names = files.unwrap().into_iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    assert_eq!(names.collect::<Vec<_>>(), attention::RUNGS.map(|rung| rung.0));
}

#[test]
fn a_peer_of_the_cpu_has_its_version_and_its_failure() {
    let of = |entries: &[Value]| cpu::of_peer(run("CPU", entries), "torch");
    let figures = of(&[trained("JAX", "f32", 64, &[0.5, 0.25])]).unwrap();
    assert_eq!(figures, [("JAX, 2.0".to_owned(), vec![0.5, 0.25], 0.9791)]);
    let error = of(&[json!({"name": "JAX", "error": "ImportError"})]).unwrap_err().to_string();
    assert_eq!(error, "JAX failed: ImportError");
    assert!(of(&[]).unwrap_err().to_string().contains("holds no figures"));
}

#[test]
fn timelines_of_the_trainer_are_read_and_compared_with_the_bench() {
    use ferrowarp_report::{Lane, render_timeline};
    let at = std::time::Duration::from_micros;
    let lanes = [("kernels", vec![at(0)..at(500), at(800)..at(1400)]), ("host", vec![at(0)..at(900)])];
    let lanes = lanes.map(|(name, spans)| Lane { name: name.to_owned(), spans });
    let title = "pipeline fused, precision f32, the first 64 steps of epoch 2 on NVIDIA H200";
    let svg = render_timeline(title, &lanes).unwrap();
    let error = timelines::Traced::read(&svg, None).unwrap_err().to_string();
    assert!(error.contains("commit"), "{error}");
    let svg = svg + "<!-- commit abcdef0, date 2026-11-27 -->\n";
    let traced = timelines::Traced::read(&svg, None).unwrap();
    assert_eq!((traced.steps, traced.rung.as_str(), traced.commit.as_str()), (64, "fused", "abcdef0"));
    let mut bench = trained("fused", "f32", 64, &[0.05]);
    bench["step_microseconds"] = json!(1400.0 / 64.0 / 1.3);
    let text = timelines::section(&[&traced], &results(&[bench], &[]));
    has(&text, &["30 % longer than one of the bench. The picture has its first steps only"]);
    let script = include_str!("../bundle_run.sh");
    assert!(script.contains("<!-- commit $FERROWARP_COMMIT, date $(date -u +%Y-%m-%d) -->"));
}
