//! When and where the blocks or warps of a launch ran: a table and a picture.

use anyhow::{anyhow, ensure};
use plotters::prelude::*;
use serde::{Deserialize, Serialize};

use crate::gallery_report::Entry;
use crate::gallery_report_tables::number;
use crate::report::row;

/// What the gallery has noted of a launch, in lines of numbers with blanks between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// Who noted: `block` or `warp`.
    pub unit: String,
    /// How many of them a block has.
    pub of_block: usize,
    /// The multiprocessor of each.
    pub multiprocessors: String,
    /// The place of each in the order in which they began.
    pub tickets: String,
    /// When each began, in nanoseconds since the first.
    pub starts: String,
    /// When each ended.
    pub ends: String,
}

/// One block or warp.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stay {
    multiprocessor: u64,
    ticket: u64,
    start: u64,
    end: u64,
    /// Which of the places of its multiprocessor it had, from the top.
    place: usize,
    /// How many had it before.
    wave: usize,
}

impl Columns {
    /// All of them, with their places, in their own order.
    fn stays(&self) -> anyhow::Result<Vec<Stay>> {
        let numbers = |column: &str| -> anyhow::Result<Vec<u64>> {
            Ok(column.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
        };
        let columns = [&self.multiprocessors, &self.tickets, &self.starts, &self.ends];
        let columns = columns.into_iter().map(|column| numbers(column)).collect::<Result<Vec<_>, _>>()?;
        let count = columns[0].len();
        ensure!(
            columns.iter().all(|column| column.len() == count),
            "the columns of a timeline have not the same length"
        );
        let stay = |i: usize| {
            let of = |column: usize| columns[column][i];
            Stay { multiprocessor: of(0), ticket: of(1), start: of(2), end: of(3), place: 0, wave: 0 }
        };
        let mut stays: Vec<Stay> = (0..count).map(stay).collect();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&i| (stays[i].multiprocessor, stays[i].start, stays[i].ticket));
        // Of the multiprocessor at hand: when each place is free again, and how many had it.
        let mut places: Vec<(u64, usize)> = Vec::new();
        let mut at = None;
        for i in order {
            let stay = &mut stays[i];
            if at.replace(stay.multiprocessor) != Some(stay.multiprocessor) {
                places.clear();
            }
            let free = places.iter().position(|&(end, _)| end <= stay.start);
            stay.place = free.unwrap_or_else(|| {
                places.push((0, 0));
                places.len() - 1
            });
            let (end, had) = &mut places[stay.place];
            (stay.wave, *end, *had) = (*had, stay.end, *had + 1);
        }
        Ok(stays)
    }
}

/// The multiprocessors that had any, sorted.
fn multiprocessors(stays: &[Stay]) -> Vec<u64> {
    let mut numbers: Vec<u64> = stays.iter().map(|stay| stay.multiprocessor).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

fn timelines<'a>(entries: &[&'a Entry]) -> impl Iterator<Item = (&'a Entry, &'a Columns)> {
    entries
        .iter()
        .filter_map(|entry| Some((*entry, entry.timeline.as_ref()?)))
        .collect::<Vec<_>>()
        .into_iter()
}

/// What there is to say of the timelines of a lesson; nothing where there is none.
///
/// # Errors
/// A timeline is damaged.
pub fn table(entries: &[&Entry]) -> anyhow::Result<String> {
    let mut text = String::new();
    for (entry, columns) in timelines(entries) {
        let stays = columns.stays()?;
        if text.is_empty() {
            let header = [
                "rung",
                "who notes",
                "multiprocessors",
                "most at once on one",
                "most after each other in one place",
                "not begun in their order",
                "blocks whose own began out of order",
                "shortest",
                "longest",
                "first to last",
            ];
            text += &row(&header.map(str::to_owned));
            text += &row(&header
                .map(|name| if name == "rung" || name == "who notes" { "---" } else { "---:" }.to_owned()));
        }
        let us = |nanos: Option<u64>| format!("{} us", number(nanos.unwrap_or(0) as f64 / 1e3));
        let lasted = || stays.iter().map(|stay| stay.end - stay.start.min(stay.end));
        let displaced = stays.iter().zip(0..).filter(|&(stay, i)| stay.ticket != i).count();
        let is_sorted = |own: &&[Stay]| own.is_sorted_by_key(|stay| stay.ticket);
        let of_blocks = match columns.of_block {
            1 => String::new(),
            each => {
                let blocks = stays.chunks(each);
                let count = blocks.len();
                format!("{} of {count}", count - stays.chunks(each).filter(is_sorted).count())
            }
        };
        text += &row(&[
            format!("`{}`", entry.name),
            format!("{} {}s", stays.len(), columns.unit),
            multiprocessors(&stays).len().to_string(),
            (stays.iter().map(|stay| stay.place).max().unwrap_or(0) + 1).to_string(),
            (stays.iter().map(|stay| stay.wave).max().unwrap_or(0) + 1).to_string(),
            displaced.to_string(),
            of_blocks,
            us(lasted().min()),
            us(lasted().max()),
            us(stays.iter().map(|stay| stay.end).max()),
        ]);
    }
    Ok(text)
}

/// Of a wave its colour; later ones begin again.
const COLOURS: [RGBColor; 5] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
];

/// The first timeline of a lesson's entries, measured on `machine`, as a picture: time to the right, and a strip for each
/// place of each multiprocessor; none where there is no timeline.
///
/// # Errors
/// The timeline is damaged.
pub fn draw(entries: &[&Entry], machine: &str) -> anyhow::Result<Option<String>> {
    let Some((entry, columns)) = timelines(entries).next() else { return Ok(None) };
    let stays = columns.stays()?;
    let mut svg = String::new();
    let title = format!("{}, {}, {machine}", entry.title, entry.problem);
    picture(&mut svg, &title, &stays).map_err(|error| anyhow!("drawing {} failed: {error}", entry.lesson))?;
    Ok(Some(svg))
}

fn picture(svg: &mut String, title: &str, stays: &[Stay]) -> Result<(), Box<dyn std::error::Error>> {
    let numbers = multiprocessors(stays);
    let places = stays.iter().map(|stay| stay.place).max().unwrap_or(0) + 1;
    let strips = numbers.len() * places;
    // A strip of a laptop's few is wide enough to be seen, one of a GPU's many narrow enough for a page.
    let strip = (660 / strips.max(1)).clamp(3, 40) as u32;
    let root = SVGBackend::with_string(svg, (900, 110 + strip * strips as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let area = root.titled(title, ("sans-serif", 18))?;
    let end = stays.iter().map(|stay| stay.end).max().unwrap_or(1).max(1) as f64 / 1e3;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(0.0..end, numbers.len() as f64..0.0)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_desc("microseconds since the first began; a colour for each wave")
        .y_desc("multiprocessor")
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_label_formatter(&|x| number(*x))
        .label_style(("sans-serif", 13))
        .draw()?;
    let rectangle = |stay: &Stay| {
        let at = numbers.binary_search(&stay.multiprocessor).unwrap_or(0) as f64;
        let [top, bottom] = [0.1, 0.9].map(|part| at + (stay.place as f64 + part) / places as f64);
        let corners = [(stay.start as f64 / 1e3, top), (stay.end as f64 / 1e3, bottom)];
        Rectangle::new(corners, COLOURS[stay.wave % COLOURS.len()].filled())
    };
    chart.draw_series(stays.iter().map(rectangle))?;
    root.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two multiprocessors; on the first two at once, then one more where the first has ended.
    fn columns() -> Columns {
        Columns {
            unit: "block".to_owned(),
            of_block: 1,
            multiprocessors: "4 9 4 4".to_owned(),
            tickets: "0 2 1 3".to_owned(),
            starts: "0 10 10 100".to_owned(),
            ends: "100 60 220 300".to_owned(),
        }
    }

    #[test]
    fn a_place_is_taken_by_one_after_the_other() {
        let places = |columns: &Columns| -> Vec<(usize, usize)> {
            columns.stays().unwrap().iter().map(|stay| (stay.place, stay.wave)).collect()
        };
        assert_eq!(places(&columns()), [(0, 0), (0, 0), (1, 0), (0, 1)]);
        let mut damaged = columns();
        damaged.ends = "1 2".to_owned();
        assert!(damaged.stays().unwrap_err().to_string().contains("not the same length"));
    }

    #[test]
    fn a_timeline_is_told_and_drawn() {
        let mut entry = Entry::of_test("blocks", 4.0, Some(1.0));
        assert_eq!((table(&[&entry]).unwrap(), draw(&[&entry], "it").unwrap()), (String::new(), None));
        entry.timeline = Some(columns());
        let text = table(&[&entry]).unwrap();
        assert!(
            text.ends_with("| `blocks` | 4 blocks | 2 | 2 | 2 | 2 |  | 0.05 us | 0.21 us | 0.30 us |\n"),
            "{text}"
        );
        let svg = draw(&[&entry], "it").unwrap().unwrap();
        let blocks = svg.matches("<rect").count();
        assert_eq!(blocks, 1 + 4, "the ground and four blocks");
        entry.timeline.as_mut().unwrap().of_block = 2;
        assert!(table(&[&entry]).unwrap().contains("| 0 of 2 |"));
    }
}
