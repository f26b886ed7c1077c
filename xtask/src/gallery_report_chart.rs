//! The pictures of the gallery's pages: bars for rungs with one problem each, lines for rungs over problems.

use anyhow::anyhow;
use plotters::prelude::*;

use crate::gallery_report::Entry;
use crate::gallery_report_tables::number;

pub type Drawn = Result<(), Box<dyn std::error::Error>>;

const SIZE: (u32, u32) = (900, 460);
/// Of a picture of bars, one of them.
const BAR: u32 = 30;
/// Where bars begin and end.
const BARS: (i32, i32) = (250, 800);

pub const COLOURS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(227, 119, 194),
    RGBColor(110, 110, 110),
    RGBColor(188, 189, 34),
    RGBColor(23, 190, 207),
];

/// A rung with its points.
type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// The picture of a lesson's entries, measured on `machine`; none where none was.
pub fn draw(entries: &[&Entry], machine: &str) -> anyhow::Result<Option<String>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for entry in entries {
        let Some(value) = entry.value() else { continue };
        match lines.iter_mut().find(|(name, _)| *name == entry.name) {
            Some((_, points)) => points.push((entry.at, value)),
            None => lines.push((&entry.name, vec![(entry.at, value)])),
        }
    }
    let Some(first) = entries.first().filter(|_| !lines.is_empty()) else { return Ok(None) };
    let mut svg = String::new();
    let title = format!("{}, {machine}", first.title);
    let is_ladder = lines.iter().all(|(_, points)| points.len() == 1);
    let drawn = if is_ladder {
        bars(&mut svg, &title, &lines, first.unit())
    } else {
        curves(&mut svg, &title, &mut lines, first)
    };
    drawn.map_err(|error| anyhow!("drawing {} failed: {error}", first.lesson))?;
    Ok(Some(svg))
}

fn bars(svg: &mut String, title: &str, lines: &[Line<'_>], unit: &str) -> Drawn {
    let size = (SIZE.0, 70 + BAR * lines.len() as u32);
    let root = SVGBackend::with_string(svg, size).into_drawing_area();
    root.fill(&WHITE)?;
    let area = root.titled(title, ("sans-serif", 20))?;
    let most = lines.iter().flat_map(|(_, points)| points).map(|point| point.1).fold(1e-9, f64::max);
    for (place, (name, points)) in lines.iter().enumerate() {
        let y = 10 + (BAR * place as u32) as i32;
        let end = BARS.0 + ((BARS.1 - BARS.0) as f64 * points[0].1 / most) as i32;
        let colour = COLOURS[place % COLOURS.len()];
        area.draw(&Text::new((*name).to_owned(), (20, y + 4), ("sans-serif", 15)))?;
        area.draw(&Rectangle::new(
            [(BARS.0, y), (end.max(BARS.0 + 1), y + BAR as i32 - 8)],
            colour.filled(),
        ))?;
        let value = format!("{} {unit}", number(points[0].1));
        area.draw(&Text::new(value, (end + 6, y + 4), ("sans-serif", 14)))?;
    }
    root.present()?;
    Ok(())
}

fn curves(svg: &mut String, title: &str, lines: &mut [Line<'_>], first: &Entry) -> Drawn {
    for (_, points) in lines.iter_mut() {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let points = || lines.iter().flat_map(|(_, points)| points.iter().copied());
    // In powers of two the axis is that of their exponents.
    let place = |x: f64| if first.is_log { x.max(f64::MIN_POSITIVE).log2() } else { x };
    let (low, high) =
        points().fold((f64::MAX, f64::MIN), |(low, high), (x, _)| (low.min(place(x)), high.max(place(x))));
    let top = points().map(|point| point.1).fold(1e-9, f64::max) * 1.08;
    let room = ((high - low) * 0.03).max(1e-3);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let area = root.titled(title, ("sans-serif", 20))?;
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(70)
        .build_cartesian_2d(low - room..high + room, 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc(&first.axis)
        .y_desc(first.unit())
        .x_label_formatter(&|x| label(*x, first.is_log))
        .y_label_formatter(&|y| number(*y))
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13))
        .draw()?;
    for (i, (name, points)) in lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<(f64, f64)> = points.iter().map(|&(x, y)| (place(x), y)).collect();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|&point| Circle::new(point, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A place on the axis: of a power of two the power, in its prefix.
fn label(x: f64, is_log: bool) -> String {
    if !is_log {
        return number(x);
    }
    let (power, prefixes) = (x.exp2(), [(30.0, "Gi"), (20.0, "Mi"), (10.0, "Ki")]);
    match prefixes.iter().find(|(least, _)| x >= *least) {
        Some((least, prefix)) => format!("{} {prefix}", number((x - least).exp2().round())),
        None => number((power * 100.0).round() / 100.0),
    }
}
