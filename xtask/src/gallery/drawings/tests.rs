use super::memory::{PARTICLE, sectors, words};
use super::shared::{TILES, count, most_wavefronts, trees, warp_rounds};
use super::streams::{end, schedule};
use super::warps::{below, elements, place};
use super::{ALL, LANES, file};
use crate::gallery::report::Results;
use crate::workspace;
use ferrowarp_report::gallery::Entry;

/// The emulator's counts of a rung on a problem.
fn counted(lesson: &str, rung: &str, problem: &str) -> Entry {
    let counts = Results::read(&workspace::root().join("docs/results/gallery-counts.json")).unwrap();
    let is_it = |entry: &Entry| (&*entry.lesson, &*entry.name, &*entry.problem) == (lesson, rung, problem);
    counts.ours.into_iter().find(is_it).unwrap()
}

#[test]
fn the_committed_drawings_are_those_of_today_and_stand_on_their_pages() {
    let pages = workspace::root().join("docs/gallery");
    for (lesson, draw) in ALL {
        let is_same = std::fs::read_to_string(pages.join(file(lesson))).unwrap() == draw().svg().unwrap();
        assert!(is_same, "docs/gallery/{} is stale; run cargo xtask gallery --drawings", file(lesson));
        let page = std::fs::read_to_string(pages.join(format!("{lesson}.md"))).unwrap();
        assert!(page.contains(&format!("({})", file(lesson))), "docs/gallery/{lesson}.md lacks its drawing");
    }
}

#[test]
fn sectors_are_those_that_the_emulator_counts() {
    let warps = 4096 / LANES;
    for (rung, distance) in [("offset", 1), ("offset", 8), ("stride", 2), ("stride", 8)] {
        let problem = format!("4096 elements, {distance}");
        let (offset, stride) = if rung == "offset" { (distance, 1) } else { (0, distance) };
        let drawn = (warps * sectors(&words(offset, stride)).len()) as f64;
        assert_eq!(
            counted("copy_offset", rung, &problem).predicted.sectors_loaded,
            Some(drawn),
            "{rung} {distance}"
        );
    }
    let warps = 2048 / LANES;
    for (rung, loads, stride) in [("aos", 6, PARTICLE), ("aos_vec4", 2, PARTICLE), ("soa", 6, 1)] {
        let drawn = (warps * loads * sectors(&words(0, stride)).len()) as f64;
        assert_eq!(counted("layout", rung, "2048 particles").predicted.sectors_loaded, Some(drawn), "{rung}");
    }
}

#[test]
fn conflicts_are_those_that_the_emulator_counts() {
    let requests = 128 * 64 / LANES;
    for (rung, place) in TILES {
        let of = |words: Vec<usize>| count(&words) - 1;
        let store = of((0..LANES).map(|c| place(12, c)).collect());
        let load = of((0..LANES).map(|r| place(r, 5)).collect());
        let drawn = (requests * (store + load)) as f64;
        assert_eq!(counted("transpose", rung, "128 x 64").predicted.bank_conflicts, Some(drawn), "{rung}");
    }
}

#[test]
fn every_tree_adds_all_words_to_the_first() {
    for (rung, rounds) in trees() {
        let mut sums = vec![1; 64];
        for (_, additions) in &rounds {
            for &(_, to, from) in additions {
                sums[to] += sums[from];
            }
        }
        assert_eq!(sums[0], 64, "{rung}");
    }
    let of = trees().map(|(_, rounds)| (warp_rounds(&rounds), most_wavefronts(&rounds)));
    assert_eq!(of, [(11, 1), (6, 2), (6, 1)]);
}

#[test]
fn streams_take_the_time_of_the_formula_on_the_page() {
    assert_eq!(end(&schedule(1, 1)), 3.0);
    assert!((end(&schedule(16, 1)) - 3.0).abs() < 1e-12);
    for streams in [3, 4, 8] {
        assert!((end(&schedule(16, streams)) - (1.0 + 2.0 / 16.0)).abs() < 1e-12, "{streams}");
    }
}

#[test]
fn lanes_are_numbered_as_on_a_gpu() {
    assert_eq!([[7, 3, 0], [0, 4, 0], [0, 0, 1]].map(place), [(0, 31), (1, 0), (2, 0)]);
    let elements = elements();
    assert!(elements.iter().enumerate().all(|(lane, x)| *x == 0 || below(&elements, lane) <= lane));
}
