//! The panels of the subjects' charts.

use crate::chart::{Axis, Bar, Bars, Dots, Family, Guide, Lines, Panel, Row, Scale, Series};
use crate::report::{Results, Subject, Timed, peaks};

/// The series of `name`, which is created if it is new.
fn series(all: &mut Vec<Series>, name: String, family: Family) -> &mut Series {
    let place = all.iter().position(|series| series.name == name).unwrap_or(all.len());
    if place == all.len() {
        all.push(Series::new(name, family, Vec::new()));
    }
    &mut all[place]
}

/// Rates against the field `x` of all entries for which `is_here` holds: a line per contender, ours bold.
pub fn lines(
    subject: &Subject,
    results: &Results,
    caption: &str,
    (x, label): (&str, &str),
    guides: Vec<Guide>,
    is_here: &dyn Fn(&Timed) -> bool,
) -> Option<Panel> {
    let mut all: Vec<Series> = Vec::new();
    for (entries, family) in [(&results.ours, Family::Ours), (&results.peers, Family::Peers)] {
        for entry in entries.iter().filter(|entry| is_here(entry)) {
            let Some(rate) = subject.rate(entry) else { continue };
            let is_own = family == Family::Ours && (subject.is_ours)(entry);
            let name = if is_own { "Ferrowarp".to_owned() } else { subject.shown(&entry.name) };
            let line = series(&mut all, name, family);
            line.is_bold = is_own;
            line.points.retain(|point| point.0 != entry.number(x));
            line.points.push((entry.number(x), rate));
        }
    }
    if all.is_empty() {
        return None;
    }
    let mut lines = Lines::new(Axis::new(label).scale(Scale::Log), Axis::new(subject.unit), all);
    lines.caption = caption.to_owned();
    lines.size = (1100, 420);
    lines.guides = guides;
    Some(Panel::Lines(lines))
}

/// A bar for each entry that has a name, a value and words.
pub fn bars(
    results: &Results,
    unit: &str,
    caption: &str,
    bar: impl Fn(&Timed) -> Option<(String, f64, String)>,
) -> Option<Panel> {
    let mut bars = Vec::new();
    for (entries, family) in [(&results.ours, Family::Ours), (&results.peers, Family::Peers)] {
        let rungs = entries.iter().filter(|entry| entry.is_rung());
        let others = entries.iter().filter(|entry| !entry.is_rung());
        let shown = rungs.chain(others).filter_map(&bar);
        bars.extend(shown.map(|(name, value, words)| Bar { name, family, value, words, predicted: None }));
    }
    if bars.is_empty() {
        return None;
    }
    let mut bars = Bars::new(Axis::new(unit), bars);
    bars.caption = caption.to_owned();
    Some(Panel::Bars(bars))
}

/// Rates of the contests of a table for which `is_here` holds: a dot for each contender, and one for the copy.
pub fn dots(
    subject: &Subject,
    results: &Results,
    title: &str,
    is_here: &dyn Fn(&Timed) -> bool,
) -> Option<Panel> {
    let (_, contests) = subject.contests(results).into_iter().find(|(known, _)| known == title)?;
    let contests: Vec<_> = contests.into_iter().filter(|contest| is_here(contest.ours)).collect();
    let is_timed = |name: &str| contests.iter().any(|contest| contest.lead(name).is_some());
    let peers: Vec<_> = subject.peers.iter().filter(|(name, _)| is_timed(name)).collect();
    let rate = |entry: Option<&Timed>| entry.and_then(|entry| subject.rate(entry));
    let rows = contests.iter().map(|contest| {
        let peers = peers.iter().map(|(name, _)| rate(contest.entry(name)));
        let copy = contest.copy.and_then(|copy| subject.bandwidth(copy));
        let values = std::iter::once(rate(Some(contest.ours))).chain(peers).chain([copy]).collect();
        Row { name: subject.problem(contest.ours), values }
    });
    let rows: Vec<Row> = rows.collect();
    let names = peers.iter().map(|(_, shown)| ((*shown).to_owned(), Family::Peers));
    let first = std::iter::once(("Ferrowarp".to_owned(), Family::Ours));
    let peak = peaks::of(&results.machine).map(|peaks| peaks.gigabytes_per_second);
    (!rows.is_empty()).then(|| {
        Panel::Dots(Dots {
            caption: title.to_owned(),
            axis: Axis::new(subject.unit),
            contestants: first.chain(names).chain([("the best copy".to_owned(), Family::Other)]).collect(),
            rows,
            roofs: peak.map(|rate| ("memory, datasheet".to_owned(), rate)).into_iter().collect(),
            width: 640,
        })
    })
}
