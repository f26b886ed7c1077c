//! The picture of the roofline: the roofs, and the timed kernels.

use super::{FAMILIES, Point, Roofs};
use crate::chart::{Axis, Chart, Family, Guide, Lines, Note, Panel, Scale, Series, number};

/// Operations per byte at which the roofs begin and end.
const RANGE: (f64, f64) = (0.03, 8192.0);

/// Kernels with names at their points.
const NAMED: [&str; 9] = [
    "matmul_uncoalesced",
    "matmul_naive",
    "matmul_vec4",
    "k1_naive",
    "k6_unrolled",
    "r01_mma_sync",
    "r08_cluster",
    "naive",
    "resident",
];

/// The picture; `None` if no kernel was timed.
///
/// # Errors
/// Drawing failed.
pub fn draw(points: &[Point], roofs: &Roofs) -> anyhow::Result<Option<String>> {
    let timed: Vec<&Point> = points.iter().filter(|point| point.seconds.is_some()).collect();
    if timed.is_empty() {
        return Ok(None);
    }
    // A kernel with almost no bytes, or without operations, has no position on logarithmic axes.
    let placed: Vec<&Point> = timed
        .iter()
        .copied()
        .filter(|point| point.intensity() >= RANGE.0 && point.intensity() <= RANGE.1)
        .collect();
    let speed = |point: &Point| point.flop / point.seconds.unwrap_or(f64::INFINITY) / 1e9;
    let of_family = |(index, (name, _)): (usize, &(&str, &[&str]))| {
        let here = placed.iter().filter(|point| point.family == index);
        let points: Vec<(f64, f64)> = here.map(|point| (point.intensity(), speed(point))).collect();
        Series::new(*name, Family::Ours, points).unjoined()
    };
    let series: Vec<Series> = FAMILIES.iter().enumerate().map(of_family).collect();
    let slope = |x: f64, bytes: f64| x * bytes / 1e9;
    let ends = placed.iter().map(|point| point.intensity());
    let (low, high) = ends.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let mut guides = Vec::new();
    let mut roof = |name: String, bytes: f64, peak: f64| {
        let ridge = peak / bytes;
        // The axis begins and ends at measured values.
        guides.push(Guide::RoofCurve(
            name,
            vec![(low, slope(low, bytes)), (ridge, peak / 1e9), (high.max(ridge), peak / 1e9)],
        ));
    };
    // A roof without points below it is omitted.
    if placed.iter().any(|point| point.is_tensor) {
        let name = format!("tensor cores, {} TFLOP/s", number(roofs.tensor_flops / 1e12));
        roof(name, roofs.bytes_per_second, roofs.tensor_flops);
    }
    roof(format!("FP32, {} TFLOP/s", number(roofs.flops / 1e12)), roofs.bytes_per_second, roofs.flops);
    let one_load = format!("one load of 4 bytes per thread, {} ns", number(roofs.latency));
    roof(one_load, roofs.one_load, roofs.flops);
    let notes = NAMED.iter().filter_map(|name| {
        let point = placed.iter().find(|point| point.name == *name)?;
        Some(Note { at: (point.intensity(), speed(point)), words: (*name).to_owned() })
    });
    let is_left = |point: &&&Point| point.intensity() < roofs.peak(point) / roofs.bytes_per_second;
    let bound = placed.iter().filter(is_left).count();
    let title = format!(
        "{bound} of {} timed kernels lie left of their ridge, where memory is the roof",
        placed.len()
    );
    let subtitle = format!(
        "{}: {} GB/s; {} more kernels have no floating-point operations, or hardly any bytes",
        roofs.machine,
        number(roofs.bytes_per_second / 1e9),
        timed.len() - placed.len()
    );
    let x = Axis::new("FLOP per byte of memory traffic").scale(Scale::Log);
    let mut lines = Lines::new(x, Axis::new("GFLOP/s").scale(Scale::Log), series);
    lines.guides = guides;
    lines.notes = notes.collect();
    lines.size = (1040, 600);
    Ok(Some(Chart::of(title, subtitle, Panel::Lines(lines)).svg()?))
}
