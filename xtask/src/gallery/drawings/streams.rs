//! Streams: which copy and which kernel run at the same time.

use super::{counted, drawing};
use crate::chart::{Axis, Chart, Panel, Scale, Span, Spans, number};

/// Upload, kernel and download; a GPU has an engine for each.
const PARTS: [&str; 3] = ["upload", "kernel", "download"];
/// Chunks of the lesson.
const CHUNKS: usize = 16;

/// The schedule of each chunk's parts, if each part of the whole takes one unit of time: stream, part, start, end. A stream
/// runs in order, and an engine runs one thing at a time, in the order of queueing.
pub(super) fn schedule(chunks: usize, streams: usize) -> Vec<(usize, usize, f64, f64)> {
    let (mut engines, mut free) = ([0.0_f64; PARTS.len()], vec![0.0_f64; streams]);
    let mut spans = Vec::new();
    for chunk in 0..chunks {
        let stream = chunk % streams;
        for (part, engine) in engines.iter_mut().enumerate() {
            let start = engine.max(free[stream]);
            let end = start + 1.0 / chunks as f64;
            (*engine, free[stream]) = (end, end);
            spans.push((stream, part, start, end));
        }
    }
    spans
}

/// The end of the last part.
pub(super) fn end(spans: &[(usize, usize, f64, f64)]) -> f64 {
    spans.iter().map(|span| span.3).fold(0.0, f64::max)
}

pub(super) fn overlap() -> Chart {
    let whole = end(&schedule(1, 1));
    let panels = [(1, 1), (CHUNKS, 1), (CHUNKS, 2), (CHUNKS, 4)].map(|(chunks, streams)| {
        let spans = schedule(chunks, streams);
        let row = |stream: usize| {
            let here = spans.iter().filter(|span| span.0 == stream);
            let spans = here.map(|&(_, part, from, to)| Span { from, to, group: part }).collect();
            (format!("stream {stream}"), spans)
        };
        let rung = if chunks == 1 { "whole" } else { "chunks" };
        Panel::Spans(Spans {
            caption: match chunks {
                1 => format!("{rung}: {} units of time", number(end(&spans))),
                _ => format!(
                    "{rung}, {}: {} units of time, {} times as fast",
                    counted(streams, "stream"),
                    number(end(&spans)),
                    number(whole / end(&spans))
                ),
            },
            axis: Axis::new("units of time").scale(Scale::Linear),
            until: Some(whole),
            rows: (0..streams).map(row).collect(),
            groups: PARTS.map(str::to_owned).into(),
            width: 1000,
        })
    });
    drawing(
        "Three streams or more keep both copy engines and the multiprocessors busy at once",
        "Predicted: upload, kernel and download of the whole array take one unit of time each, and the link carries its full rate \
         in both directions at once.",
        1,
        panels.into(),
    )
}
