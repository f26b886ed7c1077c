//! The charts of a softmax run: GB/s and GFLOP/s against width, and GB/s at the larger shapes.

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::softmax_report::{Entry, Results, is_decode};

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Operations an element: maximum, subtraction, exponential, sum, division.
const FLOPS: f64 = 5.0;

/// Bytes an element of f32, read and written.
const BYTES: f64 = 8.0;

/// Of a chart with its panels side by side, and of one with a panel above the other.
const SIDE_BY_SIDE: (u32, u32) = (1500, 760);
const STACKED: (u32, u32) = (1350, 1150);
const LEGEND_HEIGHT: u32 = 110;
const LEGEND_COLUMNS: usize = 3;

/// The rate at which the memory of a GPU moves bytes, by its datasheet, in GB/s.
const DATASHEETS: [(&str, f64); 5] =
    [("H200", 4800.0), ("B200", 8000.0), ("H100", 3350.0), ("A100", 2039.0), ("L40S", 864.0)];

/// A line of a chart.
struct Line {
    name: String,
    colour: RGBColor,
    width: u32,
    /// Pixels of dash and gap; none for a line with a dot at each point.
    dashes: Option<(i32, i32)>,
    points: Vec<(f64, f64)>,
}

/// GB/s and GFLOP/s of f32 against width at 4096 rows: on the left the climb of the rungs, on the right the fastest
/// beside the peers.
pub fn widths(results: &Results) -> anyhow::Result<String> {
    let at = |entry: &Entry| is_of_widths(entry).then_some(entry.cols as f64);
    let climb = lines(results, "f32", at, &Entry::is_rung);
    let peers = lines(results, "f32", at, &|entry| !entry.is_rung());
    let title = format!("softmax of 4096 rows, f32, {}, driver {}", results.machine, results.driver);
    let panels = [("the ladder", climb), ("beside its peers", peers)];
    let axis = Axis { label: "width", names: &|x| format!("{x:.0}"), is_width: true };
    draw(results, &title, panels, &axis)
}

/// GB/s at the shapes with other numbers of rows and at odd widths, for f32 and bf16; not at those of one token's
/// logits, whose time is all latency.
pub fn shapes(results: &Results) -> anyhow::Result<String> {
    let mut names: Vec<String> = Vec::new();
    for entry in results.ours.iter().chain(&results.peers) {
        if entry.op == "softmax" && !is_of_widths(entry) && !is_decode(entry.rows, entry.cols) {
            let name = entry.shape();
            if !names.contains(&name) {
                names.push(name);
            }
        }
    }
    let at = |entry: &Entry| names.iter().position(|name| *name == entry.shape()).map(|place| place as f64);
    let is_high = |name: &str| ["k8_", "k9_", "k10_"].iter().any(|rung| name.starts_with(rung));
    let is_shown = |entry: &Entry| !entry.is_rung() || is_high(&entry.name);
    let panels =
        [("f32", lines(results, "f32", at, &is_shown)), ("bf16", lines(results, "bf16", at, &is_shown))];
    let title = format!("softmax at other shapes, {}, driver {}", results.machine, results.driver);
    let name = |x: &f64| {
        let is_whole = (x - x.round()).abs() < 1e-6;
        names.get(x.round() as usize).filter(|_| is_whole && *x >= 0.0).cloned().unwrap_or_default()
    };
    draw(results, &title, panels, &Axis { label: "rows x columns", names: &name, is_width: false })
}

/// Whether the entry belongs to the chart over widths, and not to that of other shapes.
fn is_of_widths(entry: &Entry) -> bool {
    entry.rows == 4096 && entry.cols <= 12_672 && entry.cols.is_multiple_of(4)
}

/// A line for each contestant's softmax that `is_shown`, at those shapes that have a place on the axis.
fn lines(
    results: &Results,
    dtype: &str,
    place: impl Fn(&Entry) -> Option<f64>,
    is_shown: &dyn Fn(&Entry) -> bool,
) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let everybody = results.ours.iter().chain(&results.peers);
    let entries = everybody.filter(|entry| entry.op == "softmax" && entry.dtype == dtype);
    let mut copies: Vec<(f64, f64)> = Vec::new();
    for entry in entries.filter(|entry| !entry.name.starts_with("clone")) {
        let (Some(x), Some(y)) = (place(entry), entry.gigabytes_per_second()) else { continue };
        let copy = results.best_copy(dtype, entry.rows, entry.cols).and_then(Entry::gigabytes_per_second);
        copies.extend(copy.filter(|_| copies.iter().all(|point| point.0 != x)).map(|y| (x, y)));
        if !is_shown(entry) {
            continue;
        }
        match lines.iter_mut().find(|line| line.name == shown_name(entry)) {
            Some(line) => line.points.push((x, y)),
            None => {
                let (colour, width) = look(&entry.name);
                lines.push(Line {
                    name: shown_name(entry),
                    colour,
                    width,
                    dashes: None,
                    points: vec![(x, y)],
                });
            }
        }
    }
    if !copies.is_empty() {
        let (name, colour) = ("the best copy".to_owned(), RGBColor(110, 110, 110));
        lines.push(Line { name, colour, width: 2, dashes: Some((8, 5)), points: copies });
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    lines
}

fn shown_name(entry: &Entry) -> String {
    match entry.name.as_str() {
        "softmax" => "Ferrowarp".to_owned(),
        "triton" => "Triton's tutorial, tuned".to_owned(),
        "quack" => "QuACK".to_owned(),
        name => name.to_owned(),
    }
}

/// Colour and width of a line: the rungs from blue over green to dark red and grey, the peers apart from them.
fn look(name: &str) -> (RGBColor, u32) {
    const RUNGS: [RGBColor; 10] = [
        RGBColor(49, 54, 149),
        RGBColor(69, 117, 180),
        RGBColor(90, 165, 205),
        RGBColor(70, 175, 160),
        RGBColor(90, 170, 70),
        RGBColor(170, 180, 40),
        RGBColor(240, 170, 40),
        RGBColor(240, 110, 40),
        RGBColor(150, 0, 70),
        RGBColor(60, 60, 60),
    ];
    let rung = name.strip_prefix('k').and_then(|rest| rest.split('_').next()?.parse::<usize>().ok());
    match (name, rung) {
        (_, Some(rung)) => (RUNGS[rung.clamp(1, RUNGS.len()) - 1], 2),
        ("softmax", _) => (RGBColor(220, 20, 30), 3),
        ("torch eager", _) => (RGBColor(31, 119, 180), 2),
        ("torch.compile", _) => (RGBColor(148, 103, 189), 2),
        ("triton", _) => (RGBColor(44, 160, 44), 2),
        ("quack", _) => (RGBColor(255, 127, 14), 2),
        _ => (RGBColor(140, 86, 75), 2),
    }
}

/// What lies along x.
struct Axis<'a> {
    label: &'a str,
    names: &'a dyn Fn(&f64) -> String,
    /// Widths, in order, and so operations on the right; else shapes, each a case of its own.
    is_width: bool,
}

fn draw(
    results: &Results,
    title: &str,
    panels: [(&str, Vec<Line>); 2],
    axis: &Axis<'_>,
) -> anyhow::Result<String> {
    let datasheet = DATASHEETS.iter().find(|(gpu, _)| results.machine.contains(gpu));
    let dram = datasheet.map(|&(_, rate)| (format!("DRAM, datasheet: {:.1} TB/s", rate / 1e3), rate, (2, 4)));
    let cache = results.cache_rate().filter(|_| axis.is_width);
    let cache = cache.map(|rate| (format!("a copy within L2: {:.1} TB/s", rate / 1e3), rate, (8, 3)));
    let ceilings: Vec<_> = dram.into_iter().chain(cache).collect();
    let mut svg = String::new();
    let drawn = || -> Drawn {
        let size = if axis.is_width { SIDE_BY_SIDE } else { STACKED };
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        let below = root.titled(title, ("sans-serif", 22))?;
        let (columns, rows) = if axis.is_width { (2, 1) } else { (1, 2) };
        for (area, (caption, mut lines)) in below.split_evenly((rows, columns)).iter().zip(panels) {
            let points = || lines.iter().flat_map(|line| line.points.iter().copied());
            let highest = points()
                .map(|point| point.1)
                .chain(ceilings.iter().map(|ceiling| ceiling.1))
                .fold(1.0, f64::max);
            let (first, last) =
                points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(x), high.max(x)));
            if first > last {
                continue;
            }
            for (name, rate, dashes) in ceilings.clone() {
                let points = vec![(first, rate), (last.max(first + 1.0), rate)];
                lines.push(Line { name, colour: BLACK, width: 1, dashes: Some(dashes), points });
            }
            draw_panel(area, caption, &lines, [first, last.max(first + 1.0), highest * 1.08], axis)?;
        }
        root.present()?;
        Ok(())
    };
    drawn().map_err(|error| anyhow!("drawing the chart failed: {error}"))?;
    Ok(svg)
}

fn draw_panel(area: &Area<'_>, caption: &str, lines: &[Line], range: [f64; 3], axis: &Axis<'_>) -> Drawn {
    let height = area.dim_in_pixel().1;
    let (plot, legend) = area.split_vertically(height - LEGEND_HEIGHT);
    let [first, last, top] = range;
    let room = (last - first) * 0.02;
    let x = first - room..last + room;
    let mut chart = ChartBuilder::on(&plot)
        .caption(caption, ("sans-serif", 17))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(66)
        .right_y_label_area_size(if axis.is_width { 66 } else { 20 })
        .build_cartesian_2d(x.clone(), 0.0..top)?
        .set_secondary_coord(x, 0.0..top * FLOPS / BYTES);
    chart
        .configure_mesh()
        .x_desc(axis.label)
        .y_desc("GB/s, one read and one write")
        .x_label_formatter(axis.names)
        .y_label_formatter(&|y| format!("{y:.0}"))
        .x_labels(14)
        .light_line_style(WHITE)
        .label_style(("sans-serif", if axis.is_width { 13 } else { 11 }))
        .draw()?;
    if axis.is_width {
        let mut secondary = chart.configure_secondary_axes();
        secondary.y_desc("GFLOP/s, five an element").y_label_formatter(&|y| format!("{y:.0}"));
        secondary.label_style(("sans-serif", 13)).draw()?;
    }
    for line in lines {
        let style = line.colour.stroke_width(line.width);
        if let Some((dash, gap)) = line.dashes {
            chart.draw_series(DashedLineSeries::new(line.points.iter().copied(), dash, gap, style))?;
            continue;
        }
        // A shape that was not timed leaves a gap.
        for run in line.points.chunk_by(|a, b| axis.is_width || b.0 - a.0 <= 1.0) {
            chart.draw_series(LineSeries::new(run.iter().copied(), style))?;
            chart.draw_series(run.iter().map(|&point| Circle::new(point, 3, line.colour.filled())))?;
        }
    }
    draw_legend(&legend, lines)
}

fn draw_legend(area: &Area<'_>, lines: &[Line]) -> Drawn {
    let column = area.dim_in_pixel().0 as i32 / LEGEND_COLUMNS as i32;
    for (place, line) in lines.iter().enumerate() {
        let x = 40 + (place % LEGEND_COLUMNS) as i32 * column;
        let y = 14 + (place / LEGEND_COLUMNS) as i32 * 22;
        let style = line.colour.stroke_width(line.width.max(2));
        let (dash, gap) = line.dashes.unwrap_or((24, 1));
        for from in (0..24).step_by((dash + gap) as usize) {
            area.draw(&PathElement::new([(x + from, y), (x + (from + dash).min(24), y)], style))?;
        }
        area.draw(&Text::new(line.name.clone(), (x + 32, y - 7), ("sans-serif", 14)))?;
    }
    Ok(())
}
