//! The picture of the roofline: above the roofs with the kernels that were timed, below a line a family with all of them.

use anyhow::anyhow;
use plotters::prelude::*;

use crate::gallery_report_chart::{COLOURS, Drawn};
use crate::gallery_report_tables::number;
use crate::gallery_roofline::{FAMILIES, Point, Roofs};

const SIZE: (u32, u32) = (1000, 860);
/// Height of the roofs' part.
const ROOFS: u32 = 560;
/// Operations a byte; what has fewer stands at the left end.
const RANGE: (f64, f64) = (0.03, 4096.0);
/// GFLOP/s.
const SPEEDS: (f64, f64) = (1.0, 2e6);

/// The picture.
pub fn draw(points: &[Point], roofs: &Roofs) -> anyhow::Result<String> {
    let mut svg = String::new();
    draw_into(&mut svg, points, roofs).map_err(|error| anyhow!("{error}"))?;
    Ok(svg)
}

fn draw_into(svg: &mut String, points: &[Point], roofs: &Roofs) -> Drawn {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (upper, lower) = root.split_vertically(ROOFS);
    draw_roofs(&upper, points, roofs)?;
    draw_families(&lower, points, roofs)?;
    root.present()?;
    Ok(())
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw_roofs(area: &Area<'_>, points: &[Point], roofs: &Roofs) -> Drawn {
    let area = area.titled(&format!("Roofline, {}", roofs.whose), ("sans-serif", 18))?;
    let mut chart = ChartBuilder::on(&area)
        .margin_right(20)
        .x_label_area_size(40)
        .y_label_area_size(190)
        .build_cartesian_2d((RANGE.0..RANGE.1).log_scale(), (SPEEDS.0..SPEEDS.1).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("FLOP a byte of memory traffic")
        .y_desc("GFLOP/s")
        .x_label_formatter(&|x| number(*x))
        .y_label_formatter(&|y| number(*y))
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13))
        .draw()?;
    let font = ("sans-serif", 13);
    let slope = |x: f64| x * roofs.bytes_per_second / 1e9;
    let tensor = roofs.tensor_flops / roofs.bytes_per_second;
    let lines = [
        (roofs.flops, roofs.ridge(), BLACK.stroke_width(2), "FP32"),
        (roofs.tensor_flops, tensor, BLACK.mix(0.4).stroke_width(2), "tensor cores, bf16"),
    ];
    chart.draw_series(LineSeries::new(
        [(RANGE.0, slope(RANGE.0)), (tensor, slope(tensor))],
        BLACK.stroke_width(2),
    ))?;
    for (peak, ridge, style, name) in lines {
        let peak = peak / 1e9;
        chart.draw_series(LineSeries::new([(ridge, peak), (RANGE.1, peak)], style))?;
        let words = format!("{name}: {} TFLOP/s", number(peak / 1e3));
        chart.draw_series([Text::new(words, (ridge * 2.5, peak * 1.6), font)])?;
    }
    let words = format!("memory: {} GB/s", number(roofs.bytes_per_second / 1e9));
    chart.draw_series([Text::new(words, (RANGE.0 * 1.4, slope(RANGE.0 * 10.0)), font)])?;
    let mut is_any = false;
    for point in points {
        let Some(seconds) = point.seconds else { continue };
        is_any = true;
        let speed = (point.flop / seconds / 1e9).max(SPEEDS.0);
        let colour = COLOURS[point.family % COLOURS.len()];
        chart.draw_series([Circle::new((place(point), speed), 3, colour.mix(0.8).filled())])?;
    }
    if !is_any {
        chart.draw_series([Text::new("no kernel is timed yet", (60.0, 30.0), ("sans-serif", 16))])?;
    }
    Ok(())
}

/// A line a family, with a mark for each kernel and the ridge across.
fn draw_families(area: &Area<'_>, points: &[Point], roofs: &Roofs) -> Drawn {
    let rows = FAMILIES.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_right(20)
        .margin_top(10)
        .x_label_area_size(40)
        .y_label_area_size(190)
        .build_cartesian_2d((RANGE.0..RANGE.1).log_scale(), 0.0..rows)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .disable_y_axis()
        .x_desc("FLOP a byte, every kernel: left of the line memory is its roof")
        .x_label_formatter(&|x| number(*x))
        .light_line_style(WHITE)
        .label_style(("sans-serif", 13))
        .draw()?;
    chart.draw_series(LineSeries::new([(roofs.ridge(), 0.0), (roofs.ridge(), rows)], BLACK.mix(0.5)))?;
    for point in points {
        let colour = COLOURS[point.family % COLOURS.len()];
        let mark = (place(point), rows - point.family as f64 - 0.5);
        chart.draw_series([Circle::new(mark, 4, colour.mix(0.45).filled())])?;
    }
    let (left, _) = chart.plotting_area().get_pixel_range();
    for (index, (name, _)) in FAMILIES.iter().enumerate() {
        let (_, y) = chart.backend_coord(&(RANGE.0, rows - index as f64 - 0.5));
        let (_, top) = area.get_base_pixel();
        let colour = COLOURS[index % COLOURS.len()];
        let font = ("sans-serif", 14).into_font().color(&colour);
        area.draw(&Text::new(*name, (left.start - 182, y - top - 7), font))?;
    }
    Ok(())
}

/// Where a kernel stands on the axis.
fn place(point: &Point) -> f64 {
    point.intensity().clamp(RANGE.0, RANGE.1)
}
