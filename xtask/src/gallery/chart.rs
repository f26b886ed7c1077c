//! The pictures of the gallery's pages, as their files describe them.

use ferrowarp_report::gallery::Entry;

use super::page::{self, Lesson, Measure, is_of_gpu, is_peer};
use super::tables::short_time;
use super::timeline;
use crate::chart::{
    Axis, Bar, Bars, Chart, Family, Guide, Lines, Panel, Predicted, Scale, Series, binary, number,
};

/// The picture of a lesson with this title; `None` if none of it was measured.
///
/// # Errors
/// Drawing failed.
pub fn draw(lesson: &Lesson, title: &str) -> anyhow::Result<Option<String>> {
    if !lesson.is_measured() {
        return Ok(None);
    }
    let mut panels = timeline::panels(&lesson.entries)?;
    if panels.is_empty() {
        panels = lesson.page.panels.iter().filter_map(|panel| self::panel(lesson, panel)).collect();
    }
    // A laptop's problems are others than those that a panel names.
    if panels.is_empty() {
        panels.extend(panel(lesson, &page::Panel::default()));
    }
    if lesson.page.one_scale {
        share_scale(&mut panels);
    }
    let title = lesson.finding().unwrap_or_else(|_| title.to_owned());
    let columns = lesson.page.columns.unwrap_or(1);
    Ok(Some(Chart { title, subtitle: lesson.whence.clone(), columns, panels }.svg()?))
}

/// The panel; `None` if nothing in it was measured.
fn panel(lesson: &Lesson, panel: &page::Panel) -> Option<Panel> {
    let is_shown = |entry: &&Entry| {
        let largest = lesson.find(&entry.name, None).map(|entry| entry.at);
        (panel.only.is_empty() || panel.only.contains(&entry.name))
            && panel.other_than.as_ref() != Some(&entry.name)
            && entry.name.contains(&panel.has)
            && entry.problem.ends_with(&panel.problem)
            && (panel.at.is_empty() || panel.at.contains(&entry.at))
            && (!panel.largest || largest == Some(entry.at))
            && entry.microseconds.is_some()
    };
    let shown: Vec<&Entry> = lesson.entries.iter().filter(is_shown).collect();
    if shown.is_empty() {
        return None;
    }
    Some(match panel.bars {
        Some(quantity) => Panel::Bars(bars(lesson, panel, quantity, &shown)),
        None => Panel::Lines(lines(lesson, panel, &shown)),
    })
}

/// Gives the bars of all panels one scale.
fn share_scale(panels: &mut [Panel]) {
    let mut all = Vec::new();
    for panel in &*panels {
        if let Panel::Bars(Bars { bars, .. }) = panel {
            all.extend(
                bars.iter().flat_map(|bar| [Some(bar.value), bar.predicted.map(|it| it.value)]).flatten(),
            );
        }
    }
    for panel in panels {
        if let Panel::Bars(bars) = panel {
            bars.also.clone_from(&all);
        }
    }
}

/// The family of a contestant.
fn family(entry: &Entry) -> Family {
    match is_peer(entry) {
        true => Family::Peers,
        false if is_of_gpu(entry) => Family::Ours,
        false => Family::Other,
    }
}

/// The label of the lesson's measure.
fn label(lesson: &Lesson) -> String {
    let usual = match lesson.page.measure {
        Measure::Bytes => "useful GB/s",
        Measure::Flops => "GFLOP/s",
        Measure::Time => "microseconds per launch",
        Measure::Latency => "nanoseconds per load",
    };
    lesson.page.label.clone().unwrap_or_else(|| usual.to_owned())
}

fn bars(lesson: &Lesson, panel: &page::Panel, quantity: page::Bars, shown: &[&Entry]) -> Bars {
    let is_time = quantity == page::Bars::Time;
    let of = |entry: &Entry, time: f64| if is_time { time } else { lesson.value_of(entry, time) };
    let bar = |entry: &&Entry| {
        let time = entry.microseconds?;
        let has_one = shown.iter().filter(|other| other.name == entry.name).count() == 1;
        let name = match &panel.bar {
            _ if has_one => entry.name.clone(),
            Some(name) => name.replace("{rung}", &entry.name).replace("{at}", &entry.at.to_string()),
            None => format!("{} at {}", entry.name, binary(entry.at)),
        };
        let value = of(entry, time);
        let words = match is_time || lesson.page.measure == Measure::Time {
            true => short_time(time),
            false => format!("{} {}", number(value), lesson.unit()),
        };
        let predicted =
            predicted_time(lesson, entry).map(|it| Predicted { value: of(entry, it.value), ..it });
        Some(Bar { name, family: family(entry), value, words, predicted })
    };
    let label = match is_time && lesson.page.measure != Measure::Time {
        true => "microseconds".to_owned(),
        false => label(lesson),
    };
    let mut bars = Bars::new(Axis::new(label), shown.iter().filter_map(bar).collect());
    bars.caption.clone_from(&panel.caption);
    if !is_time {
        bars.roofs = roofs(lesson);
    }
    bars
}

/// The predicted time of an entry in microseconds.
fn predicted_time(lesson: &Lesson, entry: &Entry) -> Option<Predicted> {
    if let Some(each) = &lesson.page.each {
        let own = |name: &str| match name {
            "bytes" => Some(entry.bytes),
            "bank_conflicts" => entry.predicted.bank_conflicts,
            _ => None,
        };
        return Some(Predicted { value: lesson.formula(each, &own).ok()?, is_relative: false });
    }
    let of_entry = |one: &&page::Prediction| {
        one.entry(lesson).is_some_and(|of| (&of.name, of.at) == (&entry.name, entry.at))
    };
    let predictions = lesson.page.predictions.iter().filter(of_entry);
    let time = |prediction: &page::Prediction| {
        Some(Predicted { value: prediction.microseconds(lesson)?, is_relative: prediction.over.is_some() })
    };
    predictions.filter_map(time).next_back()
}

/// The limits of a lesson's rates, in its unit.
fn roofs(lesson: &Lesson) -> Vec<(String, f64)> {
    let roof =
        |(name, formula): (&String, &String)| Some((name.clone(), lesson.formula(formula, &|_| None).ok()?));
    lesson.page.roofs.iter().filter_map(roof).collect()
}

fn lines(lesson: &Lesson, panel: &page::Panel, shown: &[&Entry]) -> Lines {
    let mut series: Vec<Series> = Vec::new();
    for entry in shown {
        let Some(value) = lesson.value(entry) else { continue };
        let place = series.iter().position(|series| series.name == entry.name).unwrap_or_else(|| {
            series.push(Series::new(entry.name.clone(), family(entry), Vec::new()));
            series.len() - 1
        });
        series[place].points.push((entry.at, value));
        let predicted = predicted_time(lesson, entry)
            .map(|it| Predicted { value: lesson.value_of(entry, it.value), ..it });
        series[place].predicted.extend(predicted.map(|predicted| (entry.at, predicted)));
    }
    let scale = if lesson.page.log { Scale::Auto } else { Scale::Linear };
    let x = panel.x.as_ref().unwrap_or(&lesson.page.axis);
    let x = Axis::new(x.as_str()).format(binary).scale(scale);
    let mut lines = Lines::new(x, Axis::new(label(lesson)), series);
    lines.caption.clone_from(&panel.caption);
    lines.size = panel.size.unwrap_or(lines.size);
    lines.guides = roofs(lesson).into_iter().map(|(name, rate)| Guide::Roof(name, rate)).collect();
    if let Some(page::Guide { name, value, rung, at }) = &panel.guide {
        let of_rung = lesson.entries.iter().filter(|entry| Some(&entry.name) == rung.as_ref());
        let places = at.iter().copied().chain(of_rung.map(|entry| entry.at));
        let point =
            |place: f64| Some((place, lesson.formula(value, &|name| (name == "at").then_some(place)).ok()?));
        let points: Vec<(f64, f64)> = places.filter_map(point).collect();
        lines.guides.extend((!points.is_empty()).then(|| Guide::Predicted(name.clone(), points)));
    }
    lines
}
