//! The committed pages and charts are those of the committed results.

use super::*;
use crate::report::{Results, Section, Subject, merged, stem, with_section};
use crate::workspace;

fn committed(path: &str) -> String {
    std::fs::read_to_string(workspace::root().join(path)).unwrap()
}

/// Checks that the pages have these sections.
fn are_committed(sections: Vec<Section>) {
    for (page, name, text) in sections {
        let old = committed(page);
        let new = with_section(page, &old, &name, &text).unwrap();
        assert!(new == old, "{page} lacks the figures of docs/results; run `cargo xtask report`");
    }
}

#[test]
fn our_pages_have_the_figures_that_were_merged() {
    let turns: [&Subject; 11] = [
        &softmax::SOFTMAX,
        &matmul::MATMUL,
        &matmul80::MATMUL_80,
        &attention::ATTENTION,
        &attention::ATTENTION_80,
        &rows::NORM,
        &rows::AXIS,
        &candle::CANDLE,
        &training::MLP,
        &collective::COLLECTIVE,
        &random::RANDOM,
    ];
    for subject in turns {
        let all: Vec<Results> =
            merged(subject.name).unwrap().iter().map(|path| Results::read(path).unwrap()).collect();
        for results in &all {
            subject.check(results).unwrap();
            let stem = stem(subject.name, &results.machine);
            let is_same = subject.page(results).unwrap() == committed(&format!("docs/results/{stem}.md"));
            assert!(is_same, "docs/results/{stem}.md is stale; run `cargo xtask report {}`", subject.name);
            for (end, _, draw) in subject.charts {
                let is_same = draw(results).unwrap() == committed(&format!("docs/{stem}{end}.svg"));
                assert!(is_same, "docs/{stem}{end}.svg is stale; run `cargo xtask report {}`", subject.name);
            }
        }
        are_committed((subject.sections)(&all).unwrap());
    }
    let ladder: Results = serde_json::from_str(&committed("docs/results/ladder-attention.json")).unwrap();
    let sections = attention::sections(Some(&ladder));
    are_committed(sections.map(|(name, text)| (attention::PAGE, name.to_owned(), text)).into());
    let all = timelines::read().unwrap();
    for traced in &all {
        let is_same =
            timelines::picture(traced, &all).unwrap() == committed(&format!("docs/{}", traced.file()));
        assert!(is_same, "docs/{} is stale; run `cargo xtask report timelines`", traced.file());
    }
    let of = |name: &str| {
        serde_json::from_str::<Results>(&committed(&format!("docs/results/{name}.json"))).unwrap()
    };
    let page = accuracy::page(&of("accuracy"), &of("cpu-accuracy")).unwrap();
    assert!(page == committed("docs/results/accuracy.md"), "run `cargo xtask report accuracy`");
}
