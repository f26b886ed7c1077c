//! The measured steps on the page about the training ladder, `docs/training-ladder.md`.

use crate::measure::with_section;
use crate::report::mlp::tables::{milliseconds, provenance};
use crate::report::mlp::{BATCHES, Entry, Results};
use crate::report::{row, times};

/// The page, in `docs`.
pub const PAGE: &str = "training-ladder.md";

/// The precision of the rungs that the page shows.
const PRECISION: &str = "f32";

/// The rungs with a section of figures on the page, lowest first.
pub fn rungs(page: &str) -> Vec<&str> {
    page.lines().filter_map(|line| line.strip_prefix("<!-- rung ")?.strip_suffix(" -->")).collect()
}

/// The page with the figures of a run, or with none if there is no run.
pub fn fill(page: &str, results: Option<&Results>) -> anyhow::Result<String> {
    let rungs = rungs(page);
    let mut filled = page.to_owned();
    for (i, name) in rungs.iter().enumerate() {
        let below = i.checked_sub(1).map(|i| rungs[i]);
        filled = with_section(PAGE, &filled, &format!("rung {name}"), &rung(results, name, below))?;
    }
    let whence = results.map_or_else(
        || "Nothing is measured on a GPU yet.\n".to_owned(),
        |results| format!("Measured on: {}.\n", provenance(results)),
    );
    let filled = with_section(PAGE, &filled, "measured", &whence)?;
    with_section(PAGE, &filled, "article", &article(results))
}

/// The gain of the article's steps there, and of the same steps here. Its figures are from an RTX 3090 Ti.
fn article(results: Option<&Results>) -> String {
    let epoch = |name: &str, batch| results?.entry((name, PRECISION), batch)?.epoch();
    let [naive, fused, larger] =
        [("naive", 16), ("fused", 16), ("fused", 64)].map(|(name, batch)| epoch(name, batch));
    let steps = [
        ("before any of it, batches of 16 (`naive`)", "0.95 s", "", naive, None),
        (
            "kernels fused (`fused`, which also has tiles, fused updates and 3 launches a step in place of 18)",
            "half a second",
            "2 x",
            fused,
            naive,
        ),
        ("batches of 64 in place of 16", "a tenth of a second", "5 x", larger, fused),
    ];
    let header = ["an epoch", "the article", "it bought", "here", "it buys"].map(str::to_owned);
    let mut text = row(&header) + &row(&["---", "---:", "---:", "---:", "---:"].map(str::to_owned));
    for (what, theirs, bought, ours, before) in steps {
        let buys = before.zip(ours).map(|(before, ours)| before / ours);
        let ours = ours.map_or_else(|| "not measured".to_owned(), milliseconds);
        text += &row(&[what.to_owned(), theirs.to_owned(), bought.to_owned(), ours, times(buys)]);
    }
    text
}

/// The table of one rung.
fn rung(results: Option<&Results>, name: &str, below: Option<&str>) -> String {
    let over = below.map_or_else(String::new, |below| format!("times as fast as {below}"));
    let header = ["batches of", "an epoch", "a step", "images/s", &over];
    let mut text = row(&header.map(str::to_owned));
    text += &row(&["---", "---:", "---:", "---:", "---:"].map(str::to_owned));
    let mut is_measured = false;
    for batch in BATCHES {
        let find = |name: &str| results.and_then(|results| results.entry((name, PRECISION), batch));
        let Some((entry, epoch)) = find(name).and_then(|entry| Some((entry, entry.epoch()?))) else {
            continue;
        };
        let before = below.and_then(find).and_then(Entry::epoch);
        text += &row(&[
            batch.to_string(),
            milliseconds(epoch),
            entry.step_microseconds.map_or_else(String::new, |step| format!("{step:.1} us")),
            format!("{:.0}", entry.images as f64 / epoch),
            times(before.map(|before| before / epoch)),
        ]);
        is_measured = true;
    }
    if !is_measured {
        text += &row(&["not measured", "", "", "", ""].map(str::to_owned));
    }
    text
}
