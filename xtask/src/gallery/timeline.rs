//! When and where the blocks or warps of a launch ran: a table and a picture.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::chart::{Axis, Panel, Scale, Span, Spans, number};
use crate::gallery::entry::Entry;
use crate::report::row;

/// The gallery's records of a launch, as lines of numbers separated by spaces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Columns {
    /// The recording unit: `block` or `warp`.
    pub unit: String,
    /// Units per block.
    pub of_block: usize,
    /// The multiprocessor of each.
    pub multiprocessors: String,
    /// The position of each in the order of their starts.
    pub tickets: String,
    /// The start of each, in nanoseconds after the first.
    pub starts: String,
    /// The end of each.
    pub ends: String,
}

/// One block or warp.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stay {
    multiprocessor: u64,
    ticket: u64,
    start: u64,
    end: u64,
    /// Its slot on its multiprocessor, counted from the top.
    place: usize,
    /// The number of earlier ones in this slot.
    wave: usize,
}

impl Columns {
    /// All units with their slots, in order.
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
        // For the current multiprocessor: when each slot is free again, and how many units it had.
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

/// The multiprocessors with any unit, sorted.
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

/// A text about the timelines of a lesson; empty if there are none.
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
                "recorded by",
                "multiprocessors",
                "most at once on one multiprocessor",
                "most in one slot",
                "started out of order",
                "blocks whose warps started out of order",
                "shortest",
                "longest",
                "first to last",
            ];
            text += &row(&header.map(str::to_owned));
            text += &row(&header
                .map(|name| if name == "rung" || name == "recorded by" { "---" } else { "---:" }.to_owned()));
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

/// Multiprocessors that a picture shows.
const SHOWN: usize = 8;

/// The timelines of a lesson's entries as panels: a row per slot of the first multiprocessors, a colour for the first,
/// second, third block in a slot.
///
/// # Errors
/// A timeline is damaged.
pub fn panels(entries: &[&Entry]) -> anyhow::Result<Vec<Panel>> {
    let panel = |(entry, columns): (&Entry, &Columns)| {
        let stays = columns.stays()?;
        let slots = stays.iter().map(|stay| stay.place).max().unwrap_or(0) + 1;
        let of = |multiprocessor: u64, slot: usize| {
            let here =
                stays.iter().filter(|stay| (stay.multiprocessor, stay.place) == (multiprocessor, slot));
            let us = |nanos: u64| nanos as f64 / 1e3;
            here.map(|stay| Span { from: us(stay.start), to: us(stay.end), group: stay.wave }).collect()
        };
        let shown = if slots > 2 { SHOWN / 4 } else { SHOWN };
        let numbers = multiprocessors(&stays).into_iter().take(shown);
        let rows = numbers.flat_map(|number| {
            (0..slots).map(move |slot| {
                let name = if slot == 0 { format!("multiprocessor {number}") } else { String::new() };
                (name, number, slot)
            })
        });
        let waves = stays.iter().map(|stay| stay.wave).max().unwrap_or(0) + 1;
        let nth = ["first", "second", "third", "fourth", "fifth"];
        anyhow::Ok(Panel::Spans(Spans {
            caption: format!("{}: {}", entry.name, entry.problem),
            axis: Axis::new("microseconds since the first began").scale(Scale::Linear),
            until: None,
            rows: rows.map(|(name, number, slot)| (name, of(number, slot))).collect(),
            groups: nth.iter().take(waves).map(|nth| format!("{nth} {} in its slot", columns.unit)).collect(),
            width: 960,
        }))
    };
    timelines(entries).map(panel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two multiprocessors; on the first two units at once, then one more where the first has ended.
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
        assert_eq!((table(&[&entry]).unwrap(), panels(&[&entry]).unwrap().len()), (String::new(), 0));
        entry.timeline = Some(columns());
        let text = table(&[&entry]).unwrap();
        assert!(
            text.ends_with("| `blocks` | 4 blocks | 2 | 2 | 2 | 2 |  | 0.050 us | 0.21 us | 0.30 us |\n"),
            "{text}"
        );
        let [Panel::Spans(spans)] = &panels(&[&entry]).unwrap()[..] else { panic!("one panel") };
        let blocks: Vec<usize> = spans.rows.iter().map(|(_, spans)| spans.len()).collect();
        assert_eq!((blocks, spans.groups.len()), (vec![2, 1, 1, 0], 2));
        entry.timeline.as_mut().unwrap().of_block = 2;
        assert!(table(&[&entry]).unwrap().contains("| 0 of 2 |"));
    }
}
