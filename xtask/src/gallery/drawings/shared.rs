//! Shared memory: banks, trees and tiles.

use super::{LANES, counted, drawing};
use crate::chart::{Cell, Cells, Chart, Panel, Tone};

const BANKS: usize = 32;

/// The wavefront in which each lane gets its word: a bank delivers one word per wavefront, to all lanes that request it.
pub(super) fn wavefronts(words: &[usize]) -> Vec<usize> {
    let of_lane = |lane: usize| {
        let mut before: Vec<usize> = words[..lane].to_vec();
        before.retain(|word| word % BANKS == words[lane] % BANKS);
        let mut distinct: Vec<usize> = Vec::new();
        for word in before.into_iter().chain([words[lane]]) {
            if !distinct.contains(&word) {
                distinct.push(word);
            }
        }
        distinct.iter().position(|word| *word == words[lane]).unwrap_or(0)
    };
    (0..words.len()).map(of_lane).collect()
}

/// The number of wavefronts of a request.
pub(super) fn count(words: &[usize]) -> usize {
    wavefronts(words).into_iter().max().map_or(0, |last| last + 1)
}

pub(super) fn bank_conflicts() -> Chart {
    let plain: fn(usize) -> usize = |word| word;
    let padded: fn(usize) -> usize = |word| word + word / 32;
    let swizzled: fn(usize) -> usize = |word| word ^ (word / 32 % 32);
    let cases = [
        ("plain", 1, plain),
        ("plain", 2, plain),
        ("plain", 32, plain),
        ("padded", 32, padded),
        ("swizzled", 32, swizzled),
        ("padded", 31, padded),
    ];
    let panels = cases.map(|(rung, stride, place)| {
        let words: Vec<usize> = (0..LANES).map(|lane| place(lane * stride)).collect();
        let fronts = wavefronts(&words);
        let row = |lane: usize| {
            let tone = if fronts[lane] == 0 { Tone::Main } else { Tone::Third };
            let name = if lane.is_multiple_of(4) { format!("lane {lane}") } else { String::new() };
            (name, vec![Cell::new(words[lane] % BANKS, tone, "")])
        };
        Panel::Cells(Cells {
            caption: format!("{rung}, stride {stride}: {}", counted(count(&words), "wavefront")),
            across: "bank".to_owned(),
            columns: BANKS,
            rows: (0..LANES).map(row).collect(),
            legend: vec![(Tone::Main, "first wavefront".to_owned()), (Tone::Third, "waits".to_owned())],
            cell: (9, 9),
            every: None,
        })
    });
    drawing(
        "A bank gives one word per wavefront, so lanes in one column wait for each other",
        "The first word of each lane of a warp: which bank holds it. A request takes a wavefront for each word that the busiest \
         bank has to give.",
        3,
        panels.into(),
    )
}

/// The word of an element (row, column) of a tile.
type Place = fn(usize, usize) -> usize;

/// The layouts of the tile in the rungs of the transpose.
pub(super) const TILES: [(&str, Place); 3] =
    [("tile", |r, c| r * 32 + c), ("padded", |r, c| r * 33 + c), ("swizzled", |r, c| r * 32 + (c ^ r))];

pub(super) fn transpose() -> Chart {
    const ROW: usize = 12;
    const COLUMN: usize = 5;
    let panels = TILES.map(|(rung, place)| {
        let stored: Vec<usize> = (0..LANES).map(|c| place(ROW, c)).collect();
        let loaded: Vec<usize> = (0..LANES).map(|r| place(r, COLUMN)).collect();
        let row = |r: usize| {
            let mut cells = vec![Cell::new(loaded[r] % BANKS, Tone::Main, "")];
            if r == ROW {
                let others = stored.iter().map(|word| word % BANKS).filter(|bank| *bank != cells[0].column);
                let others: Vec<Cell> = others.map(|bank| Cell::new(bank, Tone::Second, "")).collect();
                cells.extend(others);
            }
            (if r.is_multiple_of(4) { format!("row {r}") } else { String::new() }, cells)
        };
        let (store, load) = (count(&stored), count(&loaded));
        Panel::Cells(Cells {
            caption: format!("{rung}: store {store}, load {}", counted(load, "wavefront")),
            across: "bank".to_owned(),
            columns: BANKS,
            rows: (0..LANES).map(row).collect(),
            legend: vec![
                (Tone::Second, format!("row {ROW}, stored")),
                (Tone::Main, format!("column {COLUMN}, loaded")),
            ],
            cell: (9, 9),
            every: None,
        })
    });
    drawing(
        "The column of a tile lies in one bank, unless rows are padded or swizzled",
        "A tile of 32 x 32 words in shared memory. A warp stores a row, and loads a column.",
        3,
        panels.into(),
    )
}

/// Words of the drawn tree: two warps.
const WORDS: usize = 64;

/// The additions of a round: thread, word written, word read.
type Additions = Vec<(usize, usize, usize)>;
/// A round: its stride and its additions.
type Round = (usize, Additions);

/// The rounds of the reduction trees.
pub(super) fn trees() -> [(&'static str, Vec<Round>); 3] {
    let up: Vec<usize> = (0..).map(|n| 1 << n).take_while(|stride| *stride < WORDS).collect();
    let rounds = |strides: &[usize], adds: fn(usize, usize) -> Option<usize>| -> Vec<Round> {
        let round = |&stride: &usize| {
            let all = (0..WORDS).filter_map(|thread| Some((thread, adds(thread, stride)?)));
            (stride, all.map(|(thread, word)| (thread, word, word + stride)).collect())
        };
        strides.iter().map(round).collect()
    };
    let down: Vec<usize> = up.iter().rev().copied().collect();
    [
        ("mask", rounds(&up, |thread, stride| (thread & (2 * stride - 1) == 0).then_some(thread))),
        ("strided", rounds(&up, |thread, stride| Some(2 * stride * thread).filter(|word| *word < WORDS))),
        ("sequential", rounds(&down, |thread, stride| (thread < stride).then_some(thread))),
    ]
}

/// The total over all warps of the rounds in which a warp has something to add.
pub(super) fn warp_rounds(rounds: &[Round]) -> usize {
    let warps = |additions: &Additions| {
        let mut warps: Vec<usize> = additions.iter().map(|(thread, ..)| thread / LANES).collect();
        warps.dedup();
        warps.len()
    };
    rounds.iter().map(|(_, additions)| warps(additions)).sum()
}

/// The maximum wavefronts of a request in a round.
pub(super) fn most_wavefronts(rounds: &[Round]) -> usize {
    let of_round = |(_, additions): &Round| {
        let of_warp = |warp: usize| {
            let words =
                additions.iter().filter(|(thread, ..)| thread / LANES == warp).map(|(_, word, _)| *word);
            count(&words.collect::<Vec<usize>>())
        };
        (0..WORDS / LANES).map(of_warp).max().unwrap_or(0)
    };
    rounds.iter().map(of_round).max().unwrap_or(0)
}

pub(super) fn reduce() -> Chart {
    let panels = trees().map(|(rung, rounds)| {
        let row = |(stride, additions): &Round| {
            let tone = |thread: usize| if thread < LANES { Tone::Main } else { Tone::Second };
            let written =
                additions.iter().map(|&(thread, word, _)| Cell::new(word, tone(thread), thread.to_string()));
            let read = additions.iter().map(|&(_, _, word)| Cell::new(word, Tone::Pale, ""));
            (format!("stride {stride}"), written.chain(read).collect())
        };
        Panel::Cells(Cells {
            caption: format!(
                "{rung}: warps add {} times in {} rounds, at most {} per request",
                warp_rounds(&rounds),
                rounds.len(),
                counted(most_wavefronts(&rounds), "wavefront")
            ),
            across: "word".to_owned(),
            columns: WORDS,
            rows: rounds.iter().map(row).collect(),
            legend: vec![
                (Tone::Main, "a thread of warp 0 adds to this word; its number".to_owned()),
                (Tone::Second, "a thread of warp 1".to_owned()),
                (Tone::Pale, "the word that it adds".to_owned()),
            ],
            cell: (15, 18),
            every: Some(LANES),
        })
    });
    drawing(
        "Which threads add decides how many warps run a round, and in which banks they meet",
        "The tree of a block of 64 threads in shared memory, a row for each round.",
        1,
        panels.into(),
    )
}

pub(super) fn matmul() -> Chart {
    const TILES: usize = 8;
    const TILE_ROW: usize = 2;
    const TILE_COLUMN: usize = 5;
    const SIDE: usize = 32;
    const ROW: usize = 10;
    const COLUMN: usize = 20;
    // In the matrices, numbers are the step in which a tile is read. In the shared-memory tiles: one thread's words.
    let cells = |caption: &str,
                 (across, cell, size): (&str, u32, usize),
                 of: &dyn Fn(usize, usize) -> Option<Cell>| {
        let row = |row: usize| {
            let cells = (0..size).filter_map(|column| of(row, column)).collect();
            let is_named = size == TILES || row.is_multiple_of(4);
            (if is_named { row.to_string() } else { String::new() }, cells)
        };
        Panel::Cells(Cells {
            caption: caption.to_owned(),
            across: across.to_owned(),
            columns: size,
            rows: (0..size).map(row).collect(),
            legend: Vec::new(),
            cell: (cell, cell),
            every: None,
        })
    };
    let (matrix, tile) = (("tile", 30, TILES), ("column", 9, SIDE));
    let main = |is: bool, column: usize, words: usize, tone: Tone| {
        is.then(|| Cell::new(column, tone, words.to_string()))
    };
    let panels = vec![
        cells("A: a row of tiles, one per step", matrix, &|r, c| main(r == TILE_ROW, c, c, Tone::Main)),
        cells("B: a column of tiles", matrix, &|r, c| main(c == TILE_COLUMN, c, r, Tone::Second)),
        cells("C: the tile of the block", matrix, &|r, c| {
            (r == TILE_ROW && c == TILE_COLUMN).then(|| Cell::new(c, Tone::Third, ""))
        }),
        cells("tile of A: a thread reads a row", tile, &|r, c| main(r == ROW, c, c, Tone::Main)),
        cells("tile of B: and a column", tile, &|r, c| main(c == COLUMN, c, r, Tone::Second)),
        cells("tile of C: for its one element", tile, &|r, c| {
            (r == ROW && c == COLUMN).then(|| Cell::new(c, Tone::Third, ""))
        }),
    ];
    drawing(
        "A block loads each tile once, and each of its elements is then read 32 times from shared memory",
        "The rung shared, with tiles of 32 x 32. Above: the tiles that one block reads; numbers are the step. Below: what one of \
         its threads reads in a step.",
        3,
        panels,
    )
}
