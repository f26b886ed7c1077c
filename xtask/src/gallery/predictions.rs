//! The predictions for the gallery's rungs next to the measurements: the table of each page.

use ferrowarp_report::gallery::Entry;

use super::page::{Kind, Lesson, Measure, Prediction, is_of_gpu};
use super::tables::{header, short_time};
use crate::chart::{binary, number};
use crate::report::row;

/// The relative difference up to which a measurement counts as predicted.
const CLOSE: f64 = 0.1;

/// A prediction with its measurement.
struct Outcome {
    predicted: Option<f64>,
    measured: Option<f64>,
    write: fn(&Lesson, f64) -> String,
    /// Whether a larger value takes less time.
    is_rate: bool,
}

impl Prediction {
    /// The entry that the prediction is about.
    pub fn entry<'a>(&self, lesson: &'a Lesson) -> Option<&'a Entry> {
        lesson.find(&self.rung, self.at)
    }

    /// The entry that it is compared with: at the same place, if that rung has been there.
    pub fn other<'a>(&self, lesson: &'a Lesson) -> Option<&'a Entry> {
        let over = self.over.as_ref()?;
        let (rung, at) = over.split_once('@').map_or((&**over, None), |(rung, at)| (rung, at.parse().ok()));
        let same = at.or_else(|| Some(self.entry(lesson)?.at));
        let same = same.filter(|_| self.speed.is_none());
        same.and_then(|at| lesson.find(rung, Some(at))).or_else(|| lesson.find(rung, at))
    }

    fn outcome(&self, lesson: &Lesson) -> Outcome {
        let (entry, other) = (self.entry(lesson), self.other(lesson));
        let of = |formula: &String| {
            // The peak of an entry comes before the machine's.
            let peak = entry.and_then(|entry| peak(lesson, entry));
            let is_known = peak.is_some() || !formula.contains("peak");
            let value = || lesson.formula(formula, &|name| peak.filter(|_| name == "peak")).ok();
            is_known.then(value).flatten()
        };
        let over =
            |value: fn(&Lesson, &Entry) -> Option<f64>| Some(value(lesson, entry?)? / value(lesson, other?)?);
        let micros = |_: &Lesson, entry: &Entry| entry.microseconds;
        let (predicted, measured, write, is_rate): (_, _, fn(&Lesson, f64) -> String, _) =
            match (&self.ratio, &self.speed, &self.rate, &self.latency) {
                (Some(ratio), ..) => (of(ratio), over(micros), |_, x| factor(x), false),
                (_, Some(speed), ..) => (of(speed), over(Lesson::value), |_, x| factor(x), true),
                (_, _, Some(rate), _) => {
                    let rate_of = |entry: &Entry| {
                        let work =
                            if lesson.page.measure == Measure::Flops { entry.flop } else { entry.bytes };
                        Some(work / entry.microseconds? / 1e3)
                    };
                    let unit = |lesson: &Lesson, x| {
                        let unit = if lesson.page.measure == Measure::Flops { "GFLOP/s" } else { "GB/s" };
                        format!("{} {unit}", number(x))
                    };
                    (of(rate), entry.and_then(rate_of), unit, true)
                }
                (.., Some(latency)) => {
                    let nanoseconds = entry.and_then(|entry| lesson.value(entry));
                    (of(latency), nanoseconds, |_, x| format!("{} ns", number(x)), false)
                }
                _ => {
                    let measured = entry.and_then(|entry| entry.microseconds);
                    (self.time.as_ref().and_then(of), measured, |_, x| short_time(x), false)
                }
            };
        Outcome { predicted, measured, write, is_rate }
    }

    /// The predicted time of the measured rung in microseconds, if everything that it depends on is known.
    pub fn microseconds(&self, lesson: &Lesson) -> Option<f64> {
        let Outcome { predicted, measured, is_rate, .. } = self.outcome(lesson);
        let ratio = predicted? / measured?;
        Some(self.entry(lesson)?.microseconds? * if is_rate { 1.0 / ratio } else { ratio })
    }

    /// The rung and its predicted quantity, in words.
    fn what(&self, is_one_problem: bool) -> String {
        let at = match self.at {
            Some(at) if !is_one_problem => format!(" at {}", binary(at)),
            _ => String::new(),
        };
        let over = self.over.as_ref().map(|over| match over.split_once('@') {
            Some((rung, at)) if rung == self.rung => {
                format!(", relative to at {}", at.parse().map_or_else(|_| at.to_owned(), binary))
            }
            _ => format!(", relative to `{over}`"),
        });
        let quantity = match self {
            Self { latency: Some(_), .. } => "latency",
            Self { ratio: None, time: None, .. } => "rate",
            _ => "time",
        };
        format!("`{}`{at}: {quantity}{}", self.rung, over.unwrap_or_default())
    }
}

/// A ratio; a small one as a fraction.
fn factor(x: f64) -> String {
    match x {
        x if x < 0.1 => format!("1/{}", number(1.0 / x)),
        x if x < 0.995 => format!("{x:.2} x"),
        x => format!("{} x", number(x)),
    }
}

/// The peak of an entry's device in GFLOP/s.
fn peak(lesson: &Lesson, entry: &Entry) -> Option<f64> {
    let of_gpu = lesson.limits.peaks.filter(|_| is_of_gpu(entry)).map(|peaks| 1e3 * peaks.fp32_tflops);
    entry.peak.map(|peak| peak / 1e9).or(of_gpu)
}

/// The table of a lesson, with a line on the number of predictions that hold; empty for a lesson without any.
pub fn section(lesson: &Lesson) -> String {
    let predictions = &lesson.page.predictions;
    if predictions.is_empty() {
        return String::new();
    }
    let is_one_problem = lesson.entries.iter().all(|entry| entry.at == lesson.entries[0].at);
    let mut rows =
        header(&["rung and quantity", "predicted", "from", "measured", "difference", "elsewhere", "why"], 7);
    let (mut measured, mut close) = (0, 0);
    for prediction in predictions {
        let Outcome { predicted, measured: got, write, .. } = prediction.outcome(lesson);
        let ratio = predicted.zip(got).map(|(predicted, measured)| measured / predicted);
        let counted = ratio.filter(|_| prediction.kind == Kind::Prediction);
        measured += usize::from(counted.is_some());
        close += usize::from(counted.is_some_and(|ratio| (ratio - 1.0).abs() <= CLOSE));
        let written =
            |value: Option<f64>, or: &str| value.map_or_else(|| or.to_owned(), |value| write(lesson, value));
        rows += &row(&[
            prediction.what(is_one_problem),
            written(predicted, "the peak is not known"),
            match prediction.kind {
                Kind::Prediction => prediction.from.clone(),
                Kind::Bound => format!("a bound: {}", prediction.from),
                Kind::Reference => format!("a reference: {}", prediction.from),
            },
            written(got, "not measured yet"),
            ratio.map_or_else(String::new, difference),
            prediction.elsewhere.clone(),
            // No cause of what is not known yet.
            if got.is_some() { prediction.why.clone() } else { String::new() },
        ]);
    }
    let held = match measured {
        0 => "No prediction is measured yet.".to_owned(),
        _ => format!("{close} of {measured} measured predictions hold within 10 %."),
    };
    format!("{held}\n\n{rows}")
}

/// A ratio in words.
fn difference(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 2.0 => format!("{} times", number(ratio)),
        ratio if ratio <= 0.5 => format!("1/{} of it", number(1.0 / ratio)),
        // Without the sign of a difference that rounds to 0.
        ratio => format!("{:+.0} %", (100.0 * (ratio - 1.0)).round() + 0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery::tests::lesson;

    #[test]
    fn a_prediction_stands_next_to_its_measurement() {
        let mut lesson = lesson(&[("a", 1.0, Some(10.0)), ("b", 1.0, Some(5.0))]);
        lesson.page.predictions = toml::from_str::<super::super::page::Page>(
            "axis = 'bytes'\n\
             [[prediction]]\nrung = 'a'\nover = 'b'\nratio = '3 - 1'\nfrom = '8 bytes for 4'\nelsewhere = '3 x (a text)'\nwhy = 'Memory.'\n\
             [[prediction]]\nrung = 'b'\nrate = 'copy'\nfrom = ''\nwhy = ''\n\
             [[prediction]]\nrung = 'b'\nover = 'a'\nspeed = '4'\nfrom = ''\nwhy = ''\n\
             [[prediction]]\nrung = 'b'\nkind = 'bound'\nrate = '2 * copy'\nfrom = 'memory'\n\
             [[prediction]]\nrung = 'b'\nlatency = '20'\nfrom = ''\nwhy = 'A cache.'\n\
             [[prediction]]\nrung = 'b'\ntime = '9 / clock'\nfrom = ''\nwhy = ''\n",
        )
        .unwrap()
        .predictions;
        let text = section(&lesson);
        assert!(text.starts_with("1 of 4 measured predictions hold within 10 %.\n"), "{text}");
        let rows = [
            "| `a`: time, relative to `b` | 2 x | 8 bytes for 4 | 2 x | +0 % | 3 x (a text) | Memory. |",
            "| `b`: rate | 100 GB/s |  | 200 GB/s | 2 times |  |  |",
            "| `b`: rate, relative to `a` | 4 x |  | 2 x | 1/2 of it |  |  |",
            "| `b`: rate | 200 GB/s | a bound: memory | 200 GB/s | +0 % |  |  |",
            "| `b`: latency | 20 ns |  | 200 ns | 10 times |  | A cache. |",
            "| `b`: time | the peak is not known |  | 5 us |  |  |  |",
        ];
        assert!(rows.iter().all(|row| text.contains(row)), "{text}");
        let times = lesson.page.predictions.iter().map(|one| one.microseconds(&lesson));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [Some(10.0), Some(10.0), Some(2.5), Some(5.0), Some(0.5), None]
        );
        lesson.entries.iter_mut().for_each(|entry| entry.microseconds = None);
        let text = section(&lesson);
        assert!(text.contains("No prediction is measured yet."), "{text}");
        assert!(text.contains("| `b`: rate | 100 GB/s |  | not measured yet |  |  |  |"), "{text}");
        assert!(!text.contains("Memory.") && !text.contains("A cache."), "{text}");
    }
}
