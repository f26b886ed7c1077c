//! The tables of the gallery's pages.

use ferrowarp_report::WarpCounts;
use ferrowarp_report::gallery::{Counts, Entry};
use xtask_ptx::report::Report;

use super::page::Lesson;
use crate::chart::{binary, number};
use crate::report::{row, times};
use crate::workspace;

/// Replaces a time that has not been measured.
const NOT_YET: &str = "not measured yet";

/// Longer tables are folded.
const MOST_COUNTS: usize = 8;

/// A time above that of a larger problem by this factor is an outlier.
const OUTLIER: f64 = 1.3;

/// A lesson's table. If each rung has one problem, a row per rung; else a row per problem and a column per rung.
pub fn table(lesson: &Lesson) -> String {
    let mut rungs: Vec<&str> = Vec::new();
    for entry in &lesson.entries {
        if !rungs.contains(&&*entry.name) {
            rungs.push(&entry.name);
        }
    }
    if rungs.len() == lesson.entries.len() { ladder(lesson) } else { grid(lesson, &rungs) }
}

/// The first two lines of a table; its first `texts` columns are not numbers.
pub fn header(cells: &[&str], texts: usize) -> String {
    let rule = |i: usize| if i < texts { "---" } else { "---:" }.to_owned();
    let names: Vec<String> = cells.iter().map(|cell| (*cell).to_owned()).collect();
    row(&names) + &row(&(0..cells.len()).map(rule).collect::<Vec<_>>())
}

fn ladder(lesson: &Lesson) -> String {
    let cells = ["rung", "what it does", "problem", "time", lesson.unit(), "speed, relative to the first"];
    let mut text = header(&cells, 3);
    for entry in &lesson.entries {
        // The first rung with the same work.
        let is_same = |first: &&Entry| (first.at, &first.problem) == (entry.at, &entry.problem);
        let first = lesson.entries.iter().find(is_same).filter(|first| first.name != entry.name);
        let first = first.and_then(|first| first.microseconds);
        text += &row(&[
            format!("`{}`", entry.name),
            entry.idea.clone(),
            entry.problem.clone(),
            time(entry),
            value(lesson, entry),
            relative(first.zip(entry.microseconds).map(|(first, time)| first / time)),
        ]);
    }
    text
}

fn grid(lesson: &Lesson, rungs: &[&str]) -> String {
    let entries = &lesson.entries;
    let is_outlier = |entry: &Entry| {
        let is_larger =
            |other: &&Entry| other.name == entry.name && other.at > entry.at && other.bytes > entry.bytes;
        let larger = entries.iter().filter(is_larger).filter_map(|other| other.microseconds);
        let shortest = larger.fold(f64::INFINITY, f64::min);
        entry.microseconds.is_some_and(|time| time > OUTLIER * shortest)
    };
    let mut has_outlier = false;
    let columns: Vec<String> = rungs.iter().map(|rung| format!("`{rung}`, {}", lesson.unit())).collect();
    let cells = [&*lesson.page.axis].into_iter().chain(columns.iter().map(|column| &**column));
    let mut text = header(&cells.collect::<Vec<_>>(), 1);
    let mut places: Vec<f64> = entries.iter().map(|entry| entry.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places {
        let mut cells = vec![binary(place)];
        for rung in rungs {
            let found = entries.iter().find(|entry| entry.name == *rung && entry.at == place);
            let outlier = found.is_some_and(is_outlier);
            has_outlier |= outlier;
            let mark = if outlier { " *" } else { "" };
            cells.push(found.map_or_else(String::new, |entry| value(lesson, entry) + mark));
        }
        text += &row(&cells);
    }
    if has_outlier {
        text += "\n\\* An outlier: a larger problem took less time.\n";
    }
    text
}

type Count = (&'static str, fn(&Counts) -> Option<f64>, fn(&WarpCounts) -> u64);

/// The counts: their names, their predictions or a profiler's figures, and the emulator's.
const COUNTS: [Count; 9] = [
    ("sectors loaded", |c| c.sectors_loaded, |c| c.sectors_loaded),
    ("sectors stored", |c| c.sectors_stored, |c| c.sectors_stored),
    ("atomics", |_| None, |c| c.atomics),
    ("wavefronts of shared memory", |_| None, |c| c.wavefronts),
    ("bank conflicts", |c| c.bank_conflicts, |c| c.bank_conflicts),
    ("requests to local memory", |_| None, |c| c.local),
    ("wavefronts of constant memory", |_| None, |c| c.constant),
    ("divergent branches", |c| c.divergent_branches, |c| c.divergent_branches),
    ("warp instructions", |_| None, |c| c.instructions),
];

/// The counts next to the predictions: a row per problem, and the columns whose values differ. Below stands what is the same
/// in all rows. Long tables are folded. `None` if nothing was counted.
pub fn counts(entries: &[Entry]) -> Option<String> {
    let counted: Vec<(&Entry, &WarpCounts)> =
        entries.iter().filter_map(|entry| Some((entry, entry.counted.as_ref()?))).collect();
    let cell = |(entry, counted): &(&Entry, &WarpCounts), (_, other, count): &Count| {
        let count = count(counted) as f64;
        let differs = |of: Option<f64>| of.filter(|of| *of != count);
        let mut cell = format!("{count:.0}");
        if let Some(predicted) = differs(other(&entry.predicted)) {
            cell += &format!(", predicted {}", number(predicted));
        }
        if let Some(profiled) = entry.profiled.as_ref().and_then(|of| differs(other(of))) {
            cell += &format!(", on the GPU {}", number(profiled));
        }
        cell
    };
    let mut columns: Vec<(&str, Vec<String>)> = vec![
        ("rung", counted.iter().map(|(entry, _)| format!("`{}`", entry.name)).collect()),
        ("problem", counted.iter().map(|(entry, _)| entry.problem.clone()).collect()),
    ];
    columns
        .extend(COUNTS.iter().map(|count| (count.0, counted.iter().map(|one| cell(one, count)).collect())));
    let efficiency = |(_, counted): &(&Entry, &WarpCounts)| format!("{:.0} %", 100.0 * counted.efficiency);
    columns.push(("active lanes", counted.iter().map(efficiency).collect()));
    // A count that no row has says nothing.
    columns.retain(|(_, cells)| cells.iter().any(|cell| cell != "0"));
    let is_constant =
        |(_, cells): &&(&str, Vec<String>)| cells.len() > 1 && cells.iter().all(|cell| *cell == cells[0]);
    let same: Vec<String> =
        columns.iter().filter(is_constant).map(|(name, cells)| format!("{name}: {}", cells[0])).collect();
    columns.retain(|column| !is_constant(&column));
    let texts = columns.iter().filter(|(name, _)| ["rung", "problem"].contains(name)).count();
    let mut text = header(&columns.iter().map(|(name, _)| *name).collect::<Vec<_>>(), texts);
    for i in 0..counted.len() {
        text += &row(&columns.iter().map(|(_, cells)| cells[i].clone()).collect::<Vec<_>>());
    }
    let same = if same.is_empty() { String::new() } else { format!("\nIn all rows: {}.\n", same.join("; ")) };
    match counted.len() {
        0 => None,
        count if count > MOST_COUNTS => {
            Some(format!("<details>\n<summary>{count} runs</summary>\n\n{text}\n</details>\n{same}"))
        }
        _ => Some(text + &same),
    }
}

/// The registers, spills and occupancy of a lesson's kernels for compute capability 9.0, as `cargo xtask build-ptx` reported it last; `None` if it has
/// not run.
///
/// # Errors
/// The report cannot be read.
pub fn resources(lesson: &Lesson) -> anyhow::Result<Option<String>> {
    let path = workspace::target().join("ptx/resources.json");
    if !path.is_file() {
        return Ok(None);
    }
    let report = Report::read(&path)?;
    let cells = ["kernel", "registers", "spilled bytes, stored and loaded", "blocks", "warps", "limited by"];
    let mut text = header(&cells, 1);
    let mut kernels: Vec<&String> = lesson.entries.iter().flat_map(|entry| &entry.kernels).collect();
    kernels.sort();
    kernels.dedup();
    for name in kernels {
        let modules = report.modules.iter().filter(|module| module.arch.starts_with("compute_90"));
        for (module, kernel) in modules.flat_map(|of| of.kernels.iter().map(move |kernel| (of, kernel))) {
            let Some(occupancy) = module.occupancy(kernel).filter(|_| kernel.kernel == *name) else {
                continue;
            };
            text += &row(&[
                format!("`{name}`"),
                kernel.registers.to_string(),
                format!("{} and {}", kernel.spill_stores, kernel.spill_loads),
                occupancy.blocks.to_string(),
                format!("{} %", occupancy.percent),
                occupancy.limit.to_owned(),
            ]);
        }
    }
    Ok(Some(text))
}

/// From which problem on a rung is faster than another one: a sentence for each pair.
pub fn crossovers(lesson: &Lesson) -> String {
    let sentence = |[other, rung]: &[String; 2]| {
        let mut places: Vec<(f64, bool)> = Vec::new();
        for entry in lesson.entries.iter().filter(|entry| entry.name == *rung) {
            let times = lesson
                .find(other, Some(entry.at))
                .and_then(|other| other.microseconds)
                .zip(entry.microseconds);
            places.extend(times.map(|(other, time)| (entry.at, time < other)));
        }
        places.sort_by(|a, b| a.0.total_cmp(&b.0));
        let first = places.iter().rev().take_while(|(_, is_faster)| *is_faster).last();
        match first {
            Some((at, _)) => {
                format!("`{rung}` is faster than `{other}` from {} {} on.", binary(*at), lesson.page.axis)
            }
            None => format!("`{rung}` is faster than `{other}` at no size."),
        }
    };
    let sentences: Vec<String> = lesson.page.crossover.iter().map(sentence).collect();
    if sentences.is_empty() { String::new() } else { sentences.join(" ") + "\n" }
}

fn time(entry: &Entry) -> String {
    match (&entry.error, entry.microseconds) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(time)) => short_time(time),
        (None, None) => match &entry.lacking {
            Some(lacking) => format!("not on this device: {lacking}"),
            None => NOT_YET.to_owned(),
        },
    }
}

fn value(lesson: &Lesson, entry: &Entry) -> String {
    match (&entry.error, lesson.value(entry)) {
        (Some(_), _) => "failed".to_owned(),
        (None, Some(value)) => {
            let percent = lesson.percent_of_peak(entry).map(|percent| format!(" ({} %)", number(percent)));
            number(value) + &percent.unwrap_or_default()
        }
        (None, None) if entry.lacking.is_some() => "not on this device".to_owned(),
        (None, None) => NOT_YET.to_owned(),
    }
}

/// A ratio, as a fraction if it is small.
fn relative(ratio: Option<f64>) -> String {
    match ratio {
        Some(ratio) if ratio < 0.1 => format!("1/{}", number(1.0 / ratio)),
        ratio => times(ratio),
    }
}

/// Microseconds, in a suitable unit.
pub fn short_time(microseconds: f64) -> String {
    match microseconds {
        us if us >= 1e6 => format!("{} s", number(us / 1e6)),
        us if us >= 1e4 => format!("{} ms", number(us / 1e3)),
        us => format!("{} us", number(us)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery::tests::lesson;

    #[test]
    fn rungs_with_one_problem_each_are_a_ladder() {
        let mut lesson = lesson(&[("a", 1.0, Some(10.0)), ("b", 1.0, Some(0.04)), ("c", 1.0, Some(200.0))]);
        lesson.entries[1].peak = Some(4e15);
        let text = table(&lesson);
        assert!(text.contains("| `a` | copies | 1 bytes | 10 us | 100 |  |\n"), "{text}");
        assert!(
            text.contains("| `b` | copies | 1 bytes | 0.040 us | 25,000 (0.62 %) | 250.00 x |\n"),
            "{text}"
        );
        assert!(text.contains("| `c` | copies | 1 bytes | 200 us | 5 | 1/20 |\n"), "{text}");
        lesson.entries[0].error = Some("out[3] is 2e0".to_owned());
        (lesson.entries[1].microseconds, lesson.entries[1].lacking) = (None, Some("it has none".to_owned()));
        let text = table(&lesson);
        assert!(text.contains("failed: out[3] is 2e0"), "{text}");
        assert!(text.contains("| not on this device: it has none | not on this device |"), "{text}");
    }

    #[test]
    fn rungs_with_several_problems_are_columns() {
        let text = table(&lesson(&[("a", 8.0, Some(10.0)), ("a", 4.0, None), ("b", 8.0, Some(5.0))]));
        assert_eq!(
            text,
            "| bytes | `a`, GB/s | `b`, GB/s |\n| --- | ---: | ---: |\n| 4 | not measured yet |  |\n| 8 | 100 | 200 |\n"
        );
    }

    #[test]
    fn the_size_is_told_from_which_a_rung_is_ahead() {
        let mut lesson = lesson(&[
            ("cpu", 1.0, Some(1.0)),
            ("cpu", 2.0, Some(8.0)),
            ("gpu", 1.0, Some(5.0)),
            ("gpu", 2.0, Some(5.0)),
        ]);
        lesson.page.crossover = [["cpu", "gpu"], ["gpu", "cpu"]].map(|pair| pair.map(str::to_owned)).into();
        let text = "`gpu` is faster than `cpu` from 2 bytes on. `cpu` is faster than `gpu` at no size.\n";
        assert_eq!(crossovers(&lesson), text);
    }

    #[test]
    fn a_time_above_that_of_a_larger_problem_is_marked() {
        let mut lesson = lesson(&[("a", 1.0, Some(14.0)), ("a", 2.0, Some(8.0)), ("a", 4.0, Some(9.0))]);
        lesson.entries.iter_mut().for_each(|entry| entry.bytes = entry.at);
        let text = table(&lesson);
        assert_eq!(text.matches(" * |").count(), 1, "{text}");
        assert!(text.ends_with("An outlier: a larger problem took less time.\n"), "{text}");
    }

    #[test]
    fn counts_stand_next_to_what_was_predicted() {
        let mut entries = lesson(&[("a", 8.0, None), ("b", 8.0, None)]).entries;
        assert_eq!(counts(&entries), None);
        let counted: WarpCounts = serde_json::from_str(
            "{\"launches\":1,\"requests\":2,\"sectors_loaded\":4,\"sectors_stored\":0,\"atomics\":3,\"wavefronts\":0,\
             \"bank_conflicts\":0,\"local\":0,\"constant\":0,\"divergent_branches\":0,\"efficiency\":0.5,\"instructions\":9}",
        )
        .unwrap();
        entries.iter_mut().for_each(|entry| entry.counted = Some(counted.clone()));
        entries[0].predicted.sectors_loaded = Some(4.0);
        entries[1].predicted.sectors_loaded = Some(5.0);
        entries[1].profiled = Some(Counts { sectors_loaded: Some(6.0), ..Counts::default() });
        assert_eq!(
            counts(&entries).unwrap(),
            "| rung | sectors loaded |\n| --- | ---: |\n| `a` | 4 |\n| `b` | 4, predicted 5, on the GPU 6 |\n\n\
             In all rows: problem: 8 bytes; atomics: 3; warp instructions: 9; active lanes: 50 %.\n"
        );
    }
}
