//! The pictures of the gallery's pages: lines over problems, and bars for rungs with one problem.

use crate::chart::{Axis, Bar, Bars, Chart, Family, Guide, Lines, Panel, Scale, Series, binary, number};
use crate::gallery::entry::{Entry, find};
use crate::gallery::report::Lesson;
use crate::gallery::report::tables::short_time;
use crate::gallery::timeline;
use crate::gallery::titles::title;

/// Bytes per cycle of shared memory on a multiprocessor of compute capability 9.0, and an H200's multiprocessors.
const SHARED: (f64, f64) = (128.0, 132.0);

/// The quantity of bars.
#[derive(Clone, Copy, PartialEq)]
enum Value {
    /// The lesson's measure.
    Measure,
    /// Microseconds.
    Time,
}

/// The picture of a lesson; `None` if none of it was measured.
///
/// # Errors
/// Drawing failed.
pub fn draw(lesson: &Lesson<'_>) -> anyhow::Result<Option<String>> {
    if lesson.entries.iter().all(|entry| entry.microseconds.is_none()) {
        return Ok(None);
    }
    let panels = match timeline::panels(&lesson.entries)? {
        panels if panels.is_empty() => self::panels(lesson),
        panels => panels,
    };
    if panels.is_empty() {
        return Ok(None);
    }
    let columns = if lesson.name == "copy_offset" { 2 } else { 1 };
    let chart = Chart { title: title(lesson), subtitle: lesson.whence.clone(), columns, panels };
    chart.svg().map(Some)
}

fn panels(lesson: &Lesson<'_>) -> Vec<Panel> {
    let all = |_: &Entry| true;
    match lesson.name {
        "fusion" => {
            let of =
                |what: &'static str| bars(lesson, what, Value::Time, move |entry| entry.name.contains(what));
            with_one_scale(vec![of("sin_cos"), of("gelu")])
        }
        "layout" | "recompute" | "relu" => vec![bars(lesson, "", Value::Time, all)],
        "csv" => {
            let parses = |entry: &Entry| !matches!(entry.name.as_str(), "read" | "floats");
            vec![
                bars(lesson, "parsing", Value::Measure, parses),
                bars(lesson, "before and after", Value::Measure, move |entry| !parses(entry)),
            ]
        }
        "grey" => {
            let mut sizes: Vec<f64> = lesson.entries.iter().map(|entry| entry.at).collect();
            sizes.dedup();
            sizes.sort_by(f64::total_cmp);
            sizes.dedup();
            let of = |at: f64| {
                let caption = format!("{} pixels", binary(at));
                bars(lesson, &caption, Value::Measure, move |entry| entry.at == at)
            };
            with_one_scale(sizes.into_iter().map(of).collect())
        }
        "launch_bounds" | "warps" => vec![bars(lesson, "", Value::Time, is_largest(lesson))],
        "peaks" | "matmul" => vec![bars(lesson, "", Value::Measure, is_largest_or_4096(lesson))],
        "unified" => {
            let of = |caption: &str, words: &'static str| {
                bars(lesson, caption, Value::Time, move |entry| entry.problem.ends_with(words))
            };
            vec![
                of("the kernel that adds", "that adds"),
                of("the kernel that fills", "that fills"),
                of("fill, add, and the host's sum", "sum of y"),
            ]
        }
        "overlap" => vec![bars(lesson, "", Value::Measure, all)],
        "bank_conflicts" => {
            const SHOWN: [f64; 9] = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 17.0, 31.0, 32.0];
            let of = |rung: &'static str| {
                bars(lesson, rung, Value::Measure, move |entry| {
                    entry.name == rung && SHOWN.contains(&entry.at)
                })
            };
            with_one_scale(vec![of("plain"), of("padded"), of("swizzled")])
        }
        "copy_offset" => {
            let mut offset = lines(lesson, |entry| entry.name != "stride");
            let mut stride = lines(lesson, |entry| entry.name == "stride");
            for (panel, label) in [
                (&mut offset, "offset, in elements of 4 bytes"),
                (&mut stride, "stride, in elements of 4 bytes"),
            ] {
                panel.x.label = label.to_owned();
                panel.size = (620, 420);
            }
            if let Some(first) = find(&lesson.entries, "stride", Some(1.0)).and_then(Entry::value) {
                let at = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 64.0];
                let points = at.map(|at: f64| (at, first / at.min(8.0))).to_vec();
                stride.guides.push(Guide::Predicted("predicted by sectors".to_owned(), points));
            }
            vec![Panel::Lines(offset), Panel::Lines(stride)]
        }
        _ => vec![Panel::Lines(lines(lesson, all))],
    }
}

/// Gives the bars of all panels the scale of the first.
fn with_one_scale(mut panels: Vec<Panel>) -> Vec<Panel> {
    let bars =
        panels.iter().filter_map(|panel| if let Panel::Bars(bars) = panel { Some(bars) } else { None });
    let values = |bars: &Bars| {
        let all = bars.bars.iter().flat_map(|bar| [Some(bar.value), bar.predicted]).flatten();
        all.collect::<Vec<f64>>()
    };
    let all: Vec<f64> = bars.flat_map(values).collect();
    for panel in &mut panels {
        if let Panel::Bars(bars) = panel {
            bars.also.clone_from(&all);
        }
    }
    panels
}

/// Whether an entry is for its rung's largest problem.
fn is_largest<'a>(lesson: &'a Lesson<'_>) -> impl Fn(&Entry) -> bool + 'a {
    |entry| find(&lesson.entries, &entry.name, None).is_some_and(|largest| largest.at == entry.at)
}

/// The same, and for matrix multiplication also the size 4096 if measured, since all rungs have it.
fn is_largest_or_4096<'a>(lesson: &'a Lesson<'_>) -> impl Fn(&Entry) -> bool + 'a {
    let is_largest = is_largest(lesson);
    let has_4096 = lesson.name == "matmul" && lesson.entries.iter().any(|entry| entry.at == 4096.0);
    move |entry| if has_4096 { entry.at == 4096.0 } else { is_largest(entry) }
}

/// The family of a contestant.
fn family(entry: &Entry) -> Family {
    match entry.is_peer() {
        true => Family::Peers,
        false if entry.is_of_gpu() => Family::Ours,
        false => Family::Other,
    }
}

/// The axis label of the value.
fn label(entry: &Entry, value: Value) -> String {
    match (value, entry.measure.as_str()) {
        (Value::Measure, "bytes") if entry.lesson == "warp_masks" => {
            "GB/s of the sectors read and written".to_owned()
        }
        (Value::Measure, "bytes") if entry.lesson == "bank_conflicts" => "GB/s from shared memory".to_owned(),
        (Value::Measure, "bytes") if entry.lesson == "csv" => "GB/s of the text".to_owned(),
        (Value::Measure, "bytes") if entry.lesson == "transfers" => "GB/s of the copy".to_owned(),
        (Value::Measure, "bytes") if entry.lesson == "overlap" => "GB/s, up and down together".to_owned(),
        (Value::Measure, "bytes") => "useful GB/s".to_owned(),
        (Value::Measure, "flops") => "GFLOP/s".to_owned(),
        (_, "time") => "microseconds per launch".to_owned(),
        _ => "microseconds".to_owned(),
    }
}

/// Bars of the entries for which `shown` holds, with their predictions.
fn bars(lesson: &Lesson<'_>, caption: &str, value: Value, shown: impl Fn(&Entry) -> bool) -> Panel {
    let shown: Vec<&Entry> = lesson.entries.iter().copied().filter(|entry| shown(entry)).collect();
    let has_one = |entry: &Entry| shown.iter().filter(|other| other.name == entry.name).count() == 1;
    let bar = |entry: &&Entry| {
        let time = entry.microseconds?;
        let of = |time: f64| if value == Value::Time { Some(time) } else { entry.value_of(time) };
        let name = match (has_one(entry), entry.lesson.as_str()) {
            (true, _) => entry.name.clone(),
            (false, "bank_conflicts") => format!("stride {}", entry.at),
            (false, "overlap") => format!("{}, streams: {}", entry.name, entry.at),
            (false, _) => format!("{} at {}", entry.name, binary(entry.at)),
        };
        let reached = of(time)?;
        let words = match (value, entry.measure.as_str()) {
            (Value::Time, _) | (_, "time") => short_time(time),
            _ => format!("{} {}", number(reached), entry.unit()),
        };
        let predicted = predicted_time(lesson, entry).and_then(of);
        Some(Bar { name, family: family(entry), value: reached, words, predicted })
    };
    let all: Vec<Bar> = shown.iter().filter_map(bar).collect();
    let axis = Axis::new(shown.first().map_or_else(String::new, |entry| label(entry, value)));
    let mut panel = Bars::new(axis, all);
    panel.caption = caption.to_owned();
    if value == Value::Measure {
        panel.roofs = roofs(lesson);
    }
    Panel::Bars(panel)
}

/// The predicted time of an entry in microseconds.
fn predicted_time(lesson: &Lesson<'_>, entry: &Entry) -> Option<f64> {
    if lesson.name == "bank_conflicts" {
        // A request for 128 bytes takes a cycle, and one more for each conflict.
        let cycles = entry.bytes / SHARED.0 + entry.bank_conflicts?;
        return Some(cycles / SHARED.1 / lesson.limits.peaks?.boost_mhz);
    }
    let is_of = |prediction: &&&crate::gallery::predictions::Prediction| {
        let at = find(&lesson.entries, &prediction.rung, prediction.at).map(|entry| entry.at);
        prediction.rung == entry.name && at == Some(entry.at)
    };
    let predictions = lesson.predictions.iter().filter(is_of);
    predictions.filter_map(|prediction| prediction.microseconds(&lesson.entries, lesson.limits)).next_back()
}

/// The limits of a lesson's rates, in its unit.
fn roofs(lesson: &Lesson<'_>) -> Vec<(String, f64)> {
    let Some(peaks) = lesson.limits.peaks else { return Vec::new() };
    let copy = lesson.limits.copy.map(|copy| ("best copy".to_owned(), copy));
    let memory = ("memory".to_owned(), peaks.gigabytes_per_second);
    match lesson.name {
        "vector_add" | "copy_offset" | "grey" | "dot" | "reduce" | "transpose" | "register_arrays"
        | "occupancy" | "warp_masks" => copy.into_iter().chain([memory]).collect(),
        "peaks" | "matmul" => vec![("FP32 peak".to_owned(), 1e3 * peaks.fp32_tflops)],
        "bank_conflicts" => {
            let rate = SHARED.0 * SHARED.1 * peaks.boost_mhz / 1e3;
            vec![("128 bytes per cycle".to_owned(), rate)]
        }
        _ => Vec::new(),
    }
}

/// Lines of the entries for which `shown` holds, over the lesson's axis.
fn lines(lesson: &Lesson<'_>, shown: impl Fn(&Entry) -> bool) -> Lines {
    let shown: Vec<&Entry> = lesson.entries.iter().copied().filter(|entry| shown(entry)).collect();
    let mut series: Vec<Series> = Vec::new();
    let mut guides: Vec<Guide> = Vec::new();
    for entry in shown.iter().filter(|entry| entry.name != "link") {
        let Some(value) = entry.value() else { continue };
        let place = series.iter().position(|series| series.name == entry.name).unwrap_or_else(|| {
            series.push(Series::new(entry.name.clone(), family(entry), Vec::new()));
            series.len() - 1
        });
        series[place].points.push((entry.at, value));
        let predicted = predicted_time(lesson, entry).and_then(|time| entry.value_of(time));
        series[place].predicted.extend(predicted.map(|predicted| (entry.at, predicted)));
    }
    let link = shown.iter().find(|entry| entry.name == "link").and_then(|entry| entry.value());
    guides.extend(link.map(|rate| Guide::Roof("link".to_owned(), rate)));
    guides.extend(roofs(lesson).into_iter().map(|(name, rate)| Guide::Roof(name, rate)));
    guides.extend(predicted_lines(lesson));
    let first = shown.first();
    let is_log = first.is_some_and(|entry| entry.is_log);
    let scale = if is_log { Scale::Auto } else { Scale::Linear };
    let x = Axis::new(first.map_or("", |entry| entry.axis.as_str())).format(binary).scale(scale);
    let y = Axis::new(first.map_or_else(String::new, |entry| label(entry, Value::Measure)));
    let mut lines = Lines::new(x, y, series);
    lines.guides = guides;
    lines
}

/// Predictions for all problems of a rung.
fn predicted_lines(lesson: &Lesson<'_>) -> Vec<Guide> {
    // Scales the value at one problem by the relation to the others.
    let scaled = |name: &str, rung: &str, from: f64, factor: fn(f64) -> f64| {
        let value = find(&lesson.entries, rung, Some(from))?.value()?;
        let of_rung = lesson.entries.iter().filter(|entry| entry.name == rung);
        let points = of_rung.map(|entry| (entry.at, value * factor(entry.at))).collect();
        Some(Guide::Predicted(name.to_owned(), points))
    };
    let guide = match lesson.name {
        "constant" => scaled("a pass per address", "const", 1.0, |addresses| addresses),
        "divergence" => scaled("all branches in turn", "branch_by_lane", 1.0, |branches| branches),
        "occupancy" => scaled("in proportion to warps", "one", 64.0, |warps| warps / 64.0),
        _ => None,
    };
    guide.into_iter().collect()
}
