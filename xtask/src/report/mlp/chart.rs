//! The chart of a training run: the time of an epoch, rung by rung and peer by peer, one panel per batch size.

use crate::chart::{Axis, Bar, Bars, Chart, Family, Panel};
use crate::report::mlp::tables::milliseconds;
use crate::report::mlp::{BATCHES, Entry, Results, USUAL};
use crate::report::short_commit;

/// Draws bars of the medians; missing measurements have none.
pub fn ladder(results: &Results) -> anyhow::Result<String> {
    let panels = BATCHES.iter().filter_map(|&batch| panel(results, batch)).map(Panel::Bars).collect();
    let Results { machine, driver, date, commit, .. } = results;
    let commit = short_commit(commit);
    let subtitle = format!(
        "60000 images; {machine}, driver {driver}, {date}, commit {commit}; warm: Ferrowarp's rungs, cool: peers"
    );
    Chart { title: finding(results), subtitle, columns: 2, panels }.svg()
}

/// The times of the fastest rung at the usual batch, and of the fastest peer.
fn finding(results: &Results) -> String {
    let fastest = |entries: &'_ [Entry]| {
        let here = entries.iter().filter(|entry| entry.batch == USUAL);
        let timed =
            here.filter_map(|entry| Some((entry.epoch()?, format!("{} {}", entry.name, entry.precision))));
        timed.min_by(|a, b| a.0.total_cmp(&b.0))
    };
    match (fastest(&results.ours), fastest(&results.peers)) {
        (Some((ours, _)), Some((peer, name))) => format!(
            "An epoch in batches of {USUAL} takes {}; the fastest peer ({name}) takes {:.1} times as long",
            milliseconds(ours),
            peer / ours
        ),
        (Some((ours, _)), None) => format!("An epoch in batches of {USUAL} takes {}", milliseconds(ours)),
        _ => "The time of an epoch".to_owned(),
    }
}

/// The bars at one batch size, if anything was timed there.
fn panel(results: &Results, batch: usize) -> Option<Bars> {
    let families = [(&results.ours, Family::Ours), (&results.peers, Family::Peers)];
    let bars = families.into_iter().flat_map(|(entries, family)| {
        entries.iter().filter(move |entry| entry.batch == batch).filter_map(move |entry| {
            let seconds = entry.epoch()?;
            let name = format!("{} {}", entry.name, entry.precision);
            let words = milliseconds(seconds);
            Some(Bar { name, family, value: 1e3 * seconds, words, predicted: None })
        })
    });
    let bars: Vec<Bar> = bars.collect();
    if bars.is_empty() {
        return None;
    }
    let mut panel = Bars::new(Axis::new("milliseconds of an epoch"), bars);
    // All panels have one scale.
    panel.also =
        results.ours.iter().chain(&results.peers).filter_map(|entry| Some(1e3 * entry.epoch()?)).collect();
    panel.caption = format!("batches of {batch}");
    panel.width = 760;
    Some(panel)
}
