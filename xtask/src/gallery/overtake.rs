//! The size from which the GPU is faster than the CPU, on the page of vector addition.

use std::path::Path;

use crate::chart::{Axis, Chart, Family, Lines, Panel, Scale, Series, binary, number};
use crate::gallery::entry::{Entry, find};
use crate::gallery::predictions;
use crate::gallery::report::tables::{header, short_time};
use crate::gallery::report::{Lesson, NOT_MEASURED};
use crate::report::{row, times};
use crate::workspace;

/// The functions, and their names on the page.
const FUNCTIONS: [(&str, &str); 2] = [("add", "addition"), ("gelu", "GeLU")];
/// The contestants.
const PLACES: [&str; 4] = ["one core", "all cores", "GPU", "GPU and copies"];

/// The predictions, the tables and their findings, and the picture, which it draws.
pub fn section(lesson: &Lesson<'_>, machine: &str, pages: &Path) -> anyhow::Result<String> {
    let measured = lesson.entries.iter().copied().filter(|entry| entry.microseconds.is_some());
    let entries: Vec<&Entry> = measured.collect();
    if !entries.iter().any(|entry| entry.name.ends_with("GPU")) {
        return Ok(NOT_MEASURED.to_owned());
    }
    workspace::write(&pages.join("overtake.svg"), &draw(lesson, &entries)?)?;
    let mut text = predictions::section(&lesson.predictions, &entries, lesson.limits);
    text += "\n![Time over the number of elements](overtake.svg)\n";
    for (function, title) in FUNCTIONS {
        text += &format!("\n{}\n{}", table(&entries, function, title), words(&entries, function));
    }
    if let Some(cpu) = cpu(&entries) {
        text += &format!("\nThe CPU is {cpu}; the GPU is {machine}.\n");
    }
    Ok(text)
}

/// The processor and its threads, which are in a problem's words after the number of elements.
fn cpu<'a>(entries: &[&'a Entry]) -> Option<&'a str> {
    let entry = entries.iter().find(|entry| entry.name.ends_with("all cores"))?;
    Some(entry.problem.split_once(", ")?.1)
}

/// Microseconds.
fn time(entries: &[&Entry], function: &str, place: &str, at: f64) -> Option<f64> {
    let name = format!("{function}, {place}");
    entries.iter().find(|entry| entry.name == name && entry.at == at)?.microseconds
}

fn sizes(entries: &[&Entry], function: &str) -> Vec<f64> {
    let is_of = |entry: &&&Entry| entry.name.starts_with(&format!("{function}, "));
    let mut sizes: Vec<f64> = entries.iter().filter(is_of).map(|entry| entry.at).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    sizes
}

fn table(entries: &[&Entry], function: &str, title: &str) -> String {
    let mut cells = vec![format!("elements, {title}")];
    cells.extend(PLACES.iter().map(|place| format!("{place}, us")));
    cells.extend(["one core / GPU", "all cores / GPU", "all cores / GPU and copies"].map(str::to_owned));
    let mut text = header(cells, 1);
    for at in sizes(entries, function) {
        let of = PLACES.map(|place| time(entries, function, place, at));
        let mut cells = vec![format!("2^{}", at.log2())];
        cells.extend(of.map(|time| time.map_or_else(String::new, number)));
        let ratio = |a: usize, b: usize| times(of[a].zip(of[b]).map(|(a, b)| a / b));
        cells.extend([ratio(0, 2), ratio(1, 2), ratio(1, 3)]);
        text += &row(&cells);
    }
    text
}

/// The size from which the GPU is faster, in words.
fn words(entries: &[&Entry], function: &str) -> String {
    let from = |rival: &str, place: &str| {
        let mut first = None;
        for at in sizes(entries, function) {
            let pair = time(entries, function, rival, at).zip(time(entries, function, place, at));
            first = match pair {
                Some((rival, gpu)) if gpu < rival => first.or(Some(at)),
                Some(_) => None,
                None => first,
            };
        }
        first.map_or("at no size".to_owned(), |at| format!("from 2^{} elements on", at.log2()))
    };
    format!(
        "The GPU is ahead of one core {}, and of all cores {}. With copies it is ahead of one core {}, and of all cores {}.\n",
        from("one core", "GPU"),
        from("all cores", "GPU"),
        from("one core", "GPU and copies"),
        from("all cores", "GPU and copies"),
    )
}

fn draw(lesson: &Lesson<'_>, entries: &[&Entry]) -> anyhow::Result<String> {
    let panel = |&(function, title): &(&str, &str)| {
        let sizes = sizes(entries, function);
        let line = |&place: &&str| {
            let points = sizes.iter().filter_map(|&at| Some((at, time(entries, function, place, at)?)));
            let family = if place.starts_with("GPU") { Family::Ours } else { Family::Other };
            let name = format!("{function}, {place}");
            let of_line = lesson.predictions.iter().filter(|prediction| prediction.rung == name);
            let predicted = of_line.filter_map(|prediction| {
                let at = find(entries, &name, prediction.at)?.at;
                Some((at, prediction.microseconds(entries, lesson.limits)?))
            });
            let predicted = predicted.collect();
            Series { predicted, ..Series::new(place, family, points.collect()) }
        };
        let x = Axis::new("elements").scale(Scale::Log).format(binary);
        let y = Axis::new("time").scale(Scale::Log).format(short_time);
        let mut lines = Lines::new(x, y, PLACES.iter().map(line).collect());
        lines.caption = title.to_owned();
        lines.size = (640, 440);
        Panel::Lines(lines)
    };
    let largest = sizes(entries, "add").last().copied();
    let ratio =
        largest.and_then(|at| Some(time(entries, "add", "one core", at)? / time(entries, "add", "GPU", at)?));
    let title = match ratio {
        Some(ratio) => format!(
            "A GPU adds long vectors {} times as fast as one core, until they have to be copied",
            number(ratio)
        ),
        None => "Where the GPU overtakes the CPU".to_owned(),
    };
    let timed = FUNCTIONS.iter().filter(|(function, _)| !sizes(entries, function).is_empty());
    let panels = timed.map(panel).collect();
    let mut subtitle = lesson.whence.clone();
    subtitle.extend(cpu(entries).map(|cpu| format!("; the CPU is {cpu}")));
    Chart { title, subtitle, columns: 2, panels }.svg()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries() -> Vec<Entry> {
        let of = |name: &str, times: [f64; 3]| {
            let name = name.to_owned();
            let place = move |(power, time): (i32, f64)| Entry {
                lesson: "overtake".to_owned(),
                problem: "8 elements, a CPU, 4 threads".to_owned(),
                ..Entry::of_test(&name, f64::from(power).exp2(), Some(time))
            };
            (10..).step_by(2).zip(times).map(place).collect::<Vec<_>>()
        };
        [
            of("add, one core", [1.0, 40.0, 160.0]),
            of("add, all cores", [5.0, 8.0, 50.0]),
            of("add, GPU", [10.0, 10.0, 10.0]),
            of("add, GPU and copies", [30.0, 35.0, 90.0]),
        ]
        .concat()
    }

    #[test]
    fn the_size_is_told_from_which_the_gpu_is_ahead() {
        let entries = entries();
        let entries: Vec<&Entry> = entries.iter().collect();
        assert_eq!(
            words(&entries, "add"),
            "The GPU is ahead of one core from 2^12 elements on, and of all cores from 2^14 elements on. With copies it is ahead of \
             one core from 2^12 elements on, and of all cores at no size.\n"
        );
        let table = table(&entries, "add", "addition");
        assert!(table.contains("| 2^14 | 160 | 50 | 10 | 90 | 16.00 x | 5.00 x | 0.56 x |\n"), "{table}");
    }

    #[test]
    fn without_a_gpu_nothing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut entries = entries();
        let section = |entries: &[Entry]| {
            let lesson = Lesson {
                name: "overtake",
                entries: entries.iter().collect(),
                predictions: Vec::new(),
                limits: &Default::default(),
                whence: "a GPU".to_owned(),
            };
            section(&lesson, "a GPU", folder.path()).unwrap()
        };
        assert!(section(&entries).contains("The CPU is a CPU, 4 threads; the GPU is a GPU."));
        entries.retain(|entry| !entry.name.contains("GPU"));
        assert_eq!(section(&entries), NOT_MEASURED);
    }
}
