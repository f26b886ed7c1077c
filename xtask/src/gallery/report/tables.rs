//! The tables of the gallery's pages.

use crate::chart::{binary, number};
use ferrowarp_report::WarpCounts;

use crate::gallery::entry::{Entry, Profiled};
use crate::report::{row, times};

/// Replaces a time that has not been measured.
const NOT_YET: &str = "not measured yet";

/// Tables with more rows of counts are folded.
const MOST_COUNTS: usize = 8;

/// A time above that of a larger problem by this factor is an outlier.
const OUTLIER: f64 = 1.3;

/// A lesson's table. If each rung has one problem, a row per rung; else a row per problem and a column per rung.
pub fn table(entries: &[&Entry]) -> String {
    let rungs = distinct(entries, |entry| &entry.name);
    let is_ladder = rungs.iter().all(|rung| entries.iter().filter(|entry| entry.name == **rung).count() == 1);
    if is_ladder { ladder(entries) } else { grid(entries, &rungs) }
}

fn distinct<'a>(entries: &[&'a Entry], of: impl Fn(&'a Entry) -> &'a str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for entry in entries {
        if !found.contains(&of(entry)) {
            found.push(of(entry));
        }
    }
    found
}

/// The first two lines of a table; its first `texts` columns are not numbers.
pub fn header(cells: Vec<String>, texts: usize) -> String {
    let rule: Vec<String> =
        (0..cells.len()).map(|i| if i < texts { "---" } else { "---:" }.to_owned()).collect();
    row(&cells) + &row(&rule)
}

fn ladder(entries: &[&Entry]) -> String {
    let unit = entries.first().map_or("", |entry| entry.unit());
    let cells = ["rung", "what it does", "problem", "time", unit, "speed, relative to the first"];
    let mut text = header(cells.map(str::to_owned).into(), 3);
    for entry in entries {
        // The first rung with the same work.
        let first = entries.iter().find(|first| (first.at, &first.problem) == (entry.at, &entry.problem));
        let first = first.filter(|first| first.name != entry.name).and_then(|first| first.microseconds);
        text += &row(&[
            format!("`{}`", entry.name),
            entry.idea.clone(),
            entry.problem.clone(),
            time(entry),
            value(entry),
            relative(first.zip(entry.microseconds).map(|(first, time)| first / time)),
        ]);
    }
    text
}

fn grid(entries: &[&Entry], rungs: &[&str]) -> String {
    let (axis, unit) = entries.first().map_or(("", ""), |entry| (&entry.axis, entry.unit()));
    let is_outlier = |entry: &Entry| {
        let is_larger =
            |other: &&&Entry| other.name == entry.name && other.at > entry.at && other.bytes > entry.bytes;
        let larger = entries.iter().filter(is_larger).filter_map(|other| other.microseconds);
        let shortest = larger.fold(f64::INFINITY, f64::min);
        entry.microseconds.is_some_and(|time| time > OUTLIER * shortest)
    };
    let mut has_outlier = false;
    let mut cells = vec![axis.to_owned()];
    cells.extend(rungs.iter().map(|rung| format!("`{rung}`, {unit}")));
    let mut text = header(cells, 1);
    let mut places: Vec<f64> = entries.iter().map(|entry| entry.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places {
        let mut cells = vec![binary(place)];
        for rung in rungs {
            let found = entries.iter().find(|entry| entry.name == *rung && entry.at == place);
            let outlier = found.is_some_and(|entry| is_outlier(entry));
            has_outlier |= outlier;
            let mark = if outlier { " *" } else { "" };
            cells.push(found.map_or_else(String::new, |entry| value(entry) + mark));
        }
        text += &row(&cells);
    }
    if has_outlier {
        text += "\n\\* An outlier: a larger problem took less time.\n";
    }
    text
}

/// The counts next to the predictions: a row per problem, and the columns that are not empty. Long tables are folded. `None`
/// if nothing was counted.
pub fn counts(entries: &[&Entry]) -> Option<String> {
    type Column =
        (&'static str, fn(&Entry) -> Option<f64>, fn(&WarpCounts) -> f64, fn(&Profiled) -> Option<f64>);
    const COLUMNS: [Column; 8] = [
        ("sectors loaded", |e| e.sectors_loaded, |c| c.sectors_loaded as f64, |p| Some(p.sectors_loaded)),
        ("sectors stored", |e| e.sectors_stored, |c| c.sectors_stored as f64, |p| Some(p.sectors_stored)),
        ("atomics", |_| None, |c| c.atomics as f64, |_| None),
        ("wavefronts of shared memory", |_| None, |c| c.wavefronts as f64, |_| None),
        ("bank conflicts", |e| e.bank_conflicts, |c| c.bank_conflicts as f64, |p| Some(p.bank_conflicts)),
        ("requests to local memory", |_| None, |c| c.local as f64, |_| None),
        ("wavefronts of constant memory", |_| None, |c| c.constant as f64, |_| None),
        (
            "divergent branches",
            |e| e.divergent_branches,
            |c| c.divergent_branches as f64,
            |p| Some(p.divergent_branches),
        ),
    ];
    let counted: Vec<(&Entry, &WarpCounts)> =
        entries.iter().filter_map(|entry| Some((*entry, entry.counted.as_ref()?))).collect();
    let is_used = |column: &&Column| {
        counted.iter().any(|(entry, counted)| (column.1)(entry).is_some() || (column.2)(counted) > 0.0)
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_used).collect();
    let names = ["rung", "problem"].into_iter().chain(columns.iter().map(|column| column.0));
    let mut text = header(names.chain(["warp instructions", "active lanes"]).map(str::to_owned).collect(), 2);
    for (entry, counted) in &counted {
        let mut cells = vec![format!("`{}`", entry.name), entry.problem.clone()];
        cells.extend(columns.iter().map(|(_, predicted, count, profiled)| {
            let count = count(counted);
            let mut cell = format!("{count:.0}");
            if let Some(predicted) = predicted(entry).filter(|predicted| *predicted != count) {
                cell += &format!(", predicted {}", number(predicted));
            }
            if let Some(profiled) = entry.profiled.as_ref().and_then(profiled).filter(|of| *of != count) {
                cell += &format!(", on the GPU {}", number(profiled));
            }
            cell
        }));
        cells.push(counted.instructions.to_string());
        cells.push(format!("{:.0} %", 100.0 * counted.efficiency));
        text += &row(&cells);
    }
    match counted.len() {
        0 => None,
        count if count > MOST_COUNTS => {
            Some(format!("<details>\n<summary>{count} runs</summary>\n\n{text}\n</details>\n"))
        }
        _ => Some(text),
    }
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

fn value(entry: &Entry) -> String {
    match (&entry.error, entry.value()) {
        (Some(_), _) => "failed".to_owned(),
        (None, Some(value)) => {
            let percent = entry.percent_of_peak().map(|percent| format!(" ({} %)", number(percent)));
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

    fn entry(name: &str, at: f64, microseconds: Option<f64>) -> Entry {
        Entry::of_test(name, at, microseconds)
    }

    #[test]
    fn rungs_with_one_problem_each_are_a_ladder() {
        let [a, b] = [entry("a", 1.0, Some(10.0)), entry("b", 1.0, Some(5.0))];
        let text = table(&[&a, &b]);
        assert!(text.contains("| `a` | copies | 1 bytes | 10 us | 100 |  |\n"), "{text}");
        assert!(text.contains("| `b` | copies | 1 bytes | 5 us | 200 | 2.00 x |\n"), "{text}");
    }

    #[test]
    fn a_much_slower_rung_has_a_fraction_of_the_speed() {
        assert_eq!(relative(Some(0.004)), "1/250");
        assert_eq!(relative(Some(0.5)), "0.50 x");
    }

    #[test]
    fn rungs_with_several_problems_are_columns() {
        let entries = [entry("a", 8.0, Some(10.0)), entry("a", 4.0, None), entry("b", 8.0, Some(5.0))];
        let text = table(&entries.iter().collect::<Vec<_>>());
        assert_eq!(
            text,
            "| bytes | `a`, GB/s | `b`, GB/s |\n| --- | ---: | ---: |\n| 4 | not measured yet |  |\n| 8 | 100 | \
             200 |\n"
        );
    }

    #[test]
    fn a_time_above_that_of_a_larger_problem_is_marked() {
        let of = |at: f64, time: f64| Entry { bytes: at, ..entry("a", at, Some(time)) };
        let entries = [of(1.0, 14.0), of(2.0, 8.0), of(4.0, 9.0)];
        let text = table(&entries.iter().collect::<Vec<_>>());
        assert_eq!(text.matches(" * |").count(), 1, "{text}");
        assert!(text.ends_with("An outlier: a larger problem took less time.\n"), "{text}");
    }

    #[test]
    fn counts_stand_next_to_what_was_predicted() {
        let mut entry = entry("a", 8.0, None);
        assert_eq!(counts(&[&entry]), None);
        entry.sectors_loaded = Some(4.0);
        entry.counted = Some(WarpCounts {
            launches: 1,
            requests: 2,
            sectors_loaded: 4,
            sectors_stored: 0,
            atomics: 3,
            wavefronts: 0,
            bank_conflicts: 0,
            local: 0,
            constant: 0,
            divergent_branches: 0,
            efficiency: 0.5,
            instructions: 9,
        });
        let table = |entry: &Entry| counts(&[entry]).unwrap();
        assert!(
            table(&entry).starts_with("| rung | problem | sectors loaded | atomics | warp instructions |")
        );
        assert!(table(&entry).ends_with("| `a` | 8 bytes | 4 | 3 | 9 | 50 % |\n"), "{}", table(&entry));
        entry.sectors_loaded = Some(5.0);
        entry.profiled = Some(Profiled { sectors_loaded: 6.0, ..Profiled::default() });
        assert!(table(&entry).contains("| 4, predicted 5, on the GPU 6 |"));
    }

    #[test]
    fn what_the_clocks_allow_stands_next_to_what_was_reached() {
        let mut entry = entry("a", 1.0, Some(10.0));
        entry.peak = Some(400e9);
        assert!(table(&[&entry]).contains("| 100 (25 %) |"), "{}", table(&[&entry]));
        entry.measure = "time".to_owned();
        assert!(!table(&[&entry]).contains('%'), "{}", table(&[&entry]));
    }

    #[test]
    fn what_failed_says_so() {
        let mut failed = entry("a", 1.0, None);
        failed.error = Some("out[3] is 2e0".to_owned());
        assert!(table(&[&failed]).contains("failed: out[3] is 2e0"));
        let mut lacking = entry("a", 1.0, None);
        lacking.lacking = Some("it has none".to_owned());
        assert!(table(&[&lacking]).contains("| not on this device: it has none | not on this device |"));
    }
}
