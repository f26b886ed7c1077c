//! Axes: their scale, their ticks, and the words at these.

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, ValueFormatter};
use plotters::prelude::Ranged;

use super::canvas::{TEXT, width_of};

/// An axis.
#[derive(Clone)]
pub struct Axis {
    /// Quantity and unit: "useful GB/s", "columns".
    pub label: String,
    /// How values are distributed along it.
    pub scale: Scale,
    /// Formats a tick's value.
    pub format: fn(f64) -> String,
    /// Whether a linear axis begins at 0.
    pub is_from_zero: bool,
}

/// The distribution of values along an axis.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Logarithmic if the values are positive and span more than one decade, else linear.
    Auto,
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios.
    Log,
}

impl Axis {
    /// Creates an axis with this label; its scale depends on the values.
    pub fn new(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Auto, format: number, is_from_zero: true }
    }

    /// With this scale.
    pub fn scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }

    /// With this format of its ticks.
    pub fn format(self, format: fn(f64) -> String) -> Self {
        Self { format, ..self }
    }
}

/// A number with three digits, or all digits of an integer, with separated thousands.
pub fn number(x: f64) -> String {
    let magnitude = x.abs();
    if magnitude >= 99.95 || (x.fract() == 0.0 && magnitude < 1e15) {
        return separated(x.round());
    }
    match magnitude {
        m if m >= 9.995 => format!("{x:.1}"),
        m if m >= 0.0995 => format!("{x:.2}"),
        m if m >= 0.00995 => format!("{x:.3}"),
        _ => format!("{x:.1e}"),
    }
}

fn separated(x: f64) -> String {
    let digits = format!("{:.0}", x.abs());
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) && digits.len() > 4 {
            text.push(',');
        }
        text.push(digit);
    }
    if x < 0.0 { format!("-{text}") } else { text }
}

/// A number in Ki, Mi or Gi if that is exact, else the same as [`number`].
pub fn binary(x: f64) -> String {
    for (power, prefix) in [(30, "Gi"), (20, "Mi"), (10, "Ki")] {
        let unit = f64::from(1_u32 << power);
        if x >= unit && (x / unit).fract() == 0.0 {
            return format!("{} {prefix}", separated(x / unit));
        }
    }
    number(x)
}

/// The coordinate of an axis with known values, linear or logarithmic.
pub(super) struct Ruler {
    is_log: bool,
    low: f64,
    high: f64,
    pub ticks: Vec<f64>,
}

impl Ruler {
    /// Creates an axis over `values`; `room` is the share left free on both sides. A linear axis of values begins at 0 if
    /// `from_zero`. It has at most `most` ticks, at round values.
    pub fn new(
        scale: Scale,
        values: &[f64],
        room: f64,
        from_zero: bool,
        most: usize,
    ) -> Result<Self, String> {
        if let Some(bad) = values.iter().find(|value| !value.is_finite()) {
            return Err(format!("{bad} is not a value that an axis has"));
        }
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return Err("it has no values; measure first".to_owned());
        }
        let is_log = match scale {
            Scale::Log if low <= 0.0 => return Err(format!("a logarithmic axis cannot show {low}")),
            Scale::Log => true,
            Scale::Linear => false,
            Scale::Auto => low > 0.0 && high > 10.0 * low,
        };
        let (mut low, mut high) = if is_log { (low.log10(), high.log10()) } else { (low, high) };
        let free = if high > low { (high - low) * room } else { 0.5 };
        if from_zero && !is_log && low >= 0.0 {
            (low, high) = (0.0, high + high * room);
        } else {
            (low, high) = (low - free, high + free);
        }
        if high <= low {
            high = low + 1.0;
        }
        let mut ruler = Self { is_log, low, high, ticks: Vec::new() };
        ruler.ticks = if is_log { ruler.log_ticks(most.max(2)) } else { ruler.round_ticks(most.max(2)) };
        Ok(ruler)
    }

    /// The axis of `count` rows from the top, with a tick in the middle of each.
    pub fn rows(count: usize) -> Self {
        let ticks = (0..count).map(|row| row as f64 + 0.5).collect();
        Self { is_log: false, low: count as f64, high: 0.0, ticks }
    }

    fn share(&self, value: f64) -> f64 {
        let value = if self.is_log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        (value - self.low) / (self.high - self.low)
    }

    /// Whether the value lies within the axis.
    pub fn has(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.share(value))
    }

    fn round_ticks(&self, most: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / most as f64;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
        let step = step.into_iter().find(|step| *step >= rough * 0.999).unwrap_or(10.0 * power);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|n| n as f64 * step).collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let (first, last) = (self.low.floor() as i32, self.high.ceil() as i32);
        let of = |factors: &[f64], every: i32| -> Vec<f64> {
            let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
            let ticks = powers.flat_map(|power| factors.iter().map(move |f| f * 10_f64.powi(power)));
            ticks.filter(|tick| self.has(*tick)).collect()
        };
        let candidates =
            [of(&[1.0, 2.0, 5.0], 1), of(&[1.0, 3.0], 1), of(&[1.0], 1), of(&[1.0], 2), of(&[1.0], 3)];
        let fitting = candidates.into_iter().find(|ticks| ticks.len() <= most);
        fitting.unwrap_or_default()
    }

    /// The measured values whose words do not overlap on `pixels`: both ends, then those that fit from the left.
    pub fn labelled(&self, values: &[f64], format: fn(f64) -> String, pixels: i32) -> Vec<f64> {
        let mut values = values.to_vec();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let extent = |value: f64| {
            let half = width_of(&format(value), TEXT) / 2 + 4;
            let at = self.map(&value, (0, pixels));
            at - half..at + half
        };
        let mut taken: Vec<(f64, Range<i32>)> = Vec::new();
        let ends = values.first().into_iter().chain(values.last());
        for &value in ends.chain(&values) {
            let here = extent(value);
            if taken.iter().all(|(_, other)| here.end <= other.start || other.end <= here.start) {
                taken.push((value, here));
            }
        }
        taken.sort_by(|a, b| a.0.total_cmp(&b.0));
        taken.into_iter().map(|(value, _)| value).collect()
    }
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        from + (self.share(*value).clamp(0.0, 1.0) * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.ticks.clone()
    }

    fn range(&self) -> Range<f64> {
        if self.is_log { 10_f64.powf(self.low)..10_f64.powf(self.high) } else { self.low..self.high }
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format(value: &f64) -> String {
        number(*value)
    }
}
