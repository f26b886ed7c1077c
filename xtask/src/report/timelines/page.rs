//! The timelines on the page of the training ladder: pictures with one axis per machine, and their figures.

use crate::chart::{Axis, Chart, Panel, Scale, Span, Spans, number};
use crate::measure::with_section;
use crate::report::mlp::{self, USUAL, ladder};
use crate::report::timelines::traced::{Timelines, Traced};
use crate::report::{row, short_commit};

/// Pixels.
const WIDTH: u32 = 1100;
/// A rung that ends before this share of the common axis is also drawn magnified.
const SHORT: f64 = 0.3;
/// Up to this share, a step of a picture may differ from the table's without a remark.
const CLOSE: f64 = 0.1;

/// The workers shown in the lanes.
const WORKERS: [(&str, &[&str]); 3] = [
    ("the host decodes, queues, waits", &["load", "host", "fetch"]),
    ("the link copies", &["copy"]),
    ("the device runs kernels", &["kernels"]),
];

/// The picture of a timeline on the axis of all timelines of its machine.
///
/// # Errors
/// Drawing failed.
pub fn picture(traced: &Traced, all: &Timelines) -> anyhow::Result<String> {
    let until = all.of_machine(&traced.machine).map(Traced::end).fold(0.0, f64::max);
    let mut panels = vec![panel(traced, "", Some(until))];
    if traced.end() < SHORT * until {
        panels[0] = panel(traced, "on the axis of all rungs", Some(until));
        panels.push(panel(
            traced,
            &format!("the same, {} times magnified", number(until / traced.end())),
            None,
        ));
    }
    let title = format!(
        "{}: {} steps in {} ms, {} us each",
        traced.rung,
        traced.steps,
        number(traced.end() / 1e3),
        number(traced.of_step())
    );
    let subtitle = format!(
        "The first steps of epoch {} in batches of {USUAL}, precision {}; {}, commit {}, {}",
        traced.epoch,
        traced.precision,
        traced.machine,
        short_commit(&traced.commit),
        traced.date
    );
    Chart { title, subtitle, columns: 1, panels }.svg()
}

fn panel(traced: &Traced, caption: &str, until: Option<f64>) -> Panel {
    let lanes = traced.lanes.iter().map(|lane| {
        let group = WORKERS.iter().position(|(_, lanes)| lanes.contains(&lane.name.as_str())).unwrap_or(0);
        let span = |(from, to): (f64, f64)| Span { from: from / 1e3, to: to / 1e3, group };
        (lane.name.clone(), lane.spans().map(span).collect())
    });
    Panel::Spans(Spans {
        caption: caption.to_owned(),
        axis: Axis::new("milliseconds since just before the first step").scale(Scale::Linear),
        until: until.map(|until| until / 1e3),
        rows: lanes.collect(),
        groups: WORKERS.iter().map(|(name, _)| (*name).to_owned()).collect(),
        width: WIDTH,
    })
}

/// The page with the timelines of each rung, next to the figures of a bench run.
pub fn fill(page: &str, all: &Timelines, results: Option<&mlp::Results>) -> anyhow::Result<String> {
    let mut filled = page.to_owned();
    for name in ladder::rungs(page) {
        let of_rung: Vec<&Traced> = all.timelines.iter().filter(|traced| traced.rung == name).collect();
        let section = section(&of_rung, results);
        filled = with_section(ladder::PAGE, &filled, &format!("timelines {name}"), &section)?;
    }
    Ok(filled)
}

/// The pictures of one rung, a row of figures for each, and differences from the bench.
fn section(of_rung: &[&Traced], results: Option<&mlp::Results>) -> String {
    if of_rung.is_empty() {
        return "No timeline is drawn yet.\n".to_owned();
    }
    let mut text = String::new();
    for traced in of_rung {
        text += &format!("![{}, on {}]({})\n\n", traced.rung, traced.machine, traced.file());
    }
    let header = ["picture of", "commit", "date", "steps", "they end after", "a step", "a step of the bench"];
    text += &row(&header.map(str::to_owned));
    text += &row(&["---", "---", "---", "---:", "---:", "---:", "---:"].map(str::to_owned));
    let mut notes = String::new();
    for traced in of_rung {
        let bench = results.filter(|results| results.machine == traced.machine);
        let entry = bench.and_then(|bench| bench.entry((&traced.rung, &traced.precision), USUAL));
        let step = entry.and_then(|entry| entry.step_microseconds);
        text += &row(&[
            traced.machine.clone(),
            short_commit(&traced.commit),
            traced.date.clone(),
            traced.steps.to_string(),
            format!("{} ms", number(traced.end() / 1e3)),
            format!("{} us", number(traced.of_step())),
            step.map_or_else(String::new, |step| format!("{} us", number(step))),
        ]);
        // `naive` copies no batch, so its `copy` is from a time when `fetch` had that name.
        if traced.rung == "naive" && traced.lanes.iter().any(|lane| lane.name == "copy") {
            notes += &format!(
                "\nOn {}, the lane `copy` is what is called `fetch` today: how long the host waits, including the kernels \
                 before the copy.\n",
                traced.machine
            );
        }
        if let (Some(bench), Some(step)) = (bench, step) {
            notes += &note(traced, step, &bench.commit);
        }
    }
    text + &notes
}

/// A sentence for a difference between picture and bench.
fn note(traced: &Traced, step: f64, commit: &str) -> String {
    let share = traced.of_step() / step - 1.0;
    if share.abs() <= CLOSE {
        return String::new();
    }
    let (drawn, timed) = (short_commit(&traced.commit), short_commit(commit));
    let is_same = drawn.starts_with(&timed) || timed.starts_with(&drawn);
    let cause = match is_same {
        true => "The picture has its first steps only, with the recording of events".to_owned(),
        false => format!("The picture is of commit {drawn}, the bench of {timed}"),
    };
    let than = if share > 0.0 { "longer" } else { "shorter" };
    format!(
        "\nOn {}, a step of the picture is {:.0} % {than} than one of the bench. {cause}.\n",
        traced.machine,
        100.0 * share.abs()
    )
}
