use super::page::{fill, picture};
use super::traced::{Lane, Origin, Timelines, Traced};
use super::{bench, workspace};
use crate::report::mlp::ladder::PAGE;

fn origin(commit: &str) -> Origin {
    Origin { commit: commit.to_owned(), date: "2026-11-27".to_owned() }
}

fn traced(rung: &str, steps: usize, end: usize) -> Traced {
    let lane = Lane { name: "kernels".to_owned(), starts: "0 500".to_owned(), ends: format!("400 {end}") };
    Traced {
        machine: "NVIDIA H200".to_owned(),
        rung: rung.to_owned(),
        precision: "f32".to_owned(),
        steps,
        epoch: 2,
        commit: "abcdef0".to_owned(),
        date: "2026-11-27".to_owned(),
        lanes: vec![lane],
    }
}

/// The drawing of `train-mnist` for spans of `kernels` and `host`.
fn drawn() -> String {
    use ferrowarp_report::{Lane, render_timeline};
    let at = std::time::Duration::from_micros;
    let lanes = [
        ("load", vec![]),
        ("kernels", vec![at(0)..at(500), at(800)..at(1400)]),
        ("host", vec![at(0)..at(900)]),
    ];
    let lanes = lanes.map(|(name, spans)| Lane { name: name.to_owned(), spans });
    render_timeline("pipeline fused, precision f32, the first 64 steps of epoch 2 on NVIDIA H200", &lanes)
        .unwrap()
}

#[test]
fn a_picture_of_the_trainer_is_read_to_a_pixel() {
    let traced = Traced::read(&drawn(), Some(&origin("1234567"))).unwrap();
    let names: Vec<&str> = traced.lanes.iter().map(|lane| lane.name.as_str()).collect();
    assert_eq!((names, traced.steps, traced.rung.as_str()), (vec!["kernels", "host"], 64, "fused"));
    let spans: Vec<(f64, f64)> = traced.lanes.iter().flat_map(|lane| lane.spans()).collect();
    let expected = [(0.0, 500.0), (800.0, 1400.0), (0.0, 900.0)];
    let is_close = |(a, b): (&(f64, f64), &(f64, f64))| (a.0 - b.0).abs() < 5.0 && (a.1 - b.1).abs() < 5.0;
    assert!(spans.iter().zip(&expected).all(is_close) && spans.len() == 3, "{spans:?}");
}

#[test]
fn a_picture_without_a_commit_is_refused() {
    let told = Traced::read(&drawn(), None).unwrap_err().to_string();
    assert!(told.contains("--commit"), "{told}");
    let own = drawn() + &origin("7654321").comment();
    assert_eq!(Traced::read(&own, Some(&origin("1234567"))).unwrap().commit, "7654321");
    let told = Traced::read("<svg></svg>", None).unwrap_err().to_string();
    assert!(told.contains("no title"), "{told}");
}

#[test]
fn the_bundle_names_the_commit_as_the_pictures_are_read() {
    let script = include_str!("../../bundle_run.sh");
    let line = script.lines().find(|line| line.contains("<!-- commit")).unwrap();
    let comment = origin("$FERROWARP_COMMIT").comment().replace("2026-11-27", "$(date -u +%Y-%m-%d)");
    assert!(line.contains(comment.trim_end()), "{line}");
}

#[test]
fn pictures_of_a_machine_share_an_axis() {
    let all = Timelines { timelines: vec![traced("naive", 64, 27_000), traced("fused", 64, 1_400)] };
    let [long, short] = [0, 1].map(|i| picture(&all.timelines[i], &all).unwrap());
    assert!(long.contains("naive: 64 steps in 27 ms, 422 us each") && !long.contains("magnified"));
    assert!(short.contains("the same, 19.3 times magnified"), "{short}");
    assert!(short.contains("25\n"), "the axis of the longer one");
}

#[test]
fn a_picture_that_differs_from_the_bench_says_so() {
    let Some(bench) = bench() else { return };
    let page =
        "<!-- timelines fused -->\n<!-- /timelines fused -->\n<!-- rung fused -->\n<!-- /rung fused -->\n";
    let of = |end| {
        let all = Timelines { timelines: vec![traced("fused", 64, end)] };
        fill(page, &all, Some(&bench)).unwrap()
    };
    let step = bench.entry(("fused", "f32"), 64).and_then(|entry| entry.step_microseconds).unwrap();
    assert!(!of((64.0 * step) as usize).contains("of the bench. The"));
    let told = of((64.0 * step * 1.3) as usize);
    assert!(
        told.contains("30 % longer than one of the bench. The picture is of commit abcdef0, the bench of"),
        "{told}"
    );
}

#[test]
fn the_committed_pictures_and_page_are_those_of_the_committed_figures() {
    let all = Timelines::read().unwrap();
    let docs = workspace::root().join("docs");
    let read = |name: &str| std::fs::read_to_string(docs.join(name)).unwrap();
    for traced in &all.timelines {
        let name = traced.file();
        let is_same = read(&name) == picture(traced, &all).unwrap();
        assert!(is_same, "docs/{name} is stale; run cargo xtask timelines --redraw");
    }
    let page = read(PAGE);
    let is_same = fill(&page, &all, bench().as_ref()).unwrap() == page;
    assert!(is_same, "docs/{PAGE} is stale; run cargo xtask timelines --redraw");
}
