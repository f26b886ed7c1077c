//! Draws overlapping activities as an SVG.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ReportError;
use crate::chart::{Axis, Chart, Panel, Scale, Span, Spans};
use crate::output_file;

/// A row of a timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// The activity.
    pub name: String,
    /// Its time spans, in any order.
    pub spans: Vec<Range<Duration>>,
}

/// The same as numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LaneTimes {
    /// The activity.
    pub name: String,
    /// Microseconds since just before the first step, separated by spaces.
    pub starts: String,
    /// The ends of the same spans.
    pub ends: String,
}

impl LaneTimes {
    fn new(lane: &Lane) -> Self {
        let list = |of: fn(&Range<Duration>) -> Duration| {
            let numbers: Vec<String> =
                lane.spans.iter().map(|span| of(span).as_micros().to_string()).collect();
            numbers.join(" ")
        };
        Self { name: lane.name.clone(), starts: list(|span| span.start), ends: list(|span| span.end) }
    }

    /// Start and end of each span in microseconds.
    pub fn spans(&self) -> impl Iterator<Item = (f64, f64)> {
        let numbers = |text: &str| -> Vec<f64> {
            text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
        };
        numbers(&self.starts).into_iter().zip(numbers(&self.ends))
    }
}

/// The comment of a drawing that holds its title and lanes.
const NUMBERS: [&str; 2] = ["<!-- timeline ", " -->\n"];

/// Returns the title and the lanes of a drawing by [`render_timeline`], without those in which nothing happens.
pub fn read_timeline(svg: &str) -> Option<(String, Vec<LaneTimes>)> {
    serde_json::from_str(svg.split_once(NUMBERS[0])?.1.split_once(NUMBERS[1])?.0).ok()
}

/// Draws the lanes and writes them to `path`.
///
/// # Errors
/// Same as for [`render_timeline`], and [`ReportError::Write`].
pub fn save_timeline(path: &Path, title: &str, lanes: &[Lane]) -> Result<(), ReportError> {
    let svg = render_timeline(title, lanes)?;
    output_file::write(path, svg.as_bytes()).map_err(|source| ReportError::Write {
        what: "the timeline",
        path: path.to_owned(),
        source,
    })
}

/// Draws the lanes that have spans, the first on top, over a time axis from 0 to a round number of milliseconds after the
/// last span, so that timelines of similar length have the same axis.
///
/// # Errors
/// [`ReportError::NoSpans`] if no lane has a span; [`ReportError::Draw`].
pub fn render_timeline(title: &str, lanes: &[Lane]) -> Result<String, ReportError> {
    let end = lanes.iter().flat_map(|lane| &lane.spans).map(|span| span.end).max();
    let end = end.ok_or(ReportError::NoSpans)?;
    let shown = lanes.iter().enumerate().filter(|(_, lane)| !lane.spans.is_empty());
    let row = |(group, lane): (usize, &Lane)| {
        let span = |span: &Range<Duration>| Span {
            from: milliseconds(span.start),
            to: milliseconds(span.end),
            group,
        };
        (lane.name.clone(), lane.spans.iter().map(span).collect())
    };
    let panel = Panel::Spans(Spans {
        caption: String::new(),
        axis: Axis::new("milliseconds").scale(Scale::Linear),
        until: Some(round_up(milliseconds(end))),
        rows: shown.clone().map(row).collect(),
        // A lane keeps its colour in timelines that lack another lane. Its name is next to it.
        groups: vec![String::new(); lanes.len()],
        width: 1200,
    });
    let svg = Chart::of(title, "", panel).svg()?;
    let times: Vec<LaneTimes> = shown.map(|(_, lane)| LaneTimes::new(lane)).collect();
    let numbers = serde_json::to_string(&(title, times)).map_err(|error| ReportError::draw(title, &error))?;
    // A comment must not contain two hyphens.
    let numbers = numbers.replace("--", "-\\u002d");
    Ok(svg + NUMBERS[0] + &numbers + NUMBERS[1])
}

fn milliseconds(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}

/// Rounds up to 1, 2, 3, 5 or 7 times a power of ten.
fn round_up(x: f64) -> f64 {
    let power = 10_f64.powf(x.max(1e-6).log10().floor());
    let factors = [1.0, 2.0, 3.0, 5.0, 7.0];
    factors.into_iter().map(|factor| factor * power).find(|round| *round >= x).unwrap_or(10.0 * power)
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::str::FromStr;

    use super::*;

    fn lane(name: &str, spans: &[(u64, u64)]) -> Lane {
        let span = |&(start, end)| Duration::from_millis(start)..Duration::from_millis(end);
        Lane { name: name.to_owned(), spans: spans.iter().map(span).collect() }
    }

    /// Returns the attribute of each span's rectangle, whose colour is not the page's.
    fn of_spans<T: FromStr<Err: Debug>>(svg: &str, attribute: &str) -> Vec<T> {
        let rectangles = svg.lines().filter(|line| line.starts_with("<rect") && !line.contains("#FFFFFF"));
        let value = |line: &str| {
            let after = line.split(&format!(" {attribute}=\"")).nth(1).unwrap();
            after.split('"').next().unwrap().parse().unwrap()
        };
        rectangles.map(value).collect()
    }

    #[test]
    fn what_takes_no_time_to_speak_of_can_be_seen() {
        let svg = render_timeline("t", &[lane("a", &[(0, 1), (50_000, 50_001), (99_999, 100_000)])]).unwrap();
        let (starts, widths) = (of_spans::<f64>(&svg, "x"), of_spans::<u32>(&svg, "width"));
        assert_eq!(widths, [1; 3]);
        assert!(starts.windows(2).all(|pair| pair[0] + 400.0 < pair[1]), "{starts:?}");
    }

    #[test]
    fn spans_stand_where_and_as_long_as_they_were() {
        let svg = render_timeline("steps", &[lane("load", &[(0, 10), (30, 40)]), lane("host", &[(20, 40)])]);
        let svg = svg.unwrap();
        for needle in ["steps", "load", "host", "milliseconds"] {
            assert!(svg.contains(needle), "{needle}");
        }
        let [x, width, y] = ["x", "width", "y"].map(|name| of_spans::<f64>(&svg, name));
        assert_eq!(x.len(), 3);
        // Half as long, three times as far, and one lane lower, within a pixel.
        assert!((width[2] - 2.0 * width[0]).abs() <= 2.0 && (width[0] - width[1]).abs() <= 1.0, "{width:?}");
        assert!((x[1] - x[0] - 3.0 * width[0]).abs() <= 3.0 && x[0] < x[2] && x[2] < x[1], "{x:?}");
        assert!(y[0] == y[1] && y[0] < y[2], "{y:?}");
    }

    #[test]
    fn timelines_of_about_the_same_length_have_the_same_axis() {
        assert_eq!([24.8, 25.4, 26.9].map(round_up), [30.0; 3]);
        assert_eq!([1.0, 1.38, 1.57, 4.83, 80.0].map(round_up), [1.0, 2.0, 2.0, 5.0, 100.0]);
    }

    #[test]
    fn a_lane_in_which_nothing_happens_is_left_out() {
        let svg = render_timeline("steps", &[lane("load", &[(0, 10)]), lane("copy", &[])]).unwrap();
        assert!(svg.contains("load") && !svg.contains("copy"), "{svg}");
    }

    #[test]
    fn a_lane_keeps_its_colour_where_another_is_left_out() {
        let colour = |loads: &[(u64, u64)]| {
            let svg = render_timeline("steps", &[lane("load", loads), lane("copy", &[(0, 10)])]).unwrap();
            of_spans::<String>(&svg, "fill").pop().unwrap()
        };
        assert_eq!(colour(&[(0, 10)]), colour(&[]));
    }

    #[test]
    fn a_drawing_holds_its_numbers() {
        let lanes = [lane("load", &[(0, 10), (30, 40)]), lane("copy", &[]), lane("host", &[(20, 40)])];
        let (title, read) = read_timeline(&render_timeline("a--b", &lanes).unwrap()).unwrap();
        assert_eq!(title, "a--b");
        assert_eq!(read.iter().map(|lane| lane.name.as_str()).collect::<Vec<_>>(), ["load", "host"]);
        assert_eq!(read[0].spans().collect::<Vec<_>>(), [(0.0, 10e3), (30e3, 40e3)]);
        assert_eq!(read_timeline("<svg></svg>"), None);
    }

    #[test]
    fn nothing_is_no_timeline() {
        let refused = render_timeline("steps", &[lane("load", &[])]).unwrap_err().to_string();
        assert_eq!(refused, "there is no step to draw; train at least one");
    }
}
