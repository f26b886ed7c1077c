//! Lanes: their numbering, and their participation in an instruction.

use super::{LANES, drawing};
use crate::chart::{Cell, Cells, Chart, Panel, Tone};

/// Threads of a block along each of its three axes, as in the lesson.
const SIDE: usize = 8;

/// Warp and lane of a thread.
pub(super) fn place([x, y, z]: [usize; 3]) -> (usize, usize) {
    let number = (z * SIDE + y) * SIDE + x;
    (number / LANES, number % LANES)
}

pub(super) fn warps() -> Chart {
    const TONES: [Tone; 4] = [Tone::Main, Tone::Second, Tone::Third, Tone::Fourth];
    let plane = |z: usize| {
        let row = |y: usize| {
            let cell = |x: usize| {
                let (warp, lane) = place([x, y, z]);
                Cell::new(x, TONES[warp % TONES.len()], lane.to_string())
            };
            (format!("y = {y}"), (0..SIDE).map(cell).collect())
        };
        let [first, second] = [place([0, 0, z]).0, place([0, SIDE - 1, z]).0];
        let tone = |warp: usize| (TONES[warp % TONES.len()], format!("lanes of warp {warp}"));
        Panel::Cells(Cells {
            caption: format!("z = {z}"),
            across: "x".to_owned(),
            columns: SIDE,
            rows: (0..SIDE).map(row).collect(),
            legend: vec![tone(first), tone(second)],
            cell: (32, 24),
            every: None,
        })
    };
    let shuffle = |from: usize| {
        let tone = |lane: usize| if lane == from { Tone::Main } else { Tone::Pale };
        let coordinates = |lane: usize| format!("({}, {}, 0)", lane % SIDE, lane / SIDE);
        let name = format!("lane {from}: {}", coordinates(from));
        (name, (0..LANES).map(|lane| Cell::new(lane, tone(lane), "")).collect())
    };
    let shuffles = Panel::Cells(Cells {
        caption: "shfl.sync.idx of warp 0".to_owned(),
        across: "lane".to_owned(),
        columns: LANES,
        rows: [0, 1, 8, 31].map(shuffle).into(),
        legend: vec![
            (Tone::Main, "all lanes get its register".to_owned()),
            (Tone::Pale, "takes part".to_owned()),
        ],
        cell: (11, 22),
        every: None,
    });
    drawing(
        "A warp of an 8 x 8 x 8 block is 8 x 4 threads of one plane",
        "x is fastest, then y, then z. All 32 lanes take part in each shuffle, and all get the same lane's coordinates.",
        3,
        vec![plane(0), plane(1), shuffles],
    )
}

/// The elements of the drawn warp: about half of them are 0.
pub(super) fn elements() -> Vec<usize> {
    (0..LANES).map(|lane| lane * lane / 3 % 5 % 3).collect()
}

/// The nearest lane below with a nonzero element, or the lane itself if there is none.
pub(super) fn below(elements: &[usize], lane: usize) -> usize {
    (0..lane).rev().find(|lower| elements[*lower] != 0).unwrap_or(lane)
}

pub(super) fn warp_masks() -> Chart {
    let elements = elements();
    let named = elements.iter().filter(|x| **x != 0).count();
    let all = |name: &str, words: &dyn Fn(usize) -> String| {
        let cells = (0..LANES).map(|lane| Cell::new(lane, Tone::Main, words(lane)));
        (name.to_owned(), cells.collect::<Vec<Cell>>())
    };
    let some = |name: &str, words: &dyn Fn(usize) -> String| {
        let cell = |lane: usize| match elements[lane] {
            0 => Cell::new(lane, Tone::Pale, ""),
            _ => Cell::new(lane, Tone::Main, words(lane)),
        };
        (name.to_owned(), (0..LANES).map(cell).collect::<Vec<Cell>>())
    };
    let (none, x) = (|_: usize| String::new(), |lane: usize| elements[lane].to_string());
    let (bit, lower) = (
        |lane: usize| usize::from(elements[lane] != 0).to_string(),
        |lane: usize| below(&elements, lane).to_string(),
    );
    let (load, vote, store) =
        (all("load x", &x), all("ballot: x != 0", &bit), some("store x minus that element", &none));
    let panel = |caption: &str, rows: Vec<(String, Vec<Cell>)>| {
        Panel::Cells(Cells {
            caption: caption.to_owned(),
            across: "lane".to_owned(),
            columns: LANES,
            rows,
            legend: vec![
                (Tone::Main, "takes part".to_owned()),
                (Tone::Pale, "x is 0: not in the mask, and waited for by no lane".to_owned()),
            ],
            cell: (24, 22),
            every: Some(8),
        })
    };
    let sync = vec![
        load.clone(),
        vote.clone(),
        some("x to shared memory", &none),
        some("sync_warp(mask)", &none),
        some("read that of lane", &lower),
        store.clone(),
    ];
    let shuffle = vec![load, vote, some("shuffle, from lane", &lower), store];
    drawing(
        &format!("All lanes vote; then the {named} of the mask work together"),
        "One warp. A row is an instruction, numbers are the element, the bit of the vote, and the lane whose element is read.",
        1,
        vec![panel("sync", sync), panel("shuffle", shuffle)],
    )
}
