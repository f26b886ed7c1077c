//! When and where the blocks or warps of a launch ran: a table and a picture.

use anyhow::ensure;
use ferrowarp_report::gallery::{Entry, Timeline};

use super::tables::header;
use crate::chart::{Axis, Panel, Scale, Span, Spans, number};
use crate::report::row;

/// One block or warp.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stay {
    multiprocessor: u64,
    ticket: u64,
    start: u64,
    end: u64,
    /// Its slot on its multiprocessor, counted from the top.
    slot: usize,
    /// The number of earlier ones in this slot.
    wave: usize,
}

/// All units with their slots, in order.
fn stays(timeline: &Timeline) -> anyhow::Result<Vec<Stay>> {
    let columns = [&timeline.multiprocessors, &timeline.tickets, &timeline.starts, &timeline.ends];
    let numbers =
        |column: &String| column.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
    let columns = columns.into_iter().map(numbers).collect::<Result<Vec<_>, _>>()?;
    let count = columns[0].len();
    ensure!(
        columns.iter().all(|column| column.len() == count),
        "the columns of a timeline have not the same length"
    );
    let stay = |i: usize| {
        let of = |column: usize| columns[column][i];
        Stay { multiprocessor: of(0), ticket: of(1), start: of(2), end: of(3), slot: 0, wave: 0 }
    };
    let mut stays: Vec<Stay> = (0..count).map(stay).collect();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|&i| (stays[i].multiprocessor, stays[i].start, stays[i].ticket));
    // For the current multiprocessor: when each slot is free again, and how many units it had.
    let mut slots: Vec<(u64, usize)> = Vec::new();
    let mut at = None;
    for i in order {
        let stay = &mut stays[i];
        if at.replace(stay.multiprocessor) != Some(stay.multiprocessor) {
            slots.clear();
        }
        let free = slots.iter().position(|&(end, _)| end <= stay.start);
        stay.slot = free.unwrap_or_else(|| {
            slots.push((0, 0));
            slots.len() - 1
        });
        let (end, had) = &mut slots[stay.slot];
        (stay.wave, *end, *had) = (*had, stay.end, *had + 1);
    }
    Ok(stays)
}

/// The multiprocessors with any unit, sorted.
fn multiprocessors(stays: &[Stay]) -> Vec<u64> {
    let mut numbers: Vec<u64> = stays.iter().map(|stay| stay.multiprocessor).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// One more than the largest.
fn count(stays: &[Stay], of: fn(&Stay) -> usize) -> usize {
    stays.iter().map(of).max().map_or(0, |last| last + 1)
}

fn timelines(entries: &[Entry]) -> impl Iterator<Item = (&Entry, &Timeline)> {
    entries.iter().filter_map(|entry| Some((entry, entry.timeline.as_ref()?)))
}

/// A table of the timelines of a lesson; empty if there are none.
///
/// # Errors
/// A timeline is damaged.
pub fn table(entries: &[Entry]) -> anyhow::Result<String> {
    let mut text = String::new();
    for (entry, timeline) in timelines(entries) {
        let stays = stays(timeline)?;
        if text.is_empty() {
            let cells = [
                "rung",
                "recorded by",
                "multiprocessors",
                "most at once on one multiprocessor",
                "on average",
                "most in one slot",
                "started out of order",
                "blocks whose warps started out of order",
                "shortest",
                "longest",
                "first to last",
            ];
            text += &header(&cells, 2);
        }
        let us = |nanos: Option<u64>| format!("{} us", number(nanos.unwrap_or(0) as f64 / 1e3));
        let lasted = || stays.iter().map(|stay| stay.end - stay.start.min(stay.end));
        // Until the last one of all has ended.
        let last = stays.iter().map(|stay| stay.end).max().unwrap_or(0).max(1);
        let average =
            lasted().sum::<u64>() as f64 / (last as f64 * multiprocessors(&stays).len().max(1) as f64);
        let displaced = stays.iter().zip(0..).filter(|&(stay, i)| stay.ticket != i).count();
        let blocks = stays.chunks(timeline.of_block);
        let unsorted = blocks.clone().filter(|own| !own.is_sorted_by_key(|stay| stay.ticket)).count();
        text += &row(&[
            format!("`{}`", entry.name),
            format!("{} {}s", stays.len(), timeline.unit),
            multiprocessors(&stays).len().to_string(),
            count(&stays, |stay| stay.slot).to_string(),
            number(average),
            count(&stays, |stay| stay.wave).to_string(),
            displaced.to_string(),
            if timeline.of_block == 1 { String::new() } else { format!("{unsorted} of {}", blocks.len()) },
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
pub fn panels(entries: &[Entry]) -> anyhow::Result<Vec<Panel>> {
    let panel = |(entry, timeline): (&Entry, &Timeline)| {
        let stays = stays(timeline)?;
        let slots = count(&stays, |stay| stay.slot).max(1);
        let of = |multiprocessor: u64, slot: usize| {
            let here = stays.iter().filter(|stay| (stay.multiprocessor, stay.slot) == (multiprocessor, slot));
            let us = |nanos: u64| nanos as f64 / 1e3;
            here.map(|stay| Span { from: us(stay.start), to: us(stay.end), group: stay.wave }).collect()
        };
        let shown = if slots > 2 { SHOWN / 4 } else { SHOWN };
        let numbers = multiprocessors(&stays).into_iter().take(shown);
        let rows = numbers.flat_map(|number| (0..slots).map(move |slot| (number, slot)));
        let row = |(number, slot)| {
            let name = if slot == 0 { format!("multiprocessor {number}") } else { String::new() };
            (name, of(number, slot))
        };
        let nth = ["first", "second", "third", "fourth", "fifth"];
        let waves = nth.iter().take(count(&stays, |stay| stay.wave));
        anyhow::Ok(Panel::Spans(Spans {
            caption: format!("{}: {}", entry.name, entry.problem),
            axis: Axis::new("microseconds since the first began").scale(Scale::Linear),
            until: None,
            rows: rows.map(row).collect(),
            groups: waves.map(|nth| format!("{nth} {} in its slot", timeline.unit)).collect(),
            width: 960,
        }))
    };
    timelines(entries).map(panel).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two multiprocessors; on the first two units at once, then one more where the first has ended.
    #[test]
    fn a_timeline_is_told_and_drawn() {
        let mut timeline = Timeline {
            unit: "block".to_owned(),
            of_block: 1,
            multiprocessors: "4 9 4 4".to_owned(),
            tickets: "0 2 1 3".to_owned(),
            starts: "0 10 10 100".to_owned(),
            ends: "100 60 220 300".to_owned(),
        };
        let slots: Vec<_> = stays(&timeline).unwrap().iter().map(|stay| (stay.slot, stay.wave)).collect();
        assert_eq!(slots, [(0, 0), (0, 0), (1, 0), (0, 1)]);
        let mut entry = Entry { name: "blocks".to_owned(), ..Entry::default() };
        let none = std::slice::from_ref(&entry);
        assert_eq!((table(none).unwrap(), panels(none).unwrap().len()), (String::new(), 0));
        entry.timeline = Some(timeline.clone());
        let text = table(&[entry.clone()]).unwrap();
        assert!(
            text.ends_with(
                "| `blocks` | 4 blocks | 2 | 2 | 0.93 | 2 | 2 |  | 0.050 us | 0.21 us | 0.30 us |\n"
            ),
            "{text}"
        );
        let [Panel::Spans(spans)] = &panels(&[entry.clone()]).unwrap()[..] else { panic!("one panel") };
        let blocks: Vec<usize> = spans.rows.iter().map(|(_, spans)| spans.len()).collect();
        assert_eq!((blocks, spans.groups.len()), (vec![2, 1, 1, 0], 2));
        timeline.of_block = 2;
        entry.timeline = Some(timeline.clone());
        assert!(table(&[entry]).unwrap().contains("| 0 of 2 |"));
        timeline.ends = "1 2".to_owned();
        assert!(stays(&timeline).unwrap_err().to_string().contains("not the same length"));
    }
}
