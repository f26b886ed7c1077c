//! The tables of the roofline's page.

use super::{FAMILIES, Point, Roofs};
use crate::chart::number;
use crate::gallery::tables::header;
use crate::report::peaks::{self, Peaks};
use crate::report::row;

/// One row per family.
pub fn summary(points: &[Point], roofs: &Roofs) -> String {
    let cells = [
        "family",
        "kernels",
        "FLOP per byte, least",
        "median",
        "most",
        "left of the ridge",
        "timed",
        "best share",
    ];
    let mut text = header(&cells, 1);
    for (index, (name, _)) in FAMILIES.iter().enumerate() {
        let of_family: Vec<&Point> = points.iter().filter(|point| point.family == index).collect();
        let mut places: Vec<f64> = of_family.iter().map(|point| point.intensity()).collect();
        places.sort_by(f64::total_cmp);
        let (Some(least), Some(most)) = (places.first(), places.last()) else { continue };
        let is_left = |point: &&&Point| point.intensity() < roofs.peak(point) / roofs.bytes_per_second;
        let shares: Vec<f64> = of_family.iter().filter_map(|point| roofs.share(point)).collect();
        text += &row(&[
            (*name).to_owned(),
            of_family.len().to_string(),
            number(*least),
            number(places[places.len() / 2]),
            number(*most),
            of_family.iter().filter(is_left).count().to_string(),
            shares.len().to_string(),
            percent(shares.into_iter().reduce(f64::max)),
        ]);
    }
    text
}

/// The kernels closest to their roof, and their limiting resource.
pub fn nearest(points: &[Point], roofs: &Roofs) -> String {
    let mut timed: Vec<(&Point, f64)> =
        points.iter().filter_map(|point| Some((point, roofs.share(point)?))).collect();
    timed.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut text = header(&["closest to its roof", "time", "bound by", "share"], 1);
    for (point, share) in timed.into_iter().take(12) {
        let is_memory = point.intensity() < roofs.peak(point) / roofs.bytes_per_second;
        text += &row(&[
            format!("`{}`", point.name),
            format!("{:.1} us", point.seconds.unwrap_or_default() * 1e6),
            if is_memory { "memory" } else { "arithmetic" }.to_owned(),
            percent(Some(share)),
        ]);
    }
    text
}

/// The datasheets: how many operations a GPU has for each byte of its memory and of its link to other GPUs.
pub fn ridges() -> String {
    let cells = [
        "GPU",
        "FP32, TFLOP/s",
        "tensor cores, 16 bits, TFLOP/s",
        "memory, GB/s",
        "NVLink, GB/s",
        "FLOP per byte of memory: FP32",
        "tensor cores",
        "FLOP per byte of NVLink: tensor cores",
    ];
    let mut text = header(&cells, 1);
    for (name, Peaks { gigabytes_per_second, fp32_tflops, tensor_tflops, link, .. }) in peaks::generations() {
        let per_byte = |tflops: f64, rate: f64| number(1e3 * tflops / rate);
        text += &row(&[
            name.to_owned(),
            number(fp32_tflops),
            number(tensor_tflops),
            number(gigabytes_per_second),
            number(link),
            per_byte(fp32_tflops, gigabytes_per_second),
            per_byte(tensor_tflops, gigabytes_per_second),
            per_byte(tensor_tflops, link),
        ]);
    }
    text
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(String::new, |share| format!("{:.0} %", 100.0 * share))
}
