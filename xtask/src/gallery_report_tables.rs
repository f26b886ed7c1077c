//! The tables of the gallery's pages.

use crate::gallery_report::{Counted, Entry, Profiled};
use crate::report::{row, times};

/// A lesson's table: a row a rung where each has one problem, compared with the one above if that has the same place on the
/// axis; else a row a problem and a column a rung.
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

/// The first two lines of a table, whose first `texts` columns are no numbers.
pub fn header(cells: Vec<String>, texts: usize) -> String {
    let rule: Vec<String> =
        (0..cells.len()).map(|i| if i < texts { "---" } else { "---:" }.to_owned()).collect();
    row(&cells) + &row(&rule)
}

fn ladder(entries: &[&Entry]) -> String {
    let unit = entries.first().map_or("", |entry| entry.unit());
    let cells = ["rung", "what it does", "problem", "time", unit, "over the one above"];
    let mut text = header(cells.map(str::to_owned).into(), 3);
    let mut above: Option<&Entry> = None;
    for entry in entries {
        let before = above.filter(|above| above.at == entry.at).and_then(|above| above.microseconds);
        text += &row(&[
            format!("`{}`", entry.name),
            entry.idea.clone(),
            entry.problem.clone(),
            time(entry),
            value(entry),
            times(before.zip(entry.microseconds).map(|(before, time)| before / time)),
        ]);
        above = Some(*entry);
    }
    text
}

fn grid(entries: &[&Entry], rungs: &[&str]) -> String {
    let (axis, unit) = entries.first().map_or(("", ""), |entry| (&entry.axis, entry.unit()));
    let mut cells = vec![axis.to_owned()];
    cells.extend(rungs.iter().map(|rung| format!("`{rung}`, {unit}")));
    let mut text = header(cells, 1);
    let mut places: Vec<f64> = entries.iter().map(|entry| entry.at).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    for place in places {
        let mut cells = vec![number(place)];
        for rung in rungs {
            let found = entries.iter().find(|entry| entry.name == *rung && entry.at == place);
            cells.push(found.map_or_else(String::new, |entry| value(entry)));
        }
        text += &row(&cells);
    }
    text
}

/// What was counted beside what was foretold: a row a problem, and of the columns those in which something is; none where
/// nothing was counted.
pub fn counts(entries: &[&Entry]) -> Option<String> {
    type Column =
        (&'static str, fn(&Entry) -> Option<f64>, fn(&Counted) -> f64, fn(&Profiled) -> Option<f64>);
    const COLUMNS: [Column; 8] = [
        ("sectors loaded", |e| e.sectors_loaded, |c| c.sectors_loaded as f64, |p| Some(p.sectors_loaded)),
        ("sectors stored", |e| e.sectors_stored, |c| c.sectors_stored as f64, |p| Some(p.sectors_stored)),
        ("atomics", |_| None, |c| c.atomics as f64, |_| None),
        ("passes of shared memory", |_| None, |c| c.wavefronts as f64, |_| None),
        ("bank conflicts", |e| e.bank_conflicts, |c| c.bank_conflicts as f64, |p| Some(p.bank_conflicts)),
        ("requests to local memory", |_| None, |c| c.local as f64, |_| None),
        ("passes of constant memory", |_| None, |c| c.constant as f64, |_| None),
        (
            "divergent branches",
            |e| e.divergent_branches,
            |c| c.divergent_branches as f64,
            |p| Some(p.divergent_branches),
        ),
    ];
    let counted: Vec<(&Entry, &Counted)> =
        entries.iter().filter_map(|entry| Some((*entry, entry.counted.as_ref()?))).collect();
    let is_used = |column: &&Column| {
        counted.iter().any(|(entry, counted)| (column.1)(entry).is_some() || (column.2)(counted) > 0.0)
    };
    let columns: Vec<&Column> = COLUMNS.iter().filter(is_used).collect();
    let names = ["rung", "problem"].into_iter().chain(columns.iter().map(|column| column.0));
    let mut text =
        header(names.chain(["instructions of warps", "lanes at work"]).map(str::to_owned).collect(), 2);
    for (entry, counted) in &counted {
        let mut cells = vec![format!("`{}`", entry.name), entry.problem.clone()];
        cells.extend(columns.iter().map(|(_, foretold, count, profiled)| {
            let count = count(counted);
            let mut cell = format!("{count:.0}");
            if let Some(foretold) = foretold(entry).filter(|foretold| *foretold != count) {
                cell += &format!(", foretold {}", number(foretold));
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
    (!counted.is_empty()).then_some(text)
}

fn time(entry: &Entry) -> String {
    match (&entry.error, entry.microseconds) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(time)) if time >= 1e4 => format!("{:.1} ms", time / 1e3),
        (None, Some(time)) => format!("{time:.1} us"),
        (None, None) => match &entry.lacking {
            Some(lacking) => format!("not on this device: {lacking}"),
            None => "not on this device".to_owned(),
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
        (None, None) => "not on this device".to_owned(),
    }
}

/// A number with three digits or more.
pub fn number(x: f64) -> String {
    match x {
        x if x.fract() == 0.0 || x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x => format!("{x:.2}"),
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
        assert!(text.contains("| `a` | copies | 1 bytes | 10.0 us | 100 |  |\n"), "{text}");
        assert!(text.contains("| `b` | copies | 1 bytes | 5.0 us | 200 | 2.00 x |\n"), "{text}");
    }

    #[test]
    fn rungs_with_several_problems_are_columns() {
        let entries = [entry("a", 8.0, Some(10.0)), entry("a", 4.0, None), entry("b", 8.0, Some(5.0))];
        let text = table(&entries.iter().collect::<Vec<_>>());
        assert_eq!(
            text,
            "| bytes | `a`, GB/s | `b`, GB/s |\n| --- | ---: | ---: |\n| 4 | not on this device |  |\n| 8 | 100 | \
             200 |\n"
        );
    }

    #[test]
    fn counts_stand_beside_what_was_foretold() {
        let mut entry = entry("a", 8.0, None);
        assert_eq!(counts(&[&entry]), None);
        entry.sectors_loaded = Some(4.0);
        entry.counted = Some(Counted {
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
            table(&entry)
                .starts_with("| rung | problem | sectors loaded | atomics | instructions of warps |")
        );
        assert!(table(&entry).ends_with("| `a` | 8 bytes | 4 | 3 | 9 | 50 % |\n"), "{}", table(&entry));
        entry.sectors_loaded = Some(5.0);
        entry.profiled = Some(Profiled { sectors_loaded: 6.0, ..Profiled::default() });
        assert!(table(&entry).contains("| 4, foretold 5, on the GPU 6 |"));
    }

    #[test]
    fn what_the_clocks_allow_is_beside_what_was_reached() {
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
