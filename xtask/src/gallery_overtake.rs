//! Where the GPU overtakes the CPU, on the page of vector addition.

use std::path::Path;

use anyhow::anyhow;
use plotters::prelude::*;

use crate::gallery_report::{Entry, NOT_MEASURED};
use crate::gallery_report_chart::{COLOURS, Drawn};
use crate::gallery_report_tables::{header, number};
use crate::report::{row, times};
use crate::workspace;

/// What is computed, and what the page calls it.
const FUNCTIONS: [(&str, &str); 2] = [("add", "addition"), ("gelu", "GeLU")];
/// Who computes it.
const PLACES: [&str; 4] = ["one core", "all cores", "GPU", "GPU and copies"];

/// The tables of the entries of the lesson, what they come to, and their picture, which it draws.
pub fn section(entries: &[Entry], machine: &str, pages: &Path) -> anyhow::Result<String> {
    let is_measured = |entry: &&Entry| entry.lesson == "overtake" && entry.microseconds.is_some();
    let entries: Vec<&Entry> = entries.iter().filter(is_measured).collect();
    if !entries.iter().any(|entry| entry.name.ends_with("GPU")) {
        return Ok(NOT_MEASURED.to_owned());
    }
    let mut svg = String::new();
    draw(&mut svg, &entries, machine).map_err(|error| anyhow!("drawing overtake failed: {error}"))?;
    workspace::write(&pages.join("overtake.svg"), &svg)?;
    let mut text = "![Time over the number of elements](overtake.svg)\n".to_owned();
    for (function, title) in FUNCTIONS {
        text += &format!("\n{}\n{}", table(&entries, function, title), words(&entries, function, title));
    }
    if let Some(entry) = entries.iter().find(|entry| entry.name.ends_with("all cores")) {
        // After the number of elements.
        let cpu = entry.problem.split_once(", ").map_or("", |(_, cpu)| cpu);
        text += &format!("\nThe CPU is {cpu}; the GPU {machine}.\n");
    }
    Ok(text)
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

/// From which size on the GPU is the faster one, in words.
fn words(entries: &[&Entry], function: &str, title: &str) -> String {
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
        "The {title}: the GPU is ahead of one core {}, of all cores {}; with copies of one core {}, of all cores {}.\n",
        from("one core", "GPU"),
        from("all cores", "GPU"),
        from("one core", "GPU and copies"),
        from("all cores", "GPU and copies"),
    )
}

fn draw(svg: &mut String, entries: &[&Entry], machine: &str) -> Drawn {
    let root = SVGBackend::with_string(svg, (1000, 460)).into_drawing_area();
    root.fill(&WHITE)?;
    let parts = root.titled(&format!("Where the GPU overtakes the CPU, {machine}"), ("sans-serif", 18))?;
    for (area, (function, title)) in parts.split_evenly((1, 2)).iter().zip(FUNCTIONS) {
        let sizes = sizes(entries, function);
        let (Some(&low), Some(&high)) = (sizes.first(), sizes.last()) else { continue };
        let mut chart = ChartBuilder::on(area)
            .margin(10)
            .caption(title, ("sans-serif", 15))
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(low.log2()..(high * 2.0).log2(), (0.02..3e6).log_scale())?;
        chart
            .configure_mesh()
            .x_desc("elements")
            .y_desc("us")
            .x_label_formatter(&|x| format!("2^{x:.0}"))
            .y_label_formatter(&|y| number(*y))
            .light_line_style(WHITE)
            .label_style(("sans-serif", 12))
            .draw()?;
        for (place, colour) in PLACES.iter().zip(COLOURS) {
            let point = |at: &f64| Some((at.log2(), time(entries, function, place, *at)?));
            let points: Vec<(f64, f64)> = sizes.iter().filter_map(point).collect();
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(*place)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
            chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperLeft)
            .background_style(WHITE.mix(0.8))
            .border_style(BLACK.mix(0.3))
            .label_font(("sans-serif", 12))
            .draw()?;
    }
    root.present()?;
    Ok(())
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
            words(&entries, "add", "addition"),
            "The addition: the GPU is ahead of one core from 2^12 elements on, of all cores from 2^14 elements on; with copies \
             of one core from 2^12 elements on, of all cores at no size.\n"
        );
        let table = table(&entries, "add", "addition");
        assert!(table.contains("| 2^14 | 160 | 50 | 10 | 90 | 16.00 x | 5.00 x | 0.56 x |\n"), "{table}");
    }

    #[test]
    fn without_a_gpu_nothing_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let mut entries = entries();
        let section = |entries: &[Entry]| section(entries, "a GPU", folder.path()).unwrap();
        assert!(section(&entries).contains("The CPU is a CPU, 4 threads; the GPU a GPU."));
        entries.retain(|entry| !entry.name.contains("GPU"));
        assert_eq!(section(&entries), NOT_MEASURED);
    }
}
